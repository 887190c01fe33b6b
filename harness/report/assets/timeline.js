// The timeline of a report: filters, search by value, navigation, the list of calls, and the URL of the view.
"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  const encoded = $("calls").textContent, canvas = $("canvas"), form = $("filters");
  if (!encoded || !canvas) return;
  const calls = await Calls.decode(encoded), painter = new Painter(canvas, calls, draw), { axis } = painter;
  const statements = await Statements.decode($("statements")?.textContent);
  const { names, count } = calls;
  const latencies = new Latencies(calls), scatter = new Scatter($("scatter"), painter, latencies);
  const lines = [["rate", new Rates(1)], ["quantiles", latencies], ["medians", latencies]].map(([id, scale]) => new Lines($(id), painter, scale));

  // --- filters ---------------------------------------------------------------------------------
  const fields = ["node", "f", "kind", "key", "process", "value"];
  const fill = (name, texts) => texts.forEach((text, i) => form.elements[name].add(new Option(text ?? "–", String(i))));
  fill("node", names.node);
  fill("f", names.f);
  fill("kind", calls.kinds);
  $("keys").append(...names.key.slice(0, 1000).map((key) => new Option("", String(key ?? "–"))));

  function filter() {
    const want = Object.fromEntries(fields.map((name) => [name, form.elements[name].value.trim()]));
    const number = (text) => text === "" ? -1 : Number(text);
    const node = number(want.node), f = number(want.f), kind = number(want.kind);
    const key = want.key === "" ? -1 : names.key.findIndex((k) => String(k ?? "–") === want.key), noKey = want.key !== "" && key < 0;
    const process = want.process === "" ? null : Number(want.process);
    const found = want.value ? calls.classify(want.value) : null, tally = new Int32Array(7), { shown } = painter;
    for (let i = 0; i < count; i++) {
      const fits = !noKey && (node < 0 || calls.node[i] === node) && (f < 0 || calls.f[i] === f)
        && (kind < 0 || calls.kind[i] === kind) && (key < 0 || calls.key[i] === key)
        && (process === null || calls.process[i] === process);
      shown[i] = !fits ? HIDDEN : found ? found[i] : 1 + calls.kind[i];
      tally[shown[i]]++;
    }
    const matching = count - tally[HIDDEN];
    $("matching").textContent = want.value
      ? `value ${want.value}: in ${plural(tally[HOLDS], "call")}; ${missing(want.value, tally)}`
      : `${matching.toLocaleString("en")} of ${plural(count, "call")}`;
    $("none").hidden = matching > 0;
    draw();
  }

  function missing(value, tally) {
    const acks = [...calls.acknowledged(value).values()];
    if (!acks.some(Number.isFinite)) return acks.length ? "never acknowledged" : "never inserted";
    const others = tally[NOT_DUE] ? `, and rightly not in ${tally[NOT_DUE].toLocaleString("en")} begun before that` : "";
    return `missing from ${plural(tally[LACKS], "read")} begun after its acknowledgement${others}`;
  }

  // --- painting: at most once a frame; the list and the lines follow when no input arrives ----------
  let queued = false, listing = 0;
  function draw() {
    clearTimeout(listing);
    listing = setTimeout(() => { lines.forEach((chart) => chart.paint()); list(); saveToUrl(); }, 150);
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => { queued = false; paint(); });
  }

  function paint() {
    painter.paint();
    scatter.paint();
    if (!canvas.dataset.ready) performance.mark("timeline-ready");
    canvas.dataset.ready = "yes";
  }

  function restyle() {
    painter.restyle();
    [scatter, ...lines].forEach((chart) => { chart.restyle(); chart.paint(); });
    paint();
  }

  // --- the list and the details: the canvas as text ------------------------------------------------
  const ROWS = 50;
  let listed = null;
  function list() {
    const rows = [];
    let inView = 0;
    for (let i = 0, last = firstIndex(calls.begin, axis.to, true); i < last; i++) {
      if (painter.shown[i] === HIDDEN || calls.end[i] < axis.from) continue;
      if (inView++ < ROWS) rows.push(i);
    }
    if (listed !== rows.join()) $("list").tBodies[0].replaceChildren(...rows.map(row));
    listed = rows.join();
    $("shortened").textContent = painter.bands.legend("Faults");
    $("list").caption.textContent = `${plural(inView, "call")} in view` + (inView > ROWS ? `, the first ${ROWS}:` : inView ? ":" : "");
  }

  function row(i) {
    const made = document.createElement("tr"), open = document.createElement("button");
    made.dataset.call = i;
    open.type = "button";
    for (const [n, text] of calls.cells(i).entries()) (n ? made.insertCell() : made.insertCell().appendChild(open)).textContent = text;
    made.cells[8].className = "kind-" + calls.kinds[calls.kind[i]];
    return made;
  }

  function choose(i) {
    painter.chosen = i;
    const labels = ["op", "began", "took", "node", "process", "operation", "key", "value", "outcome"];
    const cells = calls.cells(i), values = calls.values(i), rows = labels.map((label, n) => [label, cells[n]]);
    if (calls.endIndex[i] > calls.index[i]) rows[0][1] += ` to #${calls.endIndex[i]}`;
    if (values) rows[7] = ["returned", `${plural(values.length, "value")}: ${values.join(" ")}`];
    if (calls.doubles[i]) rows.push(["more than once", calls.doubles[i].join(" ")]);
    if (calls.error[i] >= 0) rows.push(["error", names.error[calls.error[i]]]);
    if (calls.details[i] !== undefined) rows.push(["details", calls.details[i]]);
    $("detail").replaceChildren(...definitions(rows), ...statements.of(calls.index[i]));
    $("detail").hidden = false;
    draw();
  }

  // --- navigation ------------------------------------------------------------------------------
  const least = (some, of, pick) => some.reduce((best, i) => pick(best, of[i]), of[some[0]]);
  // Frames the calls of a witness and shows the time from the first to the last of them.
  let witness = 0;
  function toWitness(which) {
    const some = calls.witnesses[which] ?? [];
    if (!some.length) return;
    witness = which;
    painter.marked = some;
    const a = least(some, calls.begin, Math.min), b = least(some, calls.end, Math.max);
    axis.show(a - (b - a + 1000) * 0.1, b + (b - a + 1000) * 0.1);
  }
  // Chooses the next (by = 1) or previous (by = -1) visible call; the first one in view if none is chosen.
  function step(by) {
    let i = painter.chosen < 0 ? firstIndex(calls.begin, axis.from) : painter.chosen + by;
    while (i >= 0 && i < count && painter.shown[i] === HIDDEN) i += by;
    if (i < 0 || i >= count) return;
    const half = (axis.to - axis.from) / 2;
    if (calls.begin[i] < axis.from || calls.begin[i] > axis.to) axis.show(calls.begin[i] - half, calls.begin[i] + half);
    choose(i);
  }

  navigate(axis, {
    click: (x, y) => { const i = painter.at(x, y); if (i >= 0) choose(i); },
    keys: { n: () => step(1), p: () => step(-1) },
  });
  $("to-anomaly").hidden = painter.marked.length === 0;
  $("to-anomaly").addEventListener("click", () => toWitness(witness));
  $("list").addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-call]");
    if (line) choose(Number(line.dataset.call));
  });
  form.addEventListener("input", filter);
  form.addEventListener("change", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { axis.fit(); filter(); }));

  // --- the URL: a view can be shared ---------------------------------------------------------------
  const selects = new Set(["node", "f", "kind"]);
  function saveToUrl() {
    const state = new URLSearchParams();
    for (const name of fields) {
      const field = form.elements[name], text = selects.has(name) ? field.value && field.selectedOptions[0].text : field.value.trim();
      if (text) state.set(name, text);
    }
    if (axis.to - axis.from < calls.until) state.set("view", `${Math.round(axis.from)}..${Math.round(axis.to)}`);
    if (witness) state.set("witness", witness);
    if (painter.chosen >= 0) state.set("op", calls.index[painter.chosen]);
    const hash = state.size ? "#" + state : "";
    if (!hash && atSection()) return;
    if (hash !== location.hash) history.replaceState(null, "", hash || location.pathname + location.search);
  }
  const atSection = () => location.hash.startsWith("#h-"); // a link of the section menu is no view
  function restoreFromUrl() {
    const state = new URLSearchParams(location.hash.slice(1));
    for (const name of fields) {
      const field = form.elements[name], text = state.get(name) ?? "";
      field.value = selects.has(name) ? [...field.options].find((option) => option.text === text && text)?.value ?? "" : text;
    }
    const [a, b] = (state.get("view") ?? "").split("..").map(Number);
    if (state.has("witness")) toWitness(Number(state.get("witness")));
    if (b > a) axis.show(a, b); else if (!state.has("witness")) axis.fit();
    const op = Number(state.get("op")), i = state.has("op") ? Math.max(calls.index.indexOf(op), calls.endIndex.indexOf(op)) : -1;
    filter();
    if (i >= 0) choose(i);
    if (i >= 0 || state.has("witness")) $(i >= 0 ? "detail" : "timeline").scrollIntoView({ block: "nearest" });
  }
  addEventListener("hashchange", () => { if (!atSection()) restoreFromUrl(); });
  watchLooks(canvas, restyle);
  addEventListener("beforeprint", restyle);
  restoreFromUrl();
})();
