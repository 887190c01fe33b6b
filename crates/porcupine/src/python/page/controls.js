// What a person does: look around, look at, search.
const by = id => document.getElementById(id);

/** Keeps to where something is. */
function clamp() {
  const least = span / Math.max(count, 10) / 20;
  let size = Math.min(Math.max(look.to - look.from, least), end - start);
  look.from = Math.min(Math.max(look.from, start), end - size); look.to = look.from + size;
  look.top = Math.max(0, Math.min(look.top, lanes.length * ROW + AXIS + 16 - canvas.clientHeight));
}
function pan(px, down) { const by = px / wide() * (look.to - look.from); look.from += by; look.to += by; look.top += down; clamp(); redraw(); }
function zoom(factor, px = gutter + wide() / 2) {
  const at = timeAt(px);
  look.to = at + (look.to - at) * factor; look.from = at + (look.from - at) * factor; clamp(); redraw();
}
function fit() { look.from = start; look.to = end; look.top = 0; redraw(); }

/** Brings an operation into the middle, not nearer than it can be read. */
function show(op) {
  if (!shown(op)) choose(data.object[op]);
  const length = Math.max((data.ret[op] ?? data.call[op]) - data.call[op], span / Math.max(count, 1));
  const size = Math.min(look.to - look.from, Math.max(length * 12, span / Math.max(count, 1) * 30));
  const middle = data.ret[op] === null ? data.call[op] + size * 0.3 : (data.call[op] + data.ret[op]) / 2;
  look.from = middle - size / 2; look.to = middle + size / 2;
  const top = AXIS + 6 + lane[data.client[op]] * ROW;
  if (top - look.top < AXIS + 10 || top - look.top > canvas.clientHeight - 2 * ROW) look.top = top - canvas.clientHeight / 2;
  clamp(); pick(op);
}
function pick(op) { look.picked = op; details(); redraw(); }

const errorOf = object => object.stuck ?? (object.witness.size ? Math.max(...object.witness) : null);
function showError() {
  const at = look.object >= 0 && errorOf(objects[look.object]) !== null ? look.object : worst;
  const op = objects.length ? errorOf(objects[at]) : null;
  if (op === null) return;
  choose(at); show(op); widen(objects[at]);
}
/** Brings the whole witness into sight: an operation alone does not say what it contradicts. */
function widen(object) {
  const ops = [...object.witness, ...(object.stuck === null ? [] : [object.stuck])];
  const from = Math.min(...ops.map(op => data.call[op])), to = Math.max(...ops.map(op => data.ret[op] ?? data.call[op]));
  const size = Math.max(look.to - look.from, (to - from) * 1.24);
  look.from = (from + to - size) / 2; look.to = look.from + size; clamp(); redraw();
}

function choose(at) {
  if (look.object === at) return;
  look.object = at; look.picked = look.over = null; overview = null; layOut();
  by("object").value = at; verdict(); search(); details(); redraw();
}
function verdict() {
  const object = objects[Math.max(look.object, 0)], all = look.object < 0;
  const status = all ? severity[Math.max(...objects.map(o => severity.indexOf(o.status)))] : object?.status ?? "VALID";
  by("status").textContent = status; by("status").className = "status " + status;
  by("reason").textContent = !objects.length ? "There are no operations." : all ? `${objects.length} keys` : (object.stuck === null ? "" : labels[object.stuck].slice(0, 80) + ": ") + visible(object.reason);
  by("error").disabled = !objects.some(o => errorOf(o) !== null);
}

function add(parent, tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  parent.append(made);
  return made;
}
function details() {
  const panel = by("details"), op = focus();
  panel.replaceChildren();
  if (op === null) { summary(panel); return; }
  const object = objects[data.object[op]], order = orderFor(object, op), rank = order.rank.get(op);
  add(panel, "h2", labels[op]);
  if (object.stuck === op) add(panel, "p", "Nothing explains this operation and all before it.", "bad");
  else if (object.witness.has(op)) add(panel, "p", "Part of the smallest failing sub-history", "mark");
  const list = add(panel, "dl");
  const lost = data.ret[op] === null;
  const facts = [["client", data.clients[data.client[op]]], ["key", data.objects.length > 1 || object.key !== null ? object.name : null],
    ["called", clock(data.call[op])], ["returned", lost ? "never" : clock(data.ret[op])], ["took", lost ? null : clock(data.ret[op] - data.call[op])],
    ["place", rank === undefined ? "none" : `${rank + 1} of ${order.order.length}`], ["row", op]];
  for (const [name, value] of facts) if (value !== null) { add(list, "dt", name); add(list, "dd", visible(String(value))); }
  witnessList(panel, object);
}
const touched = matchMedia("(hover: none)").matches;
function summary(panel) {
  const object = objects[look.object];
  add(panel, "p", `${count.toLocaleString("en")} operations of ${data.clients.length} clients. ${touched ? "Tap an operation; drag to pan, pinch to zoom." : "Hover or click an operation; drag to pan, scroll to zoom."}`);
  if (object) witnessList(panel, object);
}
function witnessList(panel, object) {
  if (!object.witness.size) return;
  add(panel, "h3", `Smallest failing sub-history: ${object.witness.size}`);
  const list = add(panel, "ol");
  for (const op of [...object.witness].sort((a, b) => data.call[a] - data.call[b]).slice(0, 200)) {
    const button = add(add(list, "li", undefined, object.stuck === op ? "stuck" : ""), "button", labels[op].slice(0, 300));
    button.addEventListener("click", () => show(op));
  }
}

