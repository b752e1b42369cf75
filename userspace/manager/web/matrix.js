// SPDX-License-Identifier: GPL-2.0 OR MIT
// Nodes by nodes: the row's end of its connections with the column.

import { byId, element, endState, perSecond, put, STATES, worst } from "./model.js";

// Shades of rates: from so many per second on.
const LEVELS = {
  packets: [0, 1, 100, 10_000, 1_000_000],
  retransmits: [0, 0.01, 1, 100, 10_000],
};
const BARS = ["·", "▁", "▃", "▅", "█"];

export class Matrix {
  #table = byId("matrix");
  #tell = byId("matrix-tell");
  #hint = byId("matrix-tell").textContent;
  #mode = byId("matrix-mode");
  #names = [];
  #index = new Map();
  #cells = [];
  #heads = [];
  #model = null;
  #at = 0;
  #pointed = -1;
  #chosen = new Set();
  #open;

  constructor(open) {
    this.#open = open;
    this.#mode.addEventListener("change", () => {
      this.#legend();
      if (this.#model) this.show(this.#model);
    });
    this.#legend();
    const cell = (event) => Number(event.target.closest?.("td")?.dataset.at ?? -1);
    this.#table.addEventListener("pointerover", (event) => this.#point(cell(event)));
    this.#table.addEventListener("pointerleave", () => this.#point(-1));
    this.#table.addEventListener("focusin", (event) => this.#point(cell(event)));
    this.#table.addEventListener("focusout", () => this.#point(-1));
    this.#table.addEventListener("click", (event) => this.#choose(cell(event)));
    this.#table.addEventListener("keydown", (event) => this.#key(event));
  }

  show(model) {
    this.#model = model;
    const names = model.nodes.map((node) => node.name);
    if (names.length !== this.#names.length || names.some((name, at) => name !== this.#names[at])) this.#build(names);
    for (const cell of this.#cells) cell.ends = null;
    for (const connection of model.connections) {
      const [row, column] = connection.ends.map((end) => this.#index.get(end.node));
      if (row === undefined || column === undefined) continue;
      [[row, column, 0], [column, row, 1]].forEach(([row, column, side]) => {
        const cell = this.#cells[row * names.length + column];
        (cell.ends ??= []).push([connection, side]);
      });
    }
    this.#cells.forEach((cell, at) => this.#draw(cell, at));
    if (this.#pointed >= 0) this.#describe();
  }

  // Marks the connections that are open beside it.
  choose(keys) {
    this.#chosen = new Set(keys);
    this.#cells.forEach((cell, at) => this.#draw(cell, at));
    // The focus comes back to what was open.
    const open = this.#cells.findIndex((cell) => this.#isChosen(cell));
    if (open >= 0 && !this.#isChosen(this.#cells[this.#at])) this.#stop(open);
  }

  #isChosen(cell) {
    return Boolean(cell.ends?.some(([connection]) => this.#chosen.has(connection.connection)));
  }

  focus() {
    this.#cells[this.#at]?.node.focus();
  }

  #build(names) {
    this.#names = names;
    this.#index = new Map(names.map((name, at) => [name, at]));
    const size = names.length <= 12 ? "large" : names.length <= 32 ? "medium" : "small";
    this.#table.className = `matrix ${size}`;
    const columns = names.map((name) => element("th", { scope: "col" }, element("span", {}, name)));
    const head = element("tr", {}, element("td", { class: "corner" }), ...columns);
    this.#cells = [];
    this.#heads = [columns, []];
    const rows = names.map((name, row) => {
      const title = element("th", { scope: "row" }, name);
      this.#heads[1].push(title);
      const cells = names.map((_, column) => {
        const at = row * names.length + column;
        const node = element("td", { role: "gridcell", tabindex: at === 0 ? "0" : "-1", "data-at": at });
        this.#cells.push({ node, kind: "", text: "", ends: null });
        return node;
      });
      return element("tr", {}, title, ...cells);
    });
    this.#at = 0;
    this.#pointed = -1;
    this.#table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
  }

  // Only what has changed is written.
  #draw(cell, at) {
    const count = this.#names.length;
    let [kind, text] = ["none", ""];
    if (cell.ends) {
      const state = worst(cell.ends.map(([connection, side]) => endState(connection, side)));
      [kind, text] = [state, STATES[state][0]];
      const mode = this.#mode.value;
      if (mode !== "state" && state === "established") {
        const rate = this.#rate(cell, mode === "packets" ? "tx_packets" : "retransmits");
        const level = rate === null ? -1 : LEVELS[mode].findLastIndex((from) => rate >= from);
        [kind, text] = level < 0 ? ["none", "–"] : [`${mode} level${level}`, BARS[level]];
      }
      if (this.#isChosen(cell)) kind += " chosen";
    } else if (Math.floor(at / count) === at % count) {
      kind = "self";
    }
    if (cell.kind !== kind) cell.node.className = cell.kind = kind;
    if (cell.text !== text) cell.node.textContent = cell.text = text;
  }

  #rate(cell, name) {
    const known = cell.ends.map(([connection, side]) => connection.ends[side].rates).filter(Boolean);
    return known.length ? known.reduce((sum, rates) => sum + rates[name], 0) : null;
  }

  #point(at) {
    const mark = (at, on) => {
      if (at < 0) return;
      this.#heads[0][at % this.#names.length]?.classList.toggle("pointed", on);
      this.#heads[1][Math.floor(at / this.#names.length)]?.classList.toggle("pointed", on);
    };
    mark(this.#pointed, false);
    mark(at, true);
    this.#pointed = at;
    this.#describe();
  }

  #describe() {
    const cell = this.#cells[this.#pointed];
    if (!cell) return put(this.#tell, this.#hint);
    const count = this.#names.length;
    const [from, to] = [this.#names[Math.floor(this.#pointed / count)], this.#names[this.#pointed % count]];
    const ends = (cell.ends ?? []).map(([connection, side]) => {
      const end = connection.ends[side];
      const state = STATES[endState(connection, side)][1];
      const why = end.cause ? ` (${end.cause})` : "";
      const rate = end.rates
        ? `; sends ${perSecond(end.rates.tx_packets, "packets")}, ${perSecond(end.rates.retransmits, "retransmits")}`
        : "";
      const want = connection.want === "run" ? "" : `; wanted: ${connection.want}`;
      return `${state}${why}${want}${rate}`;
    });
    if (ends.length > 1) ends[0] = `${ends.length} connections: ${ends[0]}`;
    if (ends.length === 0) ends.push(from === to ? "the node itself" : "no connection");
    const text = `${from} to ${to}: ${ends.join(" | ")}`;
    put(this.#tell, text);
    cell.node.setAttribute("aria-label", text);
  }

  #choose(at) {
    const ends = this.#cells[at]?.ends;
    if (!ends) return;
    this.#to(at);
    const [connection, side] = ends[0];
    const pair = `pair=${connection.ends[side].node}/${connection.ends[1 - side].node}`;
    this.#open(ends.length === 1 ? `connection=${connection.connection}` : pair);
  }

  #to(at) {
    this.#stop(at);
    this.#cells[at].node.focus();
  }

  // The cell that the tabulator key goes to.
  #stop(at) {
    this.#cells[this.#at]?.node.setAttribute("tabindex", "-1");
    this.#at = at;
    this.#cells[at].node.setAttribute("tabindex", "0");
  }

  #key(event) {
    const count = this.#names.length;
    const [row, column] = [Math.floor(this.#at / count), this.#at % count];
    const to = {
      ArrowUp: row > 0 ? this.#at - count : -1,
      ArrowDown: row < count - 1 ? this.#at + count : -1,
      ArrowLeft: column > 0 ? this.#at - 1 : -1,
      ArrowRight: column < count - 1 ? this.#at + 1 : -1,
      Home: row * count,
      End: row * count + count - 1,
    }[event.key];
    if (event.key === "Enter" || event.key === " ") this.#choose(this.#at);
    else if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    else if (to >= 0) this.#to(to);
    event.preventDefault();
  }

  #legend() {
    const mode = this.#mode.value;
    const item = (kind, symbol, text) =>
      element("li", {}, element("span", { class: `key ${kind}`, "aria-hidden": "true" }, symbol), text);
    const levels = (LEVELS[mode] ?? []).map((from, level) => {
      const text = level === 0 ? "none" : `from ${from.toLocaleString("en")}/s on`;
      return item(`${mode} level${level}`, BARS[level], text);
    });
    const states = Object.entries(STATES).reverse().filter(([state]) => mode === "state" || state !== "established");
    byId("legend").replaceChildren(...levels, ...states.map(([state, [symbol, text]]) => item(state, symbol, text)));
  }
}
