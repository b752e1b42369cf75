// SPDX-License-Identifier: GPL-2.0 OR MIT
// One connection: its ends, settings, rates, counters and events. What is open stands in the address of the page.

import { byId, element, endState, get, perSecond, put, quantity, STATES } from "./model.js";
import { row } from "./events.js";

// Events of a connection that are shown.
const EVENTS = 50;

// What the settings say of the extension opcodes, in words.
const EXTENSIONS = { true: "on", false: "off", auto: "if both ends have them" };

// Points of the curve of the packets sent.
const CURVE = 60;

function wanted() {
  try {
    const [kind, rest] = decodeURIComponent(location.hash.slice(1)).split(/=(.*)/s);
    return kind === "connection" || kind === "pair" ? { kind, what: rest ?? "" } : null;
  } catch {
    return null;
  }
}

export class Detail {
  #section = byId("detail");
  #heading = byId("detail-heading");
  #body = byId("detail-body");
  #events;
  #back;
  #marks;
  #model = null;
  #counters = null;
  #error = "";
  #curve = new Map();
  // They stay folded or unfolded, and keep the focus.
  #all = element("details", { id: "counters" }, element("summary"), element("div"));

  // events(): those that the page has; marks(keys): what is open; back(): where the focus goes.
  constructor(events, marks, back) {
    [this.#events, this.#marks, this.#back] = [events, marks, back];
    byId("detail-close").addEventListener("click", () => this.open(""));
    this.#section.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.open("");
    });
    addEventListener("hashchange", () => this.#changed(true));
    this.#changed(false);
  }

  open(hash) {
    if (hash) location.hash = hash;
    else {
      history.pushState(null, "", location.pathname);
      this.#changed(false);
      this.#back();
    }
  }

