// Anomalies of transactions: a cycle of dependencies as arrows, and in sentences.

/** The anomaly that is shown. */
function anomalyOf(object) { return object.anomalies[look.anomaly]; }

/** Whether an interval is drawn as what nothing explains: the operation that is stuck, or a transaction of the anomaly. */
function isBad(object, op) { return object.stuck === op || Boolean(anomalyOf(object)?.members.has(op)); }

/** An operation of the witness; of a transaction only the micro-operations that belong to it. */
function pieceOf(object, op) {
  const at = object.pieces ? [...object.witness].indexOf(op) : -1;
  return at < 0 ? labels[op] : visible(object.pieces[at]);
}

function drawCycle(object) {
  for (const [from, to, kind] of anomalyOf(object)?.cycle ?? []) drawEdge(box(from), box(to), kind);
}

/** An arrow between two bars. It bends to its left, so that two between the same bars are apart. */
function drawEdge(from, to, kind) {
  const same = Math.abs(from.top - to.top) < 1, down = to.top > from.top;
  const x0 = from.left + from.width / 2, x1 = to.left + to.width / 2;
  const y0 = from.top + (down && !same ? BAR : 0), y1 = to.top + (down || same ? 0 : BAR);
  const length = Math.hypot(x1 - x0, y1 - y0) || 1, bend = Math.min(30, 10 + length / 8);
  const cx = (x0 + x1) / 2 + (same ? 0 : (y1 - y0) / length * bend), cy = (y0 + y1) / 2 - (same ? bend : (x1 - x0) / length * bend);
  for (const [ink, thick] of [[color.paper, 5], [color.ink, 2]]) { // with an outline, as it crosses bars
    pen.strokeStyle = pen.fillStyle = ink; pen.lineWidth = thick;
    pen.beginPath(); pen.moveTo(x0, y0); pen.quadraticCurveTo(cx, cy, x1, y1); pen.stroke();
  }
  const angle = Math.atan2(y1 - cy, x1 - cx);
  pen.beginPath(); pen.moveTo(x1, y1);
  for (const side of [-0.45, 0.45]) pen.lineTo(x1 - 10 * Math.cos(angle + side), y1 - 10 * Math.sin(angle + side));
  pen.fill(); pen.lineWidth = 1;
  const x = (x0 + 2 * cx + x1) / 4, middle = (y0 + 2 * cy + y1) / 4;
  pen.font = "600 11px system-ui, sans-serif"; pen.textAlign = "center"; pen.textBaseline = "middle";
  const width = pen.measureText(kind).width + 8;
  pen.fillStyle = color.paper; pen.fillRect(x - width / 2, middle - 8, width, 16);
  pen.fillStyle = color.ink; pen.fillText(kind, x, middle);
}

/** The anomalies by name, and the one that is shown in sentences. */
function anomalyList(panel, object) {
  if (!object.anomalies.length) return;
  add(panel, "h3", "Anomalies");
  const list = add(panel, "ol");
  object.anomalies.forEach((anomaly, at) => {
    const item = add(list, "li", undefined, anomaly.forbidden ? "stuck" : ""), many = anomaly.count > 1 ? ` (${anomaly.count.toLocaleString("en")})` : "";
    const button = add(item, "button", anomaly.name + many + (anomaly.forbidden ? "" : ", which the level allows"));
    button.addEventListener("click", () => { look.anomaly = at; details(); widen(object); redraw(); });
    if (at === look.anomaly) for (const sentence of anomaly.sentences) add(item, "p", visible(sentence), "why");
  });
}
