// Notes on the time axis: in the rows of clients, and in rows of their own, which come after those.
/** Where a note's bar is. A moment has a bar of a few pixels. */
function noteBox(note) {
  const left = axis.x(note.from), right = axis.x(note.to ?? note.from);
  return { left: note.to === null ? left - 2 : left, width: Math.max(right - left, 4), top: y(note.row) + 1 };
}

function drawNotes(client) {
  pen.font = "12px system-ui, sans-serif"; pen.textAlign = "left"; pen.textBaseline = "middle";
  for (const note of notes.filter(note => note.row === client && (note.to ?? note.from) >= axis.from && note.from <= axis.to)) {
    const { left, width, top } = noteBox(note), own = client >= data.clients.length;
    pen.fillStyle = color.fault; pen.strokeStyle = note === look.note ? color.ink : color["fault-ink"];
    pen.beginPath(); pen.roundRect(left, top, width, ROW - 2, Math.min(4, width / 2));
    pen.globalAlpha = 0.2; pen.fill(); pen.globalAlpha = 1; pen.stroke();
    const from = Math.max(left, axis.left) + 5, room = (note.to === null ? canvas.clientWidth : Math.min(left + width, canvas.clientWidth)) - from - 5;
    if (!own || room < 14) continue;
    pen.fillStyle = color["fault-ink"];
    pen.fillText([...note.text].slice(0, Math.floor(room / 6)).join(""), note.to === null ? from + 2 : from, top + ROW / 2 - 1, room);
  }
}

/** The note under a point of the canvas. */
function noteUnder(px, py) {
  const client = lanes[Math.floor((py + look.top - bands.height - 6) / ROW)];
  if (px < axis.left || py < bands.height || client === undefined) return null;
  return notes.findLast(note => { const { left, width } = noteBox(note); return note.row === client && px >= left - 2 && px <= left + width + 2; }) ?? null;
}

function showNote(note) {
  const size = Math.min(axis.to - axis.from, Math.max(((note.to ?? note.from) - note.from) * 3, span / 10));
  axis.show(note.from - size / 3, note.from + size * 2 / 3);
  look.picked = null; look.note = note; details(); redraw();
}
function noteDetails(panel, note) {
  const time = value => timeText(value, data.unit_s);
  add(panel, "h2", note.text);
  if (note.details) add(panel, "p", note.details, "why");
  const facts = [["row", rowName(note.row)], ["from", time(note.from)], ["to", note.to === null ? null : time(note.to)], ["took", note.to === null ? null : time(note.to - note.from)]];
  add(panel, "dl").append(...definitions(facts.filter(([, value]) => value !== null).map(([name, value]) => [name, String(value)])));
}
function noteList(panel) {
  if (!notes.length) return;
  add(panel, "h3", `Notes: ${notes.length}`);
  const list = add(panel, "ol");
  for (const note of notes.slice(0, 200)) add(add(list, "li"), "button", note.text.slice(0, 300)).addEventListener("click", () => showNote(note));
}