  async #changed(focus) {
    const open = wanted();
    this.#counters = null;
    this.#error = "";
    this.#curve.clear();
    this.#section.hidden = !open;
    await this.refresh();
    if (open && focus) {
      this.#heading.focus({ preventScroll: true });
      this.#section.scrollIntoView({ block: "nearest" });
    }
  }

  // Asks for the counters, and shows what there is.
  async refresh(model = this.#model) {
    this.#model = model;
    const open = wanted();
    if (open?.kind === "connection" && this.#listed(open.what)) {
      try {
        const counters = await get(`/v1/connections/${encodeURIComponent(open.what)}?counters=true`);
        [this.#counters, this.#error] = [counters, ""];
      } catch (error) {
        [this.#counters, this.#error] = [null, error.message];
      }
      // Another one may be open by now.
      if (wanted()?.what !== open.what) return;
    }
    this.show();
  }

  show() {
    const open = wanted();
    if (!open) return this.#marks([]);
    if (open.kind === "pair") return this.#pair(open.what.split("/"));
    const key = open.what;
    this.#marks([key]);
    const listed = this.#listed(key);
    const connection = this.#counters ?? listed;
    put(this.#heading, `Connection ${key}`);
    if (!connection) {
      const why = this.#model ? this.#error || `There is no connection ${key}.` : "asks the manager";
      return this.#fill([element("p", { class: "muted" }, why)]);
    }
    const rates = listed?.ends.map((end) => end.rates) ?? [null, null];
    this.#point(key, rates);
    this.#count(connection);
    const ends = this.#ends(connection, rates);
    this.#fill([ends, this.#draw(connection), this.#settings(connection), this.#all, this.#happened(connection)]);
  }

  // What is the same stays: it may be selected, or scrolled.
  #fill(parts) {
    const there = [...this.#body.children];
    if (there.length !== parts.length) return this.#body.replaceChildren(...parts);
    there.forEach((old, at) => old === parts[at] || old.isEqualNode(parts[at]) || old.replaceWith(parts[at]));
  }

  #listed(key) {
    return this.#model?.connections.find((connection) => connection.connection === key);
  }

  #pair([one, other]) {
    put(this.#heading, `Connections of ${one} and ${other}`);
    const found = (this.#model?.connections ?? []).filter((connection) => {
      const nodes = connection.ends.map((end) => end.node);
      return nodes.includes(one) && nodes.includes(other);
    });
    this.#marks(found.map((connection) => connection.connection));
    const items = found.map((connection) => {
      const link = element("a", { href: `#connection=${connection.connection}` }, connection.connection);
      return element("li", {}, this.#state(connection.state), " ", link, `, ${connection.settings.encap}`);
    });
    this.#fill([items.length ? element("ul", { class: "plain" }, ...items) : element("p", {}, "There is none.")]);
  }

  #state(state) {
    const [symbol, text] = STATES[state];
    const mark = element("span", { class: `key ${state}`, "aria-hidden": "true" }, symbol);
    return element("span", { class: "state" }, mark, ` ${text.split(/[:,]/)[0]}`);
  }

  #ends(connection, rates) {
    const { ends } = connection;
    const rate = (name, unit) => rates.map((rates) => (rates ? perSecond(rates[name], unit) : "–"));
    const total = (name) => ends.map((end) => (end.traffic ? (end.traffic[name] ?? 0).toLocaleString("en") : "–"));
    const line = (title, cells) =>
      element("tr", {}, element("th", { scope: "row" }, title), ...cells.map((cell) => element("td", {}, cell)));
    const head = ends.map((end) => element("th", { scope: "col" }, end.node));
    const lines = [
      line("State", ends.map((_, side) => this.#state(endState(connection, side)))),
      line("Address", ends.map((end) => end.address)),
      line("Id", ends.map((end) => String(end.cid))),
      line("Sends", rate("tx_packets", "packets")),
      line("Data", rate("tx_bytes", "B")),
      line("Retransmits", rate("retransmits")),
      line("Packets sent", total("tx_packets")),
      line("Packets received", total("rx_packets")),
      line("Sent again", total("retransmits")),
      line("Failed transactions", total("failed")),
    ];
    if (ends.some((end) => end.cause)) lines.splice(1, 0, line("Cause", ends.map((end) => end.cause ?? "")));
    return element("table", { class: "pairs ends" }, element("thead", {}, element("tr", {}, element("td"), ...head)),
      element("tbody", {}, ...lines));
  }

  #point(key, rates) {
    const points = this.#curve.get(key) ?? [[], []];
    const time = this.#model?.time;
    if (points.time !== time) {
      points.time = time;
      points.forEach((list, side) => {
        list.push(rates[side]?.tx_packets ?? 0);
        if (list.length > CURVE) list.shift();
      });
    }
    this.#curve.set(key, points);
  }

  #draw(connection) {
    const points = this.#curve.get(connection.connection);
    const most = Math.max(1, ...points.flat());
    const svg = (name, attributes) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      return made;
    };
    const text = `Packets sent, the last two minutes; at most ${perSecond(most)}`;
    const size = { viewBox: `0 0 ${CURVE - 1} 20`, preserveAspectRatio: "none" };
    const image = svg("svg", { ...size, role: "img", "aria-label": text });
    points.forEach((list, side) => {
      const place = (value, at) => `${CURVE - list.length + at},${(19.5 - (value / most) * 19).toFixed(2)}`;
      image.append(svg("polyline", { points: list.map(place).join(" "), class: `curve side${side}` }));
    });
    const names = connection.ends.map((end, side) => element("span", { class: `side${side}` }, `━ ${end.node} `));
    return element("figure", {}, image, element("figcaption", { class: "muted" }, ...names, text));
  }

  #settings(connection) {
    const { settings } = connection;
    const list = [
      ["Wanted", connection.want],
      ["Lives before", connection.life],
      ["First packet number", connection.start_psn],
      ["Encapsulation", settings.encap],
      ["Order", `${settings.ordered ? "ordered" : "unordered"}${settings.spray ? ", sprays" : ""}`],
      ["Extension opcodes", EXTENSIONS[settings.ext]],
      ["Partition", settings.partition || "none"],
      ["Traffic Class", settings.tclass],
      ...(settings["hop-limit"] === undefined ? [] : [["Hop Limit", settings["hop-limit"]]]),
      ...(settings.mtu === undefined ? [] : [["MTU", `${settings.mtu} B`]]),
      ...Object.entries(settings.params),
    ];
    const items = list.map(([name, value]) => {
      return element("div", {}, element("dt", {}, name), element("dd", {}, String(value)));
    });
    return element("dl", { class: "facts small" }, ...items);
  }

  #count(connection) {
    const counters = connection.ends.map((end) => end.counters ?? {});
    const names = [...new Set(counters.flatMap(Object.keys))].sort();
    const value = (name, value) => {
      if (value === undefined) return "–";
      if (!name.endsWith("-ns")) return value.toLocaleString("en");
      return value < 1e9 ? `${(value / 1000).toLocaleString("en")} µs` : `${(value / 1e9).toLocaleString("en")} s`;
    };
    const lines = names.map((name) => {
      const cells = counters.map((counters) => element("td", { class: "number" }, value(name, counters[name])));
      return element("tr", {}, element("th", { scope: "row" }, name), ...cells);
    });
    const head = connection.ends.map((end) => element("th", { scope: "col", class: "number" }, end.node));
    const table = element("table", { class: "pairs" }, element("thead", {}, element("tr", {}, element("td"), ...head)),
      element("tbody", {}, ...lines));
    const [summary, place] = this.#all.children;
    put(summary, `All counters (${names.length})`);
    const shown = names.length ? table : element("p", { class: "muted" }, "The agents have not told them yet.");
    if (!place.firstChild?.isEqualNode(shown)) place.replaceChildren(shown);
  }

  // Those of the manager name the connection, those of an agent its end.
  #happened(connection) {
    const { ends } = connection;
    const mine = (event) => event.connection === connection.connection || ends.some((end, side) => {
      const text = `connection ${end.cid} to ${ends[1 - side].address}`;
      const at = event.node === end.node ? event.text.indexOf(text) : -1;
      return at >= 0 && !/^[\w.:]*\w/.test(event.text.slice(at + text.length));
    });
    const found = this.#events().filter(mine).slice(0, EVENTS);
    const list = found.length
      ? element("ol", { class: "events short" }, ...found.map(row))
      : element("p", { class: "muted" }, "None of those that this page has.");
    return element("div", { id: "detail-events" }, element("h3", {}, "Events"), list);
  }
}
