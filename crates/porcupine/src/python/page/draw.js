// The picture: what is in sight, a row for each client.
const canvas = document.getElementById("view"), map = document.getElementById("map");
const pen = canvas.getContext("2d"), mapPen = map.getContext("2d");
const ROW = 30, BAR = 20;
const axis = new TimeAxis(canvas, { start, end, first, least: span / Math.max(count, 10) / 20, unit_s: data.unit_s, changed: redraw });
const bands = new Bands(axis, data.bands.map(band => ({ from: band.from, seen: band.from, to: band.to ?? end, name: visible(band.label), text: "" })));
const look = { top: 0, object: worst, over: null, picked: null, hits: [], hit: -1, anomaly: 0, note: null };
let color = {}, frame = 0, overview = null;
/** Clients with operations in view, and the row of each client among them. */
let lanes = [], lane = [];

function redraw() { frame ||= requestAnimationFrame(() => { frame = 0; draw(); drawMap(); }); }
const y = client => bands.height + 6 + lane[client] * ROW - look.top;
const shown = op => objects.length === 1 || look.object < 0 || data.object[op] === look.object;
const focus = () => look.over ?? look.picked;
const activeOrder = at => { const op = focus(); return orderFor(objects[at], op !== null && data.object[op] === at ? op : null); };
const inView = () => look.object < 0 ? objects.map((_, at) => at) : [look.object];

/** Takes the page's colours and sizes again, after one of them changed. */
function restyle() {
  color = colours(["paper", "card", "rule", "ink", "dim", "accent", "ok", "not-due", "invalid", "marked", "fault", "fault-ink"]);
  bands.restyle(color);
  sharpen(canvas); sharpen(map);
  const longest = Math.max(...[...data.clients, ...noteRows].map(name => String(name).length), 2), narrow = canvas.clientWidth < 600;
  axis.measure(Math.min(narrow ? 56 : 120, 22 + 7.2 * (longest + (narrow ? 0 : 7))));
  overview = null; scrollRows(0); draw(); drawMap();
}

/** Where an operation's bar is. */
function box(op) {
  const left = axis.x(data.call[op]), right = axis.x(returned(op));
  return { left, width: Math.max(right - left, 3), top: y(data.client[op]) + (ROW - BAR) / 2 };
}

/** Positions in a row of the operations that may be in sight. */
function sight(row) {
  const found = [];
  for (let at = firstWhere(row.length, at => returned(row[at]) >= axis.from); at < row.length && data.call[row[at]] <= axis.to; at++) if (shown(row[at])) found.push(row[at]);
  return found;
}

function draw() {
  const width = canvas.clientWidth, height = canvas.clientHeight;
  pen.fillStyle = color.paper; pen.fillRect(0, 0, width, height);
  const lines = lanes.filter(client => y(client) > -ROW && y(client) < height);
  pen.fillStyle = color.card;
  for (const client of lines) if (lane[client] % 2 === 0) pen.fillRect(axis.left, y(client), width, ROW);
  pen.fillRect(0, 0, width, bands.height); pen.fillRect(0, 0, axis.left, height);
  bands.draw(pen, height);
  pen.save(); pen.beginPath(); pen.rect(axis.left, bands.height, width, height); pen.clip();
  const orders = new Map(inView().map(at => [at, activeOrder(at)]));
  const hits = new Set(look.hits);
  look.drawn = 0;
  for (const client of lines) { drawNotes(client); drawRow(sight(rows[client]), orders, hits); }
  for (const [at, order] of orders) { drawOrder(order); drawStuck(objects[at], height); drawCycle(objects[at]); }
  pen.restore();
  pen.strokeStyle = color.rule; line(axis.left - 0.5, bands.height, axis.left - 0.5, height); line(0, bands.height - 0.5, width, bands.height - 0.5);
  axis.drawNames(pen, color, lines.map(client => [width < 600 ? data.clients[client] ?? rowName(client) : rowName(client), y(client) + ROW / 2]), bands.height);
  const text = bands.legend("Events"), events = document.getElementById("events");
  if (events.textContent !== text) events.textContent = text;
}

function layOut() {
  lanes = rows.map((_, client) => client).filter(client => rows[client].some(shown) || notes.some(note => note.row === client));
  lane = [];
  lanes.forEach((client, at) => { lane[client] = at; });
}

function line(x0, y0, x1, y1) { pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x1, y1); pen.stroke(); }

/** The bars of a row. Of those that would be on the same few pixels one is enough, and what stands out is on top. */
function drawRow(ops, orders, hits) {
  const out = op => isBad(objects[data.object[op]], op) || objects[data.object[op]].witness.has(op) || hits.has(op) || op === focus();
  let covered = -Infinity;
  for (const op of ops) {
    const { left, width } = box(op);
    if (width <= 4 && left < covered) continue;
    covered = left + width;
    drawBar(op, orders.get(data.object[op]), hits);
  }
  for (const op of ops) if (out(op)) drawBar(op, orders.get(data.object[op]), hits);
}

