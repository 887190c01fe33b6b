// The picture: what is in sight, a row for each client.
const canvas = document.getElementById("view"), map = document.getElementById("map");
const pen = canvas.getContext("2d"), mapPen = map.getContext("2d");
const ROW = 30, BAR = 20, AXIS = data.bands.length ? 46 : 28;
const look = { from: start, to: end, top: 0, object: worst, over: null, picked: null, hits: [], hit: -1 };
const color = {};
let frame = 0, overview = null, gutter = 84;
/** Clients with operations in view, and the row of each client among them. */
let lanes = [], lane = [];

function redraw() { frame ||= requestAnimationFrame(() => { frame = 0; draw(); drawMap(); }); }
const wide = () => canvas.clientWidth - gutter;
const x = time => gutter + (time - look.from) / (look.to - look.from) * wide();
const timeAt = px => look.from + (px - gutter) / wide() * (look.to - look.from);
const y = client => AXIS + 6 + lane[client] * ROW - look.top;
const shown = op => objects.length === 1 || look.object < 0 || data.object[op] === look.object;
const focus = () => look.over ?? look.picked;
const activeOrder = at => { const op = focus(); return orderFor(objects[at], op !== null && data.object[op] === at ? op : null); };
const inView = () => look.object < 0 ? objects.map((_, at) => at) : [look.object];

function readColors() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["page", "panel", "line", "text", "soft", "row", "placed", "placed-text", "loose", "loose-text", "stuck", "stuck-text", "band-text", "witness", "order", "band"])
    color[name] = style.getPropertyValue("--" + name).trim();
  overview = null;
}

function resize() {
  const ratio = devicePixelRatio || 1;
  for (const each of [canvas, map]) {
    each.width = Math.round(each.clientWidth * ratio); each.height = Math.round(each.clientHeight * ratio);
    each.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  const longest = Math.max(...data.clients.map(name => String(name).length), 2);
  gutter = Math.min(canvas.clientWidth < 600 ? 56 : 120, 22 + 7.2 * (longest + (canvas.clientWidth < 600 ? 0 : 7)));
  overview = null; clamp(); draw(); drawMap(); // at once: a canvas of a new size is empty
}

/** Where an operation's bar is. */
function box(op) {
  const left = x(data.call[op]), right = x(returned(op));
  return { left, width: Math.max(right - left, 3), top: y(data.client[op]) + (ROW - BAR) / 2 };
}

/** Positions in a row of the operations that may be in sight. */
function sight(row) {
  let low = 0, high = row.length;
  while (low < high) { const mid = (low + high) >> 1; returned(row[mid]) < look.from ? low = mid + 1 : high = mid; }
  const found = [];
  for (let at = low; at < row.length && data.call[row[at]] <= look.to; at++) if (shown(row[at])) found.push(row[at]);
  return found;
}

function draw() {
  const width = canvas.clientWidth, height = canvas.clientHeight;
  pen.fillStyle = color.page; pen.fillRect(0, 0, width, height);
  const lines = lanes.filter(client => y(client) > -ROW && y(client) < height);
  pen.fillStyle = color.row;
  for (const client of lines) if (lane[client] % 2 === 0) pen.fillRect(gutter, y(client), width, ROW);
  drawTicks(height);
  drawBands(height);
  pen.save(); pen.beginPath(); pen.rect(gutter, AXIS, width, height); pen.clip();
  const orders = new Map(inView().map(at => [at, activeOrder(at)]));
  const hits = new Set(look.hits);
  look.drawn = 0;
  for (const client of lines) drawRow(sight(rows[client]), orders, hits);
  for (const [at, order] of orders) { drawOrder(order); drawStuck(objects[at], height); }
  pen.restore();
  pen.fillStyle = color.panel; pen.fillRect(0, AXIS, gutter, height);
  pen.strokeStyle = color.line; line(gutter - 0.5, AXIS, gutter - 0.5, height); line(0, AXIS - 0.5, width, AXIS - 0.5);
  pen.font = "12.5px system-ui, sans-serif"; pen.fillStyle = color.soft; pen.textBaseline = "middle"; pen.textAlign = "right";
  pen.save(); pen.beginPath(); pen.rect(0, AXIS, gutter, height); pen.clip();
  for (const client of lines) pen.fillText((width < 600 ? "" : "client ") + data.clients[client], gutter - 10, y(client) + ROW / 2);
  pen.restore();
}

function layOut() {
  lanes = rows.map((_, client) => client).filter(client => rows[client].some(shown));
  lane = [];
  lanes.forEach((client, at) => { lane[client] = at; });
}

function line(x0, y0, x1, y1) { pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x1, y1); pen.stroke(); }

