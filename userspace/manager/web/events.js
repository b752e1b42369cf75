// SPDX-License-Identifier: GPL-2.0 OR MIT
// Events as they happen.

import { byId, clock, element, put } from "./model.js";

// Events that are kept here, and asked for at first.
const KEPT = 500;

// After this time the stream is asked for again.
const AGAIN = 1000;

const KINDS = ["apply", "connection", "job", "node", "phase", "report"];

export function row(event) {
  const about = event.node ?? event.connection;
  const time = element("time", { datetime: new Date(event.time_ms).toISOString() }, clock(event.time_ms));
  const kind = element("span", { class: `kind ${KINDS.includes(event.kind) ? event.kind : ""}` }, event.kind);
  const parts = [time, " ", kind, " "];
  if (event.connection) {
    parts.push(element("a", { class: "about", href: `#connection=${event.connection}` }, event.connection), ": ");
  } else if (about) parts.push(element("b", { class: "about" }, about), ": ");
  parts.push(element("span", { class: "text" }, event.text));
  const bad = /broken|hard error|does not answer|was refused|lost its state|are not kept/.test(event.text);
  return element("li", { class: bad ? "bad" : "", "data-seq": event.seq }, ...parts);
}

export class Events {
  // The newest first.
  #all = [];
  #list = byId("events");
  #filter = byId("events-filter");
  #kind = byId("events-kind");
  #pause = byId("events-pause");
  #state = byId("events-state");
  #paused = false;
  #waiting = 0;
  #source = null;
  #timer = 0;
  #last = null;
  #changed;

  constructor(changed) {
    this.#changed = changed;
    this.#kind.append(...KINDS.map((kind) => element("option", { value: kind }, kind)));
    this.#filter.addEventListener("input", () => this.#show());
    this.#kind.addEventListener("change", () => this.#show());
    this.#pause.addEventListener("click", () => {
      this.#paused = !this.#paused;
      this.#pause.setAttribute("aria-pressed", this.#paused);
      put(this.#pause, this.#paused ? "Go on" : "Pause");
      if (!this.#paused) this.#show();
      this.#tell();
    });
  }

  all() {
    return this.#all;
  }

  // Begins with the last ones, or goes on where it ended.
  open(newest) {
    this.#last ??= Math.max(0, newest - KEPT);
    if (this.#source || this.#timer) return;
    const source = new EventSource(`/v1/events/stream?after=${this.#last}`);
    this.#source = source;
    source.addEventListener("open", () => this.#tell());
    source.addEventListener("message", (message) => this.#add(JSON.parse(message.data)));
    source.addEventListener("lost", (message) => {
      const text = `${message.data} events before this are not kept any more`;
      this.#add({ seq: Number(message.lastEventId), time_ms: Date.now(), kind: "lost", text });
    });
    source.addEventListener("error", () => {
      this.close();
      this.#timer = setTimeout(() => {
        this.#timer = 0;
        this.open(this.#last);
      }, AGAIN);
      this.#tell();
    });
  }

  close() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#source?.close();
    this.#source = null;
  }

  #add(event) {
    // Lower numbers come from another store.
    if (event.seq <= this.#last) {
      this.#all = [];
      if (!this.#paused) this.#list.replaceChildren();
    }
    this.#last = event.seq;
    this.#all.unshift(event);
    this.#all.length = Math.min(this.#all.length, KEPT);
    if (this.#paused) {
      this.#waiting += 1;
    } else if (this.#fits(event)) {
      this.#list.prepend(row(event));
      while (this.#list.childElementCount > KEPT) this.#list.lastElementChild.remove();
    }
    this.#tell();
    this.#changed();
  }

  #fits(event) {
    const text = [event.node, event.connection, event.kind, event.text].join(" ").toLowerCase();
    return (!this.#kind.value || event.kind === this.#kind.value) && text.includes(this.#filter.value.toLowerCase());
  }

  #show() {
    // What came meanwhile is shown too; paused is what comes.
    this.#waiting = 0;
    this.#list.replaceChildren(...this.#all.filter((event) => this.#fits(event)).map(row));
    this.#tell();
  }

  #tell() {
    const live = this.#source?.readyState === EventSource.OPEN ? "live" : "no stream";
    put(this.#state, this.#paused ? `paused${this.#waiting ? `, ${this.#waiting} new` : ""}` : live);
  }
}
