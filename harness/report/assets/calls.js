// All calls of a run as columns of numbers, and the values that each read returned.
"use strict";

// How a call is painted. Without a search for a value this is 1 + its kind: ok, fail, info.
const HIDDEN = 0, HOLDS = 4, LACKS = 5, NOT_DUE = 6;

// Returns the value that a page has as compressed JSON in base64.
async function decoded(encoded) {
  const bytes = Uint8Array.from(atob(encoded), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

class Calls {
  static async decode(encoded) { return new Calls(await decoded(encoded)); }

  constructor(data) {
    const count = data.begin.length;
    Object.assign(this, {
      count, names: data.names, kinds: data.kinds, value: data.value, length: data.length,
      until: Math.max(data.end_us, 1), faults: data.faults.map((fault) => ({ ...fault, to: fault.to ?? data.end_us })), witnesses: data.witnesses,
      begin: new Float64Array(count), end: new Float64Array(count), index: new Float64Array(count), endIndex: new Float64Array(count),
      node: Int32Array.from(data.node), f: Int32Array.from(data.f), kind: Uint8Array.from(data.kind),
      key: Int32Array.from(data.key), process: Int32Array.from(data.process), error: Int32Array.from(data.error),
    });
    for (let i = 0, ns = 0, at = 0; i < count; i++) {
      this.begin[i] = (ns += data.begin[i]) / 1000;
      this.index[i] = at += data.index[i];
      this.endIndex[i] = at + data.end[i];
      this.end[i] = data.length[i] < 0 ? data.end_us : (ns + data.length[i]) / 1000;
    }
    this.inserts = Uint8Array.from(this.f, (f) => data.inserts.includes(data.names.f[f]));
    this.reads = Uint8Array.from(this.f, (f) => data.reads.includes(data.names.f[f]));
    const byCall = (given) => { const all = new Array(count); for (const i in given) all[i] = given[i]; return all; };
    this.changes = byCall(data.changes); // of a read: the difference from the previous read of its series
    this.doubles = byCall(data.doubles);
    this.details = byCall(data.details);
    this.series = this.key.map((key, i) => key * data.names.node.length + this.node[i]); // one key on one node
    this.size = new Int32Array(count).fill(-1);
    const sets = new Map();
    this.#replayReads(sets, count, (i, set) => { this.size[i] = set.size; });
    this.lanes = this.#assignLanes();
  }

  // Visits the reads before call `last` with the set that each returned.
  #replayReads(sets, last, visit, only = -1) {
    for (let i = 0; i < last; i++) {
      const changes = this.changes[i];
      if (changes === undefined || (only >= 0 && this.series[i] !== only)) continue;
      let set = sets.get(this.series[i]);
      if (!set) sets.set(this.series[i], set = new Set());
      for (const v of changes) set.has(v) ? set.delete(v) : set.add(v);
      visit(i, set);
    }
  }

  // Returns the values of a read of a set, or null for another call.
  values(i) {
    if (this.changes[i] === undefined) return null;
    let found = [];
    this.#replayReads(new Map(), i + 1, (at, set) => { if (at === i) found = [...set]; }, this.series[i]);
    return found.sort((a, b) => Number(a) - Number(b));
  }

  // Classifies each call for a searched value: HOLDS it; LACKS it, though the read began after an insert into
  // its key was acknowledged; NOT_DUE, another read of such a key; or HIDDEN, unrelated. This is how set-full
  // counts: an acknowledgement and a read that begins at the same time are concurrent.
  classify(text) {
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

  // Returns the keys into which the value was inserted, with the time of the first acknowledgement, else Infinity.
  acknowledged(text) {
    const keys = new Map();
    for (let i = 0; i < this.count; i++) {
      if (!this.inserts[i] || this.value[i] === null || String(this.value[i]) !== text) continue;
      const end = this.kinds[this.kind[i]] === "ok" ? this.end[i] : Infinity;
      keys.set(this.key[i], Math.min(keys.get(this.key[i]) ?? Infinity, end));
    }
    return keys;
  }

  // Puts each call into the first lane of its node that is free when it begins. The calls of a lane do not
  // overlap, so both begins and ends are sorted. Nodes are sorted by name, ch2 before ch10.
  #assignLanes() {
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

  // Returns the texts of a row of the list.
  cells(i) {
    const { names } = this, took = this.length[i];
    const value = this.size[i] >= 0 ? plural(this.size[i], "value") : this.value[i] ?? this.details[i] ?? "";
    return ["#" + this.index[i], (this.begin[i] / 1e6).toFixed(6) + " s",
      took < 0 ? "never ended" : (took / 1e6).toLocaleString("en", { maximumFractionDigits: 3 }) + " ms",
      names.node[this.node[i]] ?? "–", String(this.process[i]), names.f[this.f[i]], String(names.key[this.key[i]] ?? "–"),
      String(value), this.kinds[this.kind[i]]];
  }
}

const plural = (n, one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;

// Returns the first index of a sorted array whose element is at least x, or greater than x if `after`.
function firstIndex(sorted, x, after = false) {
  return firstWhere(sorted.length, after ? (i) => sorted[i] > x : (i) => sorted[i] >= x);
}