function drawTicks(height) {
  const rough = (look.to - look.from) / Math.max(wide() / 110, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough), largest = Math.max(Math.abs(look.from), Math.abs(look.to));
  pen.fillStyle = color.panel; pen.fillRect(0, 0, canvas.clientWidth, AXIS);
  pen.strokeStyle = color.line; pen.fillStyle = color.soft; pen.lineWidth = 1;
  pen.font = "12px system-ui, sans-serif"; pen.textAlign = "center"; pen.textBaseline = "middle";
  for (let t = Math.ceil(look.from / step) * step; t <= look.to; t += step) {
    const at = Math.round(x(t)) + 0.5;
    if (at < gutter) continue;
    line(at, AXIS - 5, at, height);
    if (at > gutter + 20 && at < canvas.clientWidth - 24) pen.fillText(clock(t, step, largest), at, 13);
  }
}

function drawBands(height) {
  pen.font = "11.5px system-ui, sans-serif"; pen.textAlign = "left"; pen.textBaseline = "middle";
  let free = gutter;
  for (const band of data.bands) {
    const left = Math.max(x(band.from), gutter), right = Math.min(x(band.to ?? end), canvas.clientWidth);
    if (right < gutter || left > canvas.clientWidth) continue;
    pen.globalAlpha = 0.13; pen.fillStyle = color.band; pen.fillRect(left, AXIS, Math.max(right - left, 2), height);
    pen.globalAlpha = 1; pen.fillRect(left, AXIS - 3, Math.max(right - left, 2), 3);
    if (left >= free - 1) { const name = visible(band.label); pen.fillStyle = color["band-text"]; pen.fillText(name, left + 2, 33); free = left + pen.measureText(name).width + 12; }
  }
}

/** The bars of a row. Of those that would be on the same few pixels one is enough, and what stands out is on top. */
function drawRow(ops, orders, hits) {
  const out = op => objects[data.object[op]].stuck === op || objects[data.object[op]].witness.has(op) || hits.has(op) || op === focus();
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
  const rank = order.rank.get(op), stuck = object.stuck === op;
  look.drawn++;
  pen.fillStyle = stuck ? color.stuck : rank === undefined ? color.loose : color.placed;
  const round = Math.min(4, width / 2);
  pen.globalAlpha = lost ? 0.5 : 1;
  if (width <= 4) pen.fillRect(left, top, width, BAR);
  else { pen.beginPath(); pen.roundRect(left, top, width, BAR, lost ? [round, 0, 0, round] : round); pen.fill(); }
  pen.globalAlpha = 1;
  const ring = stuck ? null : object.witness.has(op) ? color.witness : hits.has(op) ? color.text : null;
  const strong = op === look.picked || op === look.over;
  if (ring || strong) {
    pen.strokeStyle = strong ? color.text : ring; pen.lineWidth = 2;
    pen.beginPath(); pen.roundRect(left - 1.5, top - 1.5, width + 3, BAR + 3, round + 1); pen.stroke(); pen.lineWidth = 1;
    if (ring && strong) { pen.strokeStyle = ring; pen.strokeRect(left - 4, top - 4, width + 8, BAR + 8); }
  }
  const from = Math.max(left, gutter), room = Math.min(left + width, canvas.clientWidth) - from - 12;
  if (room < 14) return;
  pen.font = "12px ui-monospace, 'DejaVu Sans Mono', monospace"; pen.textAlign = "left"; pen.textBaseline = "middle";
  pen.fillStyle = stuck ? color["stuck-text"] : rank !== undefined && !lost ? color["placed-text"] : lost ? color.text : color["loose-text"];
  const number = data.consistency === "sequential" && rank !== undefined ? `${rank + 1}. ` : "";
  const chars = [...(number + labels[op]).slice(0, 400)], most = Math.floor(room / 7.25);
  pen.fillText(chars.length <= most ? chars.join("") : chars.slice(0, Math.max(most - 1, 0)).join("") + "…", from + 6, top + BAR / 2 + 0.5, room);
}

