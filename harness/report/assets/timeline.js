// The timeline of a report: every call as a bar, by node; zoom, pan, filters, search by value.
"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  const packed = $("calls").textContent;
  const canvas = $("canvas");
  if (!packed || !canvas) return;

  // --- the calls -------------------------------------------------------------------------------
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(stream).json();
  const count = data.begin.length;
  const begin = new Float64Array(count), end = new Float64Array(count), index = new Float64Array(count);
  for (let i = 0, us = 0, at = 0; i < count; i++) {
    begin[i] = us += data.begin[i];
    index[i] = at += data.index[i];
    end[i] = data.length[i] < 0 ? data.end_us : us + data.length[i];
  }
  const { names, kinds } = data;
  const marked = new Set(data.marked);
  const whole = Math.max(data.end_us, 1);

  // Each call in the first lane of its node that is free when it begins.
  const nodes = names.node.map((_, n) => n).sort((a, b) => String(names.node[a]).localeCompare(String(names.node[b]), "en", { numeric: true }));
  const lanes = [], lane = new Int32Array(count), firstLane = new Map();
  const byNode = nodes.map(() => []);
  for (let i = 0; i < count; i++) byNode[nodes.indexOf(data.node[i])].push(i);
  byNode.forEach((calls, n) => {
    const free = [];
    firstLane.set(n, lanes.length);
    for (const i of calls) {
      let at = free.findIndex((until) => until <= begin[i]);
      if (at < 0) { at = free.length; free.push(0); lanes.push({ node: n, calls: [] }); }
      free[at] = Math.max(end[i], begin[i] + 1);
      lane[i] = firstLane.get(n) + at;
      lanes[lane[i]].calls.push(i);
    }
  });

  const many = (n, one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;

  // --- filters ---------------------------------------------------------------------------------
  const form = $("filters"), shown = new Uint8Array(count);
  const HIDDEN = 0, PLAIN = 1, HOLDS = 2, LACKS = 3;
  const fill = (select, texts) => texts.forEach((text, i) => select.add(new Option(text ?? "–", String(i))));
  fill(form.elements.node, names.node);
  fill(form.elements.f, names.f);
  fill(form.elements.kind, kinds);

  // Follows the changes of each key on each node: which reads hold the value.
  function holders(text) {
    const holds = new Map(), out = new Map();
    const same = (v) => String(v) === text;
    for (let i = 0; i < count; i++) {
      const changes = data.changes[i];
      if (changes === undefined) {
        if (data.value[i] !== null && same(data.value[i])) out.set(i, HOLDS);
        continue;
      }
      const at = data.key[i] + "/" + data.node[i];
      if (changes.some(same)) holds.set(at, !holds.get(at));
      out.set(i, holds.get(at) ? HOLDS : LACKS);
    }
    return out;
  }

  function valuesOf(i) {
    if (data.changes[i] === undefined) return null;
    const now = new Set();
    for (let j = 0; j <= i; j++) {
      if (data.changes[j] === undefined || data.key[j] !== data.key[i] || data.node[j] !== data.node[i]) continue;
      for (const v of data.changes[j]) now.has(v) ? now.delete(v) : now.add(v);
    }
    return [...now].sort((a, b) => Number(a) - Number(b));
  }

  function filter() {
    const want = Object.fromEntries(new FormData(form));
    const value = (want.value || "").trim(), key = (want.key || "").trim(), process = (want.process || "").trim();
    const found = value ? holders(value) : null;
    let holds = 0, lacks = 0, matching = 0;
    for (let i = 0; i < count; i++) {
      const fits = (!want.node || data.node[i] == want.node) && (!want.f || data.f[i] == want.f)
        && (!want.kind || data.kind[i] == want.kind) && (!key || String(names.key[data.key[i]]) === key)
        && (!process || String(data.process[i]) === process);
      shown[i] = !fits ? HIDDEN : !found ? PLAIN : found.get(i) ?? HIDDEN;
      matching += shown[i] !== HIDDEN;
      holds += shown[i] === HOLDS;
      lacks += shown[i] === LACKS;
    }
    $("matching").textContent = found
      ? `value ${value}: in ${many(holds, "call")}; ${many(lacks, "read")} without it`
      : `${matching.toLocaleString("en")} of ${count.toLocaleString("en")} calls`;
    draw();
  }

  // --- drawing ---------------------------------------------------------------------------------
  const TOP = 22, LABEL = 54, AXIS = 22;
  let from = 0, to = whole, chosen = -1, queued = false, listing = 0;
  const laneHeight = () => Math.max(3, Math.min(16, Math.floor(420 / Math.max(lanes.length, 1))));
  const NODE_GAP = 8;
  const yOf = (l) => TOP + l * laneHeight() + (lanes[l].node + 1) * NODE_GAP;
  const height = () => TOP + lanes.length * laneHeight() + (nodes.length + 1) * NODE_GAP + AXIS;
  const width = () => canvas.clientWidth;
  const xOf = (us) => LABEL + (us - from) / (to - from) * (width() - LABEL - 4);
  const usOf = (x) => from + (x - LABEL) / (width() - LABEL - 4) * (to - from);
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  // The first call of a lane that may reach into the view: calls of a lane do not overlap.
  function firstIn(calls) {
    let low = 0, high = calls.length;
    while (low < high) { const mid = (low + high) >> 1; if (end[calls[mid]] < from) low = mid + 1; else high = mid; }
    return low;
  }

  function draw() {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => { queued = false; paint(); });
    clearTimeout(listing);
    listing = setTimeout(list, 120);
  }

  function paint() {
    const scale = window.devicePixelRatio || 1, w = width(), h = height();
    canvas.style.height = h + "px";
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(h * scale);
    const c = canvas.getContext("2d");
    c.scale(scale, scale);
    c.font = "12px system-ui, sans-serif";
    const colour = Object.fromEntries(["ok", "fail", "info", "fault", "dim", "ink", "rule", "accent", "invalid", "marked"].map((n) => [n, variable(n)]));
    faults(c, colour, h);
    axis(c, colour, w, h);
    const tall = Math.max(2, laneHeight() - 2), paints = [colour.ok, colour.fail, colour.info];
    const late = [];
    lanes.forEach(({ calls }, l) => {
      const y = yOf(l);
      // What would fall on pixels that are painted alike already is left out.
      const reached = [-1, -1, -1, -1, -1];
      for (let k = firstIn(calls); k < calls.length && begin[calls[k]] <= to; k++) {
        const i = calls[k];
        if (shown[i] === HIDDEN) continue;
        if (marked.has(i) || i === chosen) late.push(i);
        const tone = shown[i] === HOLDS ? 3 : shown[i] === LACKS ? 4 : data.kind[i];
        const x0 = Math.max(xOf(begin[i]), LABEL), x1 = Math.min(Math.max(xOf(end[i]), x0 + 1), w);
        if (x1 <= reached[tone]) continue;
        reached[tone] = Math.ceil(x1);
        c.fillStyle = tone === 3 ? colour.accent : tone === 4 ? colour.invalid : paints[tone];
        c.fillRect(x0, y, Math.max(x1 - x0 - (x1 - x0 > 4 ? 1 : 0), 1), tall);
      }
    });
    for (const i of late) {
      c.strokeStyle = i === chosen ? colour.ink : colour.marked;
      c.lineWidth = 2;
      const x0 = Math.max(xOf(begin[i]), LABEL);
      c.strokeRect(x0 - 2, yOf(lane[i]) - 2, Math.max(xOf(end[i]) - x0, 2) + 4, tall + 4);
    }
    labels(c, colour, w);
    if (!canvas.dataset.ready) performance.mark("timeline-ready");
    canvas.dataset.from = from; canvas.dataset.to = to; canvas.dataset.ready = "yes";
  }

  function faults(c, colour, h) {
    let reached = LABEL;
    for (const fault of data.faults) {
      const until = fault.end ?? data.end_us;
      if (until < from || fault.begin > to) continue;
      const x0 = Math.max(xOf(fault.begin), LABEL), x1 = Math.max(xOf(until), x0 + 2);
      c.globalAlpha = 0.14;
      c.fillStyle = colour.fault;
      c.fillRect(x0, 0, x1 - x0, h - AXIS);
      c.globalAlpha = 1;
      const text = `${fault.name} ${fault.text}`, wide = c.measureText(text).width;
      if (x0 >= reached && wide < Math.max(x1 - x0, 60) + 40) {
        c.fillText(text, x0 + 3, 14);
        reached = x0 + wide + 8;
      } else if (x0 >= reached && x1 - x0 > 12) {
        c.save(); c.beginPath(); c.rect(x0, 0, x1 - x0, TOP); c.clip(); c.fillText(text, x0 + 3, 14); c.restore();
        reached = x1;
      }
    }
  }

  function axis(c, colour, w, h) {
    const span = (to - from) / 1e6, rough = span / Math.max(2, w / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    c.fillStyle = colour.dim; c.strokeStyle = colour.rule; c.lineWidth = 1; c.textAlign = "center";
    for (let s = Math.ceil(from / 1e6 / step) * step; s <= to / 1e6; s += step) {
      const x = Math.round(xOf(s * 1e6)) + 0.5;
      c.beginPath(); c.moveTo(x, TOP); c.lineTo(x, h - AXIS); c.stroke();
      if (x > LABEL + 14 && x < w - 18) c.fillText(s.toFixed(digits) + " s", x, h - 6);
    }
    c.textAlign = "start";
  }

  function labels(c, colour) {
    c.fillStyle = colour.ink;
    nodes.forEach((name, n) => {
      const l = firstLane.get(n), text = String(names.node[name] ?? "–");
      c.save(); c.beginPath(); c.rect(0, 0, LABEL - 4, height()); c.clip();
      c.fillText(text, 6, yOf(l) + 11);
      c.restore();
    });
  }

  // --- the list and the details: text, for whoever does not see or use the canvas ----------------
  const ROWS = 50;
  const says = (i) => data.changes[i] !== undefined ? null : data.value[i] !== null ? String(data.value[i]) : data.details[i] ?? "";
  const took = (i) => data.length[i] < 0 ? "never ended" : (data.length[i] / 1000).toLocaleString("en", { maximumFractionDigits: 3 }) + " ms";
  function cells(i) {
    return ["#" + index[i], (begin[i] / 1e6).toFixed(6) + " s", took(i), names.node[data.node[i]] ?? "–", data.process[i],
      names.f[data.f[i]], names.key[data.key[i]] ?? "–", says(i) ?? many(sizes.get(i), "value"), kinds[data.kind[i]]];
  }
  // How many values each read returned, found once.
  const sizes = new Map(), sets = new Map();
  for (let i = 0; i < count; i++) {
    const changes = data.changes[i];
    if (changes === undefined) continue;
    const at = data.key[i] + "/" + data.node[i];
    if (!sets.has(at)) sets.set(at, new Set());
    const now = sets.get(at);
    for (const v of changes) now.has(v) ? now.delete(v) : now.add(v);
    sizes.set(i, now.size);
  }
  sets.clear();

  let listed = null;
  function list() {
    const body = $("list").tBodies[0], rows = [];
    let inView = 0;
    for (let i = 0; i < count && begin[i] <= to; i++) {
      if (shown[i] === HIDDEN || end[i] < from) continue;
      if (inView++ < ROWS) rows.push(i);
    }
    if (listed !== rows.join()) body.replaceChildren(...rows.map((i) => {
      const row = document.createElement("tr");
      row.dataset.call = i;
      for (const text of cells(i)) row.insertCell().textContent = text;
      row.cells[8].className = "kind-" + kinds[data.kind[i]];
      return row;
    }));
    listed = rows.join();
    $("list").caption.textContent = `${many(inView, "call")} in view` + (inView > ROWS ? `, the first ${ROWS}:` : ":");
  }

  function detail(i) {
    chosen = i;
    const box = $("detail"), values = valuesOf(i), doubles = data.doubles[i];
    const labels = ["op", "began", "took", "node", "process", "operation", "key", "value", "outcome"];
    const rows = labels.map((label, n) => [label, cells(i)[n]]);
    if (values) rows[7] = ["returned", `${many(values.length, "value")}: ${values.join(" ")}`];
    if (doubles) rows.push(["more than once", doubles.join(" ")]);
    if (data.error[i] >= 0) rows.push(["error", names.error[data.error[i]]]);
    if (data.details[i] !== undefined) rows.push(["details", data.details[i]]);
    box.replaceChildren(...rows.flatMap(([label, text]) => {
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = label;
      dd.textContent = text;
      return [dt, dd];
    }));
    box.hidden = false;
    draw();
  }

  // --- moving ----------------------------------------------------------------------------------
  function view(a, b) {
    const span = Math.min(Math.max(b - a, 20), whole * 1.02), low = -whole * 0.01;
    from = Math.min(Math.max(a, low), low + whole * 1.02 - span);
    to = from + span;
    draw();
  }
  const zoom = (factor, at = (from + to) / 2) => view(at - (at - from) * factor, at + (to - at) * factor);
  const pan = (share) => view(from + (to - from) * share, to + (to - from) * share);
  const reset = () => view(-whole * 0.01, whole * 1.01);
  function toAnomaly() {
    const some = [...marked];
    const a = Math.min(...some.map((i) => begin[i])), b = Math.max(...some.map((i) => end[i]));
    view(a - (b - a + 1000) * 0.1, b + (b - a + 1000) * 0.1);
  }
  function callAt(x, y) {
    const l = lanes.findIndex((_, n) => y >= yOf(n) - 1 && y < yOf(n) + laneHeight() - 1);
    if (l < 0) return -1;
    let best = -1, nearest = 4;
    const { calls } = lanes[l];
    for (let k = firstIn(calls); k < calls.length && begin[calls[k]] <= to; k++) {
      const i = calls[k];
      if (shown[i] === HIDDEN) continue;
      const away = Math.max(xOf(begin[i]) - x, x - Math.max(xOf(end[i]), xOf(begin[i]) + 1), 0);
      if (away < nearest) { nearest = away; best = i; }
    }
    return best;
  }
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / width());
    else zoom(Math.exp(event.deltaY / 400), usOf(event.offsetX));
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.offsetX, from, to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) return;
    const by = (held.x - event.offsetX) / (width() - LABEL) * (held.to - held.from);
    held.moved ||= Math.abs(event.offsetX - held.x) > 3;
    if (held.moved) view(held.from + by, held.to + by);
  });
  canvas.addEventListener("pointerup", (event) => {
    const was = held;
    held = null;
    if (!was || was.moved) return;
    const i = callAt(event.offsetX, event.offsetY);
    if (i >= 0) detail(i);
  });
  canvas.addEventListener("pointercancel", () => { held = null; });
  canvas.addEventListener("dblclick", (event) => zoom(0.25, usOf(event.offsetX)));
  canvas.addEventListener("keydown", (event) => {
    const act = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: reset }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  $("zoom-in").addEventListener("click", () => zoom(0.5));
  $("zoom-out").addEventListener("click", () => zoom(2));
  $("whole").addEventListener("click", reset);
  $("to-anomaly").hidden = marked.size === 0;
  $("to-anomaly").addEventListener("click", toAnomaly);
  $("list").addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-call]");
    if (row) detail(Number(row.dataset.call));
  });
  form.addEventListener("input", filter);
  form.addEventListener("change", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { reset(); filter(); }));
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", paint);
  reset();
  filter();
})();
