// SPDX-License-Identifier: GPL-2.0 OR MIT
// The fabric at a glance. Everything is asked of the manager that served this page, and nothing is changed.

import { ask, byId, clock, element, none, perSecond, put, quantity } from "./model.js";
import { Detail } from "./detail.js";
import { Events } from "./events.js";
import { Matrix } from "./matrix.js";

// Between an answer and the next question.
const PERIOD = 2000;

// The same when something has happened.
const SOON = 500;

// The same while the manager does not answer.
const AGAIN = 1000;

const NODE_STATES = {
  started: "established",
  ready: "created",
  partial: "draining",
  unconfigured: "created",
  "shut-down": "stopped",
};
const SYMBOLS = { established: "●", created: "○", draining: "◐", stopped: "■", unknown: "?" };

let since = null;
let timer = 0;
let asking = false;
let ended = 0;
let rendered = 0;

const matrix = new Matrix((hash) => detail.open(hash));
let soon = 0;
const events = new Events(() => {
  hurry();
  // Many may come at once.
  soon ||= setTimeout(() => {
    soon = 0;
    detail.show();
  }, 250);
});
const detail = new Detail(() => events.all(), (keys) => matrix.choose(keys), () => matrix.focus());

async function round() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  let pause = PERIOD;
  try {
    const model = await ask();
    found();
    show(model);
    events.open(model.fabric.last_event);
    await detail.refresh(model);
  } catch (error) {
    lose(error);
    pause = AGAIN;
  }
  asking = false;
  ended = Date.now();
  if (!document.hidden) timer = setTimeout(round, pause);
}

function hurry() {
  if (asking || since !== null) return;
  clearTimeout(timer);
  timer = setTimeout(round, Math.max(0, ended + SOON - Date.now()));
}

function found() {
  since = null;
  byId("lost").hidden = true;
  document.body.classList.remove("stale");
}

function lose(error) {
  since ??= Date.now();
  const why = error.name === "TypeError" ? "it cannot be reached" : error.message;
  const told = `No answer from the manager since ${clock(since)}: ${why}.`;
  put(byId("lost"), `✕ ${told} What is shown is from before; this page tries again.`);
  byId("lost").hidden = false;
  put(byId("live"), "✕ no manager");
  document.title = "✕ no manager – SUPERp";
  document.body.classList.add("stale");
}

function show(model) {
  const { fabric } = model;
  put(byId("fabric"), fabric.name || "No fabric yet");
  put(byId("phase"), fabric.phase);
  byId("phase").className = `chip ${fabric.phase}`;
  put(byId("live"), `● live, ${clock(model.time)}`);
  const behind = fabric.started === fabric.generation ? "" : `, started: ${fabric.started}`;
  put(byId("generation"), `${fabric.generation}${behind}`);
  put(byId("term"), String(fabric.term));
  bar("ready", fabric.nodes_ready, fabric.nodes);
  bar("running", fabric.connections_running, fabric.connections);
  const trouble = model.totals.broken || fabric.waiting.length ? "✕ " : "";
  document.title = `${trouble}${fabric.name || "no fabric"}: ${fabric.phase} – SUPERp`;
  waiting(fabric.waiting);
  sums(model);
  nodes(model);
  matrix.show(model);
  rendered += 1;
  document.body.dataset.rendered = rendered;
}

function bar(name, value, of) {
  const bar = byId(`${name}-bar`);
  bar.max = Math.max(of, 1);
  bar.value = value;
  put(byId(name), `${value} of ${of}`);
}

function waiting(list) {
  byId("waiting").hidden = list.length === 0;
  const items = byId("waiting-list");
  while (items.childElementCount > list.length) items.lastElementChild.remove();
  while (items.childElementCount < list.length) items.append(element("li"));
  list.forEach((text, at) => put(items.children[at], text));
}

function sums({ sum, totals, nodes, connections, fabric }) {
  const tell = (name, text, bad) => {
    put(byId(name), text);
    byId(name).classList.toggle("bad", Boolean(bad));
  };
  const known = sum.known > 0;
  tell("sum-packets", known ? perSecond(sum.tx_packets) : "–");
  tell("sum-bytes", known ? perSecond(sum.tx_bytes, "B") : "–");
  const share = sum.tx_packets > 0 ? ` (${((100 * sum.retransmits) / sum.tx_packets).toFixed(2)} %)` : "";
  tell("sum-retransmits", known ? `${perSecond(sum.retransmits)}${share}` : "–");
  tell("sum-failed", known ? quantity(totals.failed) : "–", totals.failed > 0);
  tell("sum-broken", connections.length ? `${totals.broken} of ${fabric.connections}` : "–", totals.broken > 0);
  const silent = nodes.filter((node) => !node.state).length;
  tell("sum-silent", `${silent} of ${nodes.length}`, silent > 0);
}

// A row for each node, written where it changed.
function nodes(model) {
  const body = byId("nodes").tBodies[0];
  while (body.rows.length > model.nodes.length) body.deleteRow(-1);
  model.nodes.forEach((node, at) => {
    let line = body.rows[at];
    if (!line) {
      const cells = ["", "number", "number", "number", "number", "", ""].map((kind) => element("td", { class: kind }));
      const state = element("td", {}, element("span", { "aria-hidden": "true" }), " ", element("span"));
      line = element("tr", {}, element("th", { scope: "row" }), state, element("td", {}), ...cells);
      body.append(line);
    }
    const kind = NODE_STATES[node.state] ?? "unknown";
    const [mark, , text] = line.cells[1].childNodes;
    const why = node.error ? `: ${node.error}` : "";
    put(mark, SYMBOLS[kind]);
    if (mark.className !== `key ${kind}`) mark.className = `key ${kind}`;
    put(text, `${node.state ?? "no answer"}${node.leaving ? ", leaving" : ""}${why}`);
    const rates = model.byNode.get(node.name) ?? none();
    const rate = (name) => (rates.known ? perSecond(rates[name]) : "–");
    const down = node.ports_down ?? [];
    const ports = node.ports.map((port) => {
      const encaps = [port.sunh ? "sunh" : "", port.udp ? "udp" : ""].filter(Boolean).join(", ");
      return `${port.dev} (${encaps})${down.includes(port.dev) ? " ✕ down" : ""}`;
    });
    const texts = [
      node.name, null, node.address, ports.join("; "), String(node.connections), rate("tx_packets"), rate("rx_packets"),
      rate("retransmits"), node.agent, node.agent_version ?? "–",
    ];
    texts.forEach((text, at) => text === null || put(line.cells[at], text));
    line.classList.toggle("bad", !node.state || Boolean(node.error) || down.length > 0);
  });
}

// Nobody looks: nothing is asked, and the place of the stream is another's.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    clearTimeout(timer);
    events.close();
  } else round();
});
round();