function drawBar(op, order, hits) {
  const { left, width, top } = box(op), object = objects[data.object[op]], lost = data.ret[op] === null;
  const rank = order.rank.get(op), bad = isBad(object, op);
  look.drawn++;
  pen.fillStyle = bad ? color.invalid : rank === undefined ? color["not-due"] : color.ok;
  const round = Math.min(4, width / 2);
  pen.globalAlpha = lost ? 0.5 : 1;
  if (width <= 4) pen.fillRect(left, top, width, BAR);
  else { pen.beginPath(); pen.roundRect(left, top, width, BAR, lost ? [round, 0, 0, round] : round); pen.fill(); }
  pen.globalAlpha = 1;
  const ring = object.stuck === op ? null : object.witness.has(op) ? color.marked : hits.has(op) ? color.ink : null;
  const strong = op === look.picked || op === look.over;
  if (ring || strong) {
    pen.strokeStyle = strong ? color.ink : ring; pen.lineWidth = 2;
    pen.beginPath(); pen.roundRect(left - 1.5, top - 1.5, width + 3, BAR + 3, round + 1); pen.stroke(); pen.lineWidth = 1;
    if (ring && strong) { pen.strokeStyle = ring; pen.strokeRect(left - 4, top - 4, width + 8, BAR + 8); }
  }
  const from = Math.max(left, axis.left), room = Math.min(left + width, canvas.clientWidth) - from - 12;
  if (room < 14) return;
  pen.font = "12px ui-monospace, 'DejaVu Sans Mono', monospace"; pen.textAlign = "left"; pen.textBaseline = "middle";
  pen.fillStyle = bad || (rank !== undefined && !lost) ? color.paper : color.ink;
  const number = data.consistency === "sequential" && rank !== undefined ? `${rank + 1}. ` : "";
  const chars = [...(number + labels[op]).slice(0, 400)], most = Math.floor(room / 7.25);
  pen.fillText(chars.length <= most ? chars.join("") : chars.slice(0, Math.max(most - 1, 0)).join("") + "…", from + 6, top + BAR / 2 + 0.5, room);
}

/** The points at which operations take effect, joined in their order. */
function drawOrder(order) {
  if (data.consistency === "sequential" || !order.order.length) return;
  const low = firstWhere(order.order.length, at => order.point.get(order.order[at]) >= axis.from);
  const ops = [];
  for (let at = Math.max(low - 1, 0); at < order.order.length && ops.length < 1500; at++) {
    ops.push(order.order[at]);
    if (order.point.get(order.order[at]) > axis.to) break;
  }
  if (ops.length >= 1500 || ops.length > axis.width / 3) return;
  pen.strokeStyle = color.ink; pen.globalAlpha = 0.55; pen.lineWidth = 1.25; pen.beginPath();
  ops.forEach((op, at) => pen[at ? "lineTo" : "moveTo"](axis.x(order.point.get(op)), y(data.client[op]) + ROW - 4));
  pen.stroke(); pen.globalAlpha = 1; pen.lineWidth = 1;
  for (const op of ops) {
    pen.fillStyle = color.ink; pen.strokeStyle = color.paper;
    pen.beginPath(); pen.arc(axis.x(order.point.get(op)), y(data.client[op]) + ROW - 4, 3.5, 0, 7); pen.fill(); pen.stroke();
  }
}

function drawStuck(object, height) {
  if (object.stuck === null || data.consistency === "sequential") return;
  const at = axis.x(returned(object.stuck));
  pen.strokeStyle = color.invalid; pen.setLineDash([4, 4]); line(at, bands.height, at, height); pen.setLineDash([]);
}

function drawMap() {
  const width = map.clientWidth, height = map.clientHeight, at = t => (t - start) / (end - start) * width;
  if (!overview) {
    const busy = new Float32Array(Math.max(width, 1));
    for (let op = 0; op < count; op++) if (shown(op)) for (let px = Math.floor(at(data.call[op])); px <= at(data.ret[op] ?? data.call[op]); px++) busy[px]++;
    overview = { busy, most: Math.max(...minmax([...busy], Math.max), 1) };
  }
  mapPen.fillStyle = color.card; mapPen.fillRect(0, 0, width, height);
  mapPen.fillStyle = color["not-due"];
  overview.busy.forEach((n, px) => mapPen.fillRect(px, height, 1, -n / overview.most * (height - 8)));
  for (const band of bands.all) { mapPen.fillStyle = color.fault; mapPen.fillRect(at(band.from), 0, Math.max(at(band.to) - at(band.from), 2), 3); }
  for (const object of inView().map(i => objects[i])) if (object.stuck !== null) { mapPen.fillStyle = color.invalid; mapPen.fillRect(at(data.call[object.stuck]) - 1, 0, 3, height); }
  mapPen.fillStyle = color.accent; mapPen.globalAlpha = 0.16; mapPen.fillRect(at(axis.from), 0, Math.max(at(axis.to) - at(axis.from), 3), height);
  mapPen.globalAlpha = 1; mapPen.strokeStyle = color.accent; mapPen.strokeRect(at(axis.from) + 0.5, 0.5, Math.max(at(axis.to) - at(axis.from), 3) - 1, height - 1);
}
