// What a person does: look around, look at, search.
const by = id => document.getElementById(id);

/** Moves the rows, no further than there are any. */
function scrollRows(down) { look.top = Math.max(0, Math.min(look.top + down, lanes.length * ROW + bands.height + 16 - canvas.clientHeight)); redraw(); }

/** Brings an operation into the middle, not nearer than it can be read. */
function show(op) {
  if (!shown(op)) choose(data.object[op]);
  const length = Math.max((data.ret[op] ?? data.call[op]) - data.call[op], span / Math.max(count, 1));
  const size = Math.min(axis.to - axis.from, Math.max(length * 12, span / Math.max(count, 1) * 30));
  const middle = data.ret[op] === null ? data.call[op] + size * 0.3 : (data.call[op] + data.ret[op]) / 2;
  const top = bands.height + 6 + lane[data.client[op]] * ROW;
  if (top - look.top < bands.height + 10 || top - look.top > canvas.clientHeight - 2 * ROW) look.top = top - canvas.clientHeight / 2;
  scrollRows(0); axis.show(middle - size / 2, middle + size / 2); pick(op);
}
function pick(op, note = null) { look.picked = op; look.note = note; details(); redraw(); }

const last = ops => ops.size ? Math.max(...ops) : null;
const errorOf = object => object.stuck ?? last(object.witness) ?? (object.anomalies[0]?.forbidden ? last(object.anomalies[0].members) : null);
function showError() {
  const at = look.object >= 0 && errorOf(objects[look.object]) !== null ? look.object : worst;
  const op = objects.length ? errorOf(objects[at]) : null;
  if (op === null) return;
  choose(at); show(op); widen(objects[at]);
}
/** Brings the whole witness into sight: an operation alone does not say what it contradicts. */
function widen(object) {
  const ops = [...object.witness, ...(anomalyOf(object)?.members ?? []), ...(object.stuck === null ? [] : [object.stuck])];
  const from = Math.min(...ops.map(op => data.call[op])), to = Math.max(...ops.map(op => data.ret[op] ?? data.call[op]));
  const size = Math.max(axis.to - axis.from, (to - from) * 1.24);
  axis.show((from + to - size) / 2, (from + to + size) / 2);
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
  by("reason").textContent = !objects.length ? `There are no ${data.noun}s.` : all ? `${objects.length} keys` : (object.stuck === null ? "" : labels[object.stuck].slice(0, 80) + ": ") + visible(object.reason);
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
  if (op === null && look.note) { noteDetails(panel, look.note); return; }
  if (op === null) { summary(panel); return; }
  const object = objects[data.object[op]], order = orderFor(object, op), rank = order.rank.get(op);
  add(panel, "h2", labels[op]);
  if (object.stuck === op) add(panel, "p", "Nothing explains this operation and all before it.", "bad");
  else if (object.witness.has(op)) add(panel, "p", "Part of the smallest failing sub-history", "mark");
  const lost = data.ret[op] === null, time = value => timeText(value, data.unit_s);
  const facts = [["client", data.clients[data.client[op]]], ["key", data.objects.length > 1 || object.key !== null ? object.name : null],
    ["called", time(data.call[op])], ["returned", lost ? "never" : time(data.ret[op])], ["took", lost ? null : time(data.ret[op] - data.call[op])],
    ...statesOf(object, order, op, rank), ["place", isTransactions ? null : rank === undefined ? "none" : `${rank + 1} of ${order.order.length}`], ["row", op]];
  add(panel, "dl").append(...definitions(facts.filter(([, value]) => value !== null).map(([name, value]) => [name, visible(String(value))])));
  anomalyList(panel, object); witnessList(panel, object);
}
/** The states before and after an operation in the order; of one that is in none, that at the end. */
function statesOf(object, order, op, rank) {
  if (!order.after.length) return [];
  if (rank === undefined) return [["state" + (object.stuck === op ? " before" : " at the end"), states[order.after.at(-1)]]];
  return [["state before", states[order.after[rank]]], ["state after", states[order.after[rank + 1]]]];
}
const isTransactions = data.noun === "transaction";
const someone = isTransactions ? "a transaction" : "an operation";
const touched = matchMedia("(hover: none)").matches;
function summary(panel) {
  const object = objects[look.object];
  add(panel, "p", `${count.toLocaleString("en")} ${data.noun}s of ${data.clients.length} clients. ${touched ? `Tap ${someone}; drag to pan, pinch to zoom.` : `Hover or click ${someone}; drag to pan, scroll to zoom.`}`);
  if (object) { anomalyList(panel, object); witnessList(panel, object); }
  noteList(panel);
}
function witnessList(panel, object) {
  if (!object.witness.size) return;
  add(panel, "h3", `Smallest failing sub-history: ${object.witness.size}`);
  const list = add(panel, "ol");
  for (const op of [...object.witness].sort((a, b) => data.call[a] - data.call[b]).slice(0, 200)) {
    const button = add(add(list, "li", undefined, object.stuck === op ? "stuck" : ""), "button", pieceOf(object, op).slice(0, 300));
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
  const client = lanes[Math.floor((py + look.top - bands.height - 6) / ROW)];
  if (px < axis.left || py < bands.height || client === undefined) return null;
  let best = null, least = 4;
  for (const op of sight(rows[client])) {
    const { left, width } = box(op), away = Math.max(left - px, px - left - width, 0);
    if (away < least || (away === 0 && least === 0)) { best = op; least = away; }
  }
  return best;
}

function hover(...point) {
  const op = point.length ? under(...point) : null;
  canvas.classList.toggle("over", op !== null);
  if (op !== look.over) { look.over = op; details(); redraw(); }
}
navigate(axis, {
  click: (...point) => { const op = under(...point); pick(op, op === null ? noteUnder(...point) : null); }, hover, scroll: scrollRows, listener: document,
  keys: { e: showError, ArrowUp: () => scrollRows(-ROW), ArrowDown: () => scrollRows(ROW), Escape: () => pick(null), "/": () => by("search").focus() },
});
const jump = e => { if (e.buttons) { const t = start + e.offsetX / map.clientWidth * (end - start), half = (axis.to - axis.from) / 2; axis.show(t - half, t + half); } };
map.addEventListener("pointerdown", jump); map.addEventListener("pointermove", jump);

by("search").addEventListener("input", search);
by("search").addEventListener("keydown", e => { if (e.key === "Enter") step(e.shiftKey ? -1 : 1); if (e.key === "Escape") e.target.blur(); });
by("next").addEventListener("click", () => step(1)); by("previous").addEventListener("click", () => step(-1));
by("error").addEventListener("click", showError);

document.title = data.title; by("title").textContent = visible(data.title);
if (objects.length > 1) {
  by("choose").hidden = false;
  objects.forEach((o, at) => { add(by("object"), "option", `${o.name} · ${o.status}`).value = at; });
  add(by("object"), "option", "all").value = -1;
  by("object").value = look.object;
  by("object").addEventListener("change", e => choose(Number(e.target.value)));
}
const points = data.consistency === "sequential" ? "placed, with its number in the order" : "placed; the dot is where it takes effect";
const meanings = isTransactions ? [["invalid", "part of the anomaly"], ["not-due", "other transactions"]] : [["ok", points], ["not-due", "in no order"], ["invalid", "cannot be placed"]];
for (const [name, text] of [...meanings, ["marked", "smallest failing sub-history"], ...(data.bands.length || notes.length ? [["fault", "faults and other events"]] : [])]) {
  const item = add(by("legend"), "span");
  add(item, "i", undefined, name);
  item.append(text);
}
by("events").hidden = !data.bands.length;
layOut(); restyle(); verdict(); found(); details();
watchLooks(canvas, restyle, by("theme"));
if (count > 80) showError();