function search() {
  const text = by("search").value.toLowerCase();
  look.hits = []; look.hit = -1;
  if (text) for (let op = 0; op < count; op++) if (shown(op) && (data.label[op].toLowerCase().includes(text) || labels[op].toLowerCase().includes(text))) look.hits.push(op);
  look.hits.sort((a, b) => data.call[a] - data.call[b]);
  found(); redraw();
}
function found() {
  by("found").textContent = !by("search").value ? "" : look.hits.length ? `${look.hit + 1} of ${look.hits.length}` : "none";
  by("next").disabled = by("previous").disabled = !look.hits.length;
}
function step(by) { if (look.hits.length) { look.hit = (look.hit + by + look.hits.length + (look.hit < 0 && by < 0 ? 1 : 0)) % look.hits.length; found(); show(look.hits[look.hit]); } }

/** The operation under a point of the canvas. */
function under(px, py) {
  const client = lanes[Math.floor((py + look.top - AXIS - 6) / ROW)];
  if (px < gutter || py < AXIS || client === undefined) return null;
  let best = null, least = 4;
  for (const op of sight(rows[client])) {
    const { left, width } = box(op), away = Math.max(left - px, px - left - width, 0);
    if (away < least || (away === 0 && least === 0)) { best = op; least = away; }
  }
  return best;
}

const pointers = new Map();
let moved = 0;
canvas.addEventListener("pointerdown", e => { pointers.set(e.pointerId, e); moved = 0; canvas.setPointerCapture(e.pointerId); });
canvas.addEventListener("pointermove", e => {
  const old = pointers.get(e.pointerId);
  if (!old) {
    const op = under(e.offsetX, e.offsetY);
    canvas.classList.toggle("over", op !== null);
    if (op !== look.over) { look.over = op; details(); redraw(); }
    return;
  }
  moved += Math.abs(e.clientX - old.clientX) + Math.abs(e.clientY - old.clientY);
  if (pointers.size === 2) {
    const other = [...pointers.values()].find(p => p.pointerId !== e.pointerId);
    const before = Math.abs(old.offsetX - other.offsetX), now = Math.abs(e.offsetX - other.offsetX);
    if (before > 8 && now > 8) zoom(before / now, (e.offsetX + other.offsetX) / 2);
  } else if (moved > 3) { canvas.classList.add("dragging"); pan(old.clientX - e.clientX, old.clientY - e.clientY); }
  pointers.set(e.pointerId, e);
});
for (const gone of ["pointerup", "pointercancel"]) canvas.addEventListener(gone, e => {
  pointers.delete(e.pointerId); canvas.classList.remove("dragging");
  if (gone === "pointerup" && moved <= 3) pick(under(e.offsetX, e.offsetY));
});
canvas.addEventListener("pointerleave", () => { if (look.over !== null) { look.over = null; details(); redraw(); } });
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  const lines = e.deltaMode === 1 ? 16 : 1;
  if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan((e.deltaX || e.deltaY) * lines, 0);
  else zoom(Math.exp(Math.max(-120, Math.min(120, e.deltaY * lines)) * 0.0025), e.offsetX);
}, { passive: false });
const jump = e => { if (e.buttons) { const t = start + e.offsetX / map.clientWidth * (end - start), half = (look.to - look.from) / 2; look.from = t - half; look.to = t + half; clamp(); redraw(); } };
map.addEventListener("pointerdown", jump); map.addEventListener("pointermove", jump);

const keys = { "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: fit, e: showError, ArrowLeft: () => pan(-80, 0), ArrowRight: () => pan(80, 0),
  ArrowUp: () => pan(0, -ROW), ArrowDown: () => pan(0, ROW), Escape: () => pick(null), "/": () => by("search").focus() };
document.addEventListener("keydown", e => {
  if (["INPUT", "SELECT"].includes(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
  e.preventDefault(); keys[e.key]();
});
by("search").addEventListener("input", search);
by("search").addEventListener("keydown", e => { if (e.key === "Enter") step(e.shiftKey ? -1 : 1); if (e.key === "Escape") e.target.blur(); });
by("next").addEventListener("click", () => step(1)); by("previous").addEventListener("click", () => step(-1));
by("in").addEventListener("click", () => zoom(0.6)); by("out").addEventListener("click", () => zoom(1 / 0.6)); by("fit").addEventListener("click", fit);
by("error").addEventListener("click", showError);

const dark = matchMedia("(prefers-color-scheme: dark)");
function theme(name) { document.documentElement.dataset.theme = name; readColors(); redraw(); }
by("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));

document.title = data.title; by("title").textContent = visible(data.title);
if (objects.length > 1) {
  by("choose").hidden = false;
  objects.forEach((o, at) => { add(by("object"), "option", `${o.name} · ${o.status}`).value = at; });
  add(by("object"), "option", "all").value = -1;
  by("object").value = look.object;
  by("object").addEventListener("change", e => choose(Number(e.target.value)));
}
const points = data.consistency === "sequential" ? "placed, with its number in the order" : "placed; the dot is where it takes effect";
for (const [name, text] of [["placed", points], ["loose", "in no order"], ["stuck", "cannot be placed"], ["witness", "smallest failing sub-history"], ...(data.bands.length ? [["band", "faults and other events"]] : [])]) {
  const item = add(by("legend"), "span"), swatch = add(item, "i");
  swatch.style[name === "witness" ? "border" : "background"] = name === "witness" ? "2px solid var(--witness)" : `var(--${name})`;
  item.append(text);
}
layOut(); theme(dark.matches ? "dark" : "light"); verdict(); found(); details();
new ResizeObserver(resize).observe(by("stage")); resize();
if (count > 80) showError();
