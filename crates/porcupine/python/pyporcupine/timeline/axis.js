// The time axis of a canvas: the section of time in view, where each time is, and the ticks.
"use strict";

const FONT = "12px system-ui, sans-serif";

// Returns the least step of 1, 2 or 5 times a power of ten that is not below `rough`.
function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= rough);
}

// Returns the first index at which `fits` holds, `count` if there is none. It holds for all later ones, too.
function firstWhere(count, fits) {
  let low = 0, high = count;
  while (low < high) { const mid = (low + high) >> 1; if (fits(mid)) high = mid; else low = mid + 1; }
  return low;
}

// Returns a time as text, with the digits that a `step` between ticks needs. The unit is that of the `largest` time in
// view, or of the step where that would take too many digits.
function timeText(time, unit_s, step = 0, largest = 0) {
  if (!unit_s && !step && !Number.isInteger(time)) return String(Number(time.toPrecision(9)));
  if (!unit_s) return step && step < 1 ? time.toPrecision(6) : Math.round(time).toLocaleString("en").replaceAll(",", "\u2009");
  const extent = !step ? Math.abs(time) : largest < 1e6 * step ? largest : step;
  const [name, size] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6]].find(([, s]) => (extent || 1) * unit_s >= s * 0.999) ?? ["ns", 1e-9];
  const value = time * unit_s / size;
  if (!step) return `${Number(value.toFixed(6))} ${name}`;
  return `${value.toFixed(Math.min(9, Math.max(0, Math.ceil(-Math.log10(step * unit_s / size) - 1e-9))))} ${name}`;
}

// Returns the page's colours of these names, as "rgb(r, g, b)".
function colours(names) {
  const probe = document.body.appendChild(document.createElement("i"));
  const read = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
  const found = Object.fromEntries(names.map((name) => [name, read(name)]));
  probe.remove();
  return found;
}

// Returns the width and height of a canvas in pixels of the screen; a hidden page has none.
function pixels(canvas) {
  return [canvas.clientWidth, canvas.clientHeight].map((length) => Math.max(1, Math.round(length * (devicePixelRatio || 1))));
}

// Gives a canvas the pixels of the screen and its context the units of CSS. Returns the number of pixels in a unit.
function sharpen(canvas) {
  const ratio = devicePixelRatio || 1;
  [canvas.width, canvas.height] = pixels(canvas);
  canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
  return ratio;
}

// Returns terms and their descriptions as elements of a <dl>.
function definitions(rows) {
  return rows.flatMap((texts) => texts.map((text, at) => Object.assign(document.createElement(at ? "dd" : "dt"), { textContent: text })));
}

class TimeAxis {
  // Times from `start` to `end` can be brought into view, at least `least` of them; ticks begin at `first`. A unit of time
  // has `unit_s` seconds, or is not known. `changed` is called when another section is in view.
  constructor(canvas, { start, end, first, least, unit_s, changed }) {
    Object.assign(this, { canvas, start, end, first, least, unit_s, changed, from: start, to: end, left: 0, right: 0, width: 1 });
  }

  // Takes the canvas's width without its margins, once it has changed.
  measure(left, right = 0) {
    Object.assign(this, { left, right, width: Math.max(this.canvas.clientWidth - left - right, 1) });
  }

  x(time) { return this.left + (time - this.from) / (this.to - this.from) * this.width; }
  time(x) { return this.from + (x - this.left) / this.width * (this.to - this.from); }

  // Brings a section of time into view, or the nearest one that may be.
  show(from, to) {
    const span = Math.min(Math.max(to - from, this.least), this.end - this.start);
    this.from = Math.min(Math.max(from, this.start), this.end - span);
    this.to = this.from + span;
    Object.assign(this.canvas.dataset, { from: this.from, to: this.to });
    this.changed();
  }
  zoom(factor, at = (this.from + this.to) / 2) { this.show(at - (at - this.from) * factor, at + (this.to - at) * factor); }
  pan(share) { const by = (this.to - this.from) * share; this.show(this.from + by, this.to + by); }
  fit() { this.show(this.start, this.end); }

  // Returns the round times in view, each with its place and its label, as many as have room for their labels.
  ticks() {
    const largest = Math.max(Math.abs(this.from), Math.abs(this.to)), found = [], px = (this.to - this.from) / this.width;
    let room = 60, step = roundStep(room * px);
    while (room < this.width && timeText(this.to, this.unit_s, step, largest).length * 7 + 12 > step / px) step = roundStep((room *= 1.3) * px);
    for (let n = Math.ceil(Math.max(this.from, this.first) / step); n * step <= this.to; n++)
      found.push([Math.round(this.x(n * step)) + 0.5, timeText(n * step, this.unit_s, step, largest)]);
    return found;
  }

  // Draws the ticks as lines from `top` to `bottom`, with their labels at `y`.
  drawTicks(pen, colour, top, bottom, y) {
    Object.assign(pen, { font: FONT, textAlign: "center", textBaseline: "middle", fillStyle: colour.dim, strokeStyle: colour.rule, lineWidth: 1 });
    pen.beginPath();
    for (const [x, label] of this.ticks()) {
      pen.moveTo(x, top);
      pen.lineTo(x, bottom);
      if (x > this.left + 20 && x < this.left + this.width - 20) pen.fillText(label, x, y);
    }
    pen.stroke();
  }

  // Writes the names of rows beside them, each at its y, from `top` on.
  drawNames(pen, colour, names, top) {
    pen.save();
    pen.beginPath();
    pen.rect(0, top, this.left - 4, this.canvas.clientHeight);
    pen.clip();
    Object.assign(pen, { font: FONT, textAlign: "left", textBaseline: "middle", fillStyle: colour.ink });
    for (const [name, y] of names) pen.fillText(name, 6, y);
    pen.restore();
  }
}
