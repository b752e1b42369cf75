// SPDX-License-Identifier: GPL-2.0 OR MIT
// What the manager tells, and what follows from two answers: rates.

// States of an end of a connection, the worst first: symbol, and what it means.
export const STATES = {
  broken: ["✕", "broken, or down since it broke"],
  unknown: ["?", "not known: the node does not answer or does not have it"],
  stopped: ["■", "stopped"],
  draining: ["◐", "draining: completes what was begun"],
  created: ["○", "created: waits for the start"],
  established: ["●", "established"],
};
const ORDER = Object.keys(STATES);

// The documents change every second or so.
const PATIENCE = 10_000;

export async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE), cache: "no-store" });
  if (answer.ok) return answer.json();
  let why = `status ${answer.status}`;
  try {
    why = (await answer.json()).detail ?? why;
  } catch {
    // Not the manager's: something between may have answered.
  }
  throw new Error(why);
}

// The manager resets what breaks at once; what is to stay down then looks as if it were new.
export function endState(connection, side) {
  const { state } = connection.ends[side];
  if (connection.want === "hold" && state) return "broken";
  return state in STATES ? state : "unknown";
}

export function worst(states) {
  return ORDER.find((state) => states.includes(state)) ?? "unknown";
}

const COUNTS = ["tx_packets", "rx_packets", "tx_bytes", "rx_bytes", "retransmits", "failed"];

// Per second, of each end of a connection, from what it had at two times.
class Rates {
  #before = new Map();

  of(key, life, traffic) {
    if (!traffic) return null;
    const before = this.#before.get(key);
    if (before && before.life === life && before.time === traffic.time_ms) return before.rates;
    const counts = COUNTS.map((name) => traffic[name] ?? 0);
    let rates = null;
    // Counters of another life begin at zero.
    if (before && before.life === life && counts.every((count, at) => count >= before.counts[at])) {
      const seconds = (traffic.time_ms - before.time) / 1000;
      if (seconds > 0) {
        rates = Object.fromEntries(COUNTS.map((name, at) => [name, (counts[at] - before.counts[at]) / seconds]));
      }
    }
    this.#before.set(key, { life, time: traffic.time_ms, counts, rates });
    return rates;
  }

  keep(keys) {
    for (const key of this.#before.keys()) if (!keys.has(key)) this.#before.delete(key);
  }
}

const rates = new Rates();

export function none() {
  return { known: 0, tx_packets: 0, rx_packets: 0, tx_bytes: 0, rx_bytes: 0, retransmits: 0, failed: 0 };
}

export function add(sum, rates) {
  if (!rates) return;
  sum.known += 1;
  for (const name of COUNTS) sum[name] += rates[name];
}

// Everything that the page shows, but for the events and the counters of one connection.
export async function ask() {
  const [fabric, nodes, connections] = await Promise.all([
    get("/v1/fabric"),
    get("/v1/nodes"),
    get("/v1/connections?counters=true"),
  ]);
  const keys = new Set();
  const sum = none();
  const byNode = new Map(nodes.map((node) => [node.name, none()]));
  const totals = { failed: 0, retransmits: 0, broken: 0 };
  for (const connection of connections) {
    const states = connection.ends.map((_, side) => endState(connection, side));
    connection.state = worst(states);
    totals.broken += states.includes("broken") ? 1 : 0;
    connection.ends.forEach((end, side) => {
      const key = `${connection.connection}/${side}`;
      keys.add(key);
      end.rates = rates.of(key, connection.life, end.traffic);
      add(sum, end.rates);
      const node = byNode.get(end.node);
      if (node) add(node, end.rates);
      totals.failed += end.traffic?.failed ?? 0;
      totals.retransmits += end.traffic?.retransmits ?? 0;
    });
  }
  rates.keep(keys);
  return { fabric, nodes, connections, sum, byNode, totals, time: new Date() };
}

// Text.

const SCALE = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

export function quantity(value) {
  for (const [size, letter] of SCALE) {
    if (value >= size) return `${(value / size).toFixed(value / size < 10 ? 2 : 1)} ${letter}`;
  }
  return value === 0 || value >= 10 ? `${Math.round(value)}` : value.toFixed(1);
}

export function perSecond(value, unit = "") {
  const text = quantity(value);
  // 1.2 MB/s, 12 B/s, 1.2 M packets/s, 1.2 M/s
  const space = unit.length > 1 || (unit && !/[a-z]$/i.test(text)) ? " " : "";
  return `${text}${space}${unit}/s`;
}

export function clock(ms) {
  const date = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// The document. Nothing here makes markup of text.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function byId(id) {
  return document.getElementById(id);
}
