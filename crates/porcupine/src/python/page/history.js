// What the history says: operations in columns, objects with their orders.
const data = JSON.parse(document.getElementById("data").textContent);
const count = data.call.length;
const noteTimes = data.notes.flatMap(note => [note.from, note.to ?? note.from]);
const ends = data.ret.filter(t => t !== null).concat(noteTimes), first = Math.min(...minmax(data.call.concat(noteTimes), Math.min));
const lastKnown = Math.max(...minmax(data.call, Math.max), ...minmax(ends, Math.max));
const whole = [...data.call, ...ends].every(Number.isInteger), span = whole ? Math.max(lastKnown - first, 1) : lastKnown - first || 1;
const start = first - span * 0.02, end = lastKnown + span * 0.06;

function minmax(values, pick) { // in pieces: a call takes only so many arguments
  const found = [];
  for (let i = 0; i < values.length; i += 4096) found.push(pick(...values.slice(i, i + 4096)));
  return found;
}

/** What cannot be seen, or would turn the text around, as its number. */
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cs}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu,
    c => "\\u{" + c.codePointAt(0).toString(16) + "}");
}
const labels = data.label.map(visible), states = (data.states ?? []).map(visible);
const notes = data.notes.map(note => ({ ...note, text: visible(note.text), details: visible(note.details) }));
const noteRows = data.noteRows.map(visible);
const returned = i => data.ret[i] === null ? end : data.ret[i];

/** By client: its operations in order of call; then the rows of notes, which have none. */
const rows = [...data.clients, ...noteRows].map(() => []);
const rowName = row => row < data.clients.length ? "client " + data.clients[row] : noteRows[row - data.clients.length];
for (let i = 0; i < count; i++) rows[data.client[i]].push(i);
for (const row of rows) row.sort((a, b) => data.call[a] - data.call[b] || returned(a) - returned(b));

/** An order with the place of each operation in it and, in real time, a point between its call and its return. `after` are
 * the states at its beginning and after each operation, if they are known. */
function placed(order, after = []) {
  const rank = new Map(order.map((op, at) => [op, at]));
  const early = [], point = new Map();
  let time = -Infinity;
  for (const op of order) early.push(time = Math.max(time, data.call[op]));
  time = Infinity;
  for (let at = order.length - 1; at >= 0; at--) {
    time = Math.min(time, data.ret[order[at]] === null ? early[early.length - 1] + span * 0.005 : data.ret[order[at]]);
    point.set(order[at], (early[at] + Math.max(time, early[at])) / 2);
  }
  return { order, rank, point, after };
}

/** Anomalies of transactions, those that the level forbids first. */
function anomaliesOf(object) {
  const all = (object.anomalies ?? []).map(anomaly => ({ ...anomaly, members: new Set(anomaly.transactions) }));
  return all.sort((a, b) => b.forbidden - a.forbidden);
}
const objects = data.objects.map(object => {
  const known = object.states ?? [];
  const others = object.others.map(other => placed(object.order.slice(0, other.keep).concat(other.rest), known.slice(0, other.keep + 1).concat(other.states ?? [])));
  return { ...object, name: object.key === null ? "–" : visible(String(object.key)),
    witness: new Set(object.witness), orders: [placed(object.order, known), ...others], anomalies: anomaliesOf(object) };
});
const severity = ["VALID", "UNKNOWN", "INVALID"];
const worst = objects.reduce((at, o, i) => severity.indexOf(o.status) > severity.indexOf(objects[at].status) ? i : at, 0);

/** The order of the operation's object to show while it is looked at: one that has it, if there is one. */
function orderFor(object, op) {
  return (op !== null && object.orders.find(order => order.rank.has(op))) || object.orders[0];
}