/** The points at which operations take effect, joined in their order. */
function drawOrder(order) {
  if (data.consistency === "sequential" || !order.order.length) return;
  let low = 0, high = order.order.length;
  while (low < high) { const mid = (low + high) >> 1; order.point.get(order.order[mid]) < look.from ? low = mid + 1 : high = mid; }
  const ops = [];
  for (let at = Math.max(low - 1, 0); at < order.order.length && ops.length < 1500; at++) {
    ops.push(order.order[at]);
    if (order.point.get(order.order[at]) > look.to) break;
  }
  if (ops.length >= 1500 || ops.length > wide() / 3) return;
  pen.strokeStyle = color.order; pen.globalAlpha = 0.55; pen.lineWidth = 1.25; pen.beginPath();
  ops.forEach((op, at) => pen[at ? "lineTo" : "moveTo"](x(order.point.get(op)), y(data.client[op]) + ROW - 4));
  pen.stroke(); pen.globalAlpha = 1; pen.lineWidth = 1;
  for (const op of ops) {
    pen.fillStyle = color.order; pen.strokeStyle = color.page;
    pen.beginPath(); pen.arc(x(order.point.get(op)), y(data.client[op]) + ROW - 4, 3.5, 0, 7); pen.fill(); pen.stroke();
  }
}

function drawStuck(object, height) {
  if (object.stuck === null || data.consistency === "sequential") return;
  const at = x(returned(object.stuck));
  pen.strokeStyle = color.stuck; pen.setLineDash([4, 4]); line(at, AXIS, at, height); pen.setLineDash([]);
}

function drawMap() {
  const width = map.clientWidth, height = map.clientHeight, at = t => (t - start) / (end - start) * width;
  if (!overview) {
    const busy = new Float32Array(Math.max(width, 1));
    for (let op = 0; op < count; op++) if (shown(op)) for (let px = Math.floor(at(data.call[op])); px <= at(data.ret[op] ?? data.call[op]); px++) busy[px]++;
    overview = { busy, most: Math.max(...minmax([...busy], Math.max), 1) };
  }
  mapPen.fillStyle = color.panel; mapPen.fillRect(0, 0, width, height);
  mapPen.fillStyle = color.loose;
  overview.busy.forEach((n, px) => mapPen.fillRect(px, height, 1, -n / overview.most * (height - 8)));
  for (const band of data.bands) { mapPen.fillStyle = color.band; mapPen.fillRect(at(band.from), 0, Math.max(at(band.to ?? end) - at(band.from), 2), 3); }
  for (const object of inView().map(i => objects[i])) if (object.stuck !== null) { mapPen.fillStyle = color.stuck; mapPen.fillRect(at(data.call[object.stuck]) - 1, 0, 3, height); }
  mapPen.fillStyle = color.placed; mapPen.globalAlpha = 0.16; mapPen.fillRect(at(look.from), 0, Math.max(at(look.to) - at(look.from), 3), height);
  mapPen.globalAlpha = 1; mapPen.strokeStyle = color.placed; mapPen.strokeRect(at(look.from) + 0.5, 0.5, Math.max(at(look.to) - at(look.from), 3) - 1, height - 1);
}
