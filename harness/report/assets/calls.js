// Every call of a run as columns of numbers, and what each of them returned.
"use strict";

// What a call is painted as; without a search for a value 1 + its kind: ok, fail, info.
const HIDDEN = 0, HOLDS = 4, LACKS = 5, NOT_DUE = 6;

class Calls {
  static async unpacked(packed) {
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Calls(await new Response(stream).json());
  }

  constructor(data) {
    const count = data.begin.length;
    Object.assign(this, {
      count, names: data.names, kinds: data.kinds, value: data.value, faults: data.faults, length: data.length,
      until: Math.max(data.end_us, 1), marked: data.marked,
      begin: new Float64Array(count), end: new Float64Array(count), index: new Float64Array(count),
      node: Int32Array.from(data.node), f: Int32Array.from(data.f), kind: Uint8Array.from(data.kind),
      key: Int32Array.from(data.key), process: Int32Array.from(data.process), error: Int32Array.from(data.error),
    });
    for (let i = 0, ns = 0, at = 0; i < count; i++) {
      this.begin[i] = (ns += data.begin[i]) / 1000;
      this.index[i] = at += data.index[i];
      this.end[i] = data.length[i] < 0 ? data.end_us : (ns + data.length[i]) / 1000;
    }
    this.inserts = Uint8Array.from(this.f, (f) => data.inserts.includes(data.names.f[f]));
    this.reads = Uint8Array.from(this.f, (f) => data.reads.includes(data.names.f[f]));
    const places = (given) => { const all = new Array(count); for (const i in given) all[i] = given[i]; return all; };
    this.changes = places(data.changes); // of a read: what it returned other than the last one of its series
    this.doubles = places(data.doubles);
    this.details = places(data.details);
    this.series = this.key.map((key, i) => key * data.names.node.length + this.node[i]); // one key on one node
    this.size = new Int32Array(count).fill(-1);
    const sets = new Map();
    this.#follow(sets, count, (i, set) => { this.size[i] = set.size; });
    this.lanes = this.#laid();
  }

  // Runs through the reads up to call `last` with the set that each returned.
  #follow(sets, last, see, only = -1) {
    for (let i = 0; i < last; i++) {
      const changes = this.changes[i];
      if (changes === undefined || (only >= 0 && this.series[i] !== only)) continue;
      let set = sets.get(this.series[i]);
      if (!set) sets.set(this.series[i], set = new Set());
      for (const v of changes) set.has(v) ? set.delete(v) : set.add(v);
      see(i, set);
    }
  }

  // What a read returned; null: it is no read of a set.
  values(i) {
    if (this.changes[i] === undefined) return null;
    let found = [];
    this.#follow(new Map(), i + 1, (at, set) => { if (at === i) found = [...set]; }, this.series[i]);
    return found.sort((a, b) => Number(a) - Number(b));
  }

  // For each call: HOLDS; LACKS, a read that must have had the value, for it began after an insert into
  // its key was acknowledged; NOT_DUE, another read of such a key; or HIDDEN, not about the value. It is
  // what set-full counts: an acknowledgement and a read that begins at the very same time are concurrent.
  holding(text) {
    const out = new Uint8Array(this.count), same = (v) => String(v) === text;
    const holds = new Set(), keys = this.acknowledged(text);
    for (let i = 0; i < this.count; i++) {
      const changes = this.changes[i], series = this.series[i], key = this.key[i];
      if (changes === undefined) {
        if (this.value[i] !== null && same(this.value[i])) out[i] = HOLDS;
        continue;
      }
      if (changes.length && changes.some(same)) holds.has(series) ? holds.delete(series) : holds.add(series);
      if (holds.has(series)) out[i] = HOLDS;
      else if (keys.has(key)) out[i] = this.reads[i] && this.begin[i] > keys.get(key) ? LACKS : NOT_DUE;
    }
    return out;
  }

  // The keys into which the value was inserted: when that was first acknowledged; Infinity: never.
  acknowledged(text) {
    const keys = new Map();
    for (let i = 0; i < this.count; i++) {
      if (!this.inserts[i] || this.value[i] === null || String(this.value[i]) !== text) continue;
      const end = this.kinds[this.kind[i]] === "ok" ? this.end[i] : Infinity;
      keys.set(this.key[i], Math.min(keys.get(this.key[i]) ?? Infinity, end));
    }
    return keys;
  }

  // Each call in the first lane of its node that is free when it begins: in a lane none overlap, so
  // that both begins and ends are in order of time. Nodes by name, ch2 before ch10.
  #laid() {
    const { names, begin, end } = this, lanes = [];
    const text = (n) => String(names.node[n] ?? "");
    const nodes = names.node.map((_, n) => n).sort((a, b) => text(a).localeCompare(text(b), "en", { numeric: true }));
    const calls = new Map(nodes.map((n) => [n, []]));
    for (let i = 0; i < this.count; i++) calls.get(this.node[i]).push(i);
    nodes.forEach((node, place) => {
      const own = [], free = [];
      for (const i of calls.get(node)) {
        let at = free.findIndex((until) => until <= begin[i]);
        if (at < 0) { at = free.length; own.push([]); }
        free[at] = Math.max(end[i], begin[i] + 1);
        own[at].push(i);
      }
      own.forEach((some, at) => lanes.push({
        name: at ? "" : text(node) || "–", place, calls: Int32Array.from(some),
        begin: Float64Array.from(some, (i) => begin[i]), end: Float64Array.from(some, (i) => end[i]),
      }));
    });
    return lanes;
  }

  // A row of the list, as text.
  cells(i) {
    const { names } = this, took = this.length[i];
    const said = this.size[i] >= 0 ? many(this.size[i], "value") : this.value[i] ?? this.details[i] ?? "";
    return ["#" + this.index[i], (this.begin[i] / 1e6).toFixed(6) + " s",
      took < 0 ? "never ended" : (took / 1e6).toLocaleString("en", { maximumFractionDigits: 3 }) + " ms",
      names.node[this.node[i]] ?? "–", String(this.process[i]), names.f[this.f[i]], String(names.key[this.key[i]] ?? "–"),
      String(said), this.kinds[this.kind[i]]];
  }
}

const many = (n, one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;

// The first place of a sorted array whose element is at least, or `after`: greater than, x.
function placeOf(sorted, x, after = false) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (after ? sorted[mid] <= x : sorted[mid] < x) low = mid + 1; else high = mid;
  }
  return low;
}
