// Paints the calls in view. The time depends on the size of the canvas and hardly on the number of calls:
// calls first become marks in columns of pixels, then pixels are written a row at a time.
"use strict";

const TOP = 24, LABEL = 54, RIGHT = 4, AXIS = 22, NODE_GAP = 8;
const TONES = ["ok", "fail-fill", "info", "accent", "invalid", "not-due"]; // of 1 + kind, HOLDS, LACKS, NOT_DUE
const MIXES = 1 << TONES.length;

// Returns the least step of 1, 2 or 5 times a power of ten that is not below `rough`.
function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= rough);
}

class Painter {
  constructor(canvas, calls) {
    Object.assign(this, { canvas, calls, context: canvas.getContext("2d"), from: 0, to: 1, chosen: -1 });
    this.shown = new Uint8Array(calls.count);
    this.marked = calls.witnesses[0] ?? []; // the calls of the witness that is shown
    this.shortened = [];
    this.laneHeight = Math.max(3, Math.min(16, Math.floor(420 / Math.max(calls.lanes.length, 1))));
    this.laneOf = new Int32Array(calls.count);
    calls.lanes.forEach((lane, l) => lane.calls.forEach((i) => { this.laneOf[i] = l; }));
    this.restyle();
  }

  // Reads the page's colours and size again, after one of them changed.
  restyle() {
    const style = getComputedStyle(document.documentElement);
    const names = [...TONES, "fault", "fault-ink", "dim", "ink", "rule", "marked"];
    this.colour = Object.fromEntries(names.map((n) => [n, style.getPropertyValue("--" + n).trim()]));
    this.scale = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.calls.lanes.length ? this.y(this.calls.lanes.length - 1) + this.laneHeight + NODE_GAP + AXIS : 0;
    this.canvas.style.height = this.height + "px";
    this.canvas.width = Math.round(this.width * this.scale);
    this.canvas.height = Math.round(this.height * this.scale);
    this.hatched = this.#hatching();
    this.#pixels();
  }

  get plot() { return Math.max(this.width - LABEL - RIGHT, 1); }
  x(us) { return LABEL + (us - this.from) / (this.to - this.from) * this.plot; }
  us(x) { return this.from + (x - LABEL) / this.plot * (this.to - this.from); }
  y(lane) { return TOP + lane * this.laneHeight + (this.calls.lanes[lane].place + 1) * NODE_GAP; }

  // Returns the call at a point, or the nearest one within a few pixels on its lane; -1 if there is none.
  at(x, y) {
    const l = this.calls.lanes.findIndex((_, n) => y >= this.y(n) - 1 && y < this.y(n) + this.laneHeight - 1);
    if (l < 0) return -1;
    const lane = this.calls.lanes[l];
    let best = -1, nearest = 5; // pixels
    for (let k = firstIndex(lane.end, this.us(x - 5)); k < lane.calls.length && this.x(lane.begin[k]) < x + 5; k++) {
      if (this.shown[lane.calls[k]] === HIDDEN) continue;
      const away = Math.max(this.x(lane.begin[k]) - x, x - Math.max(this.x(lane.end[k]), this.x(lane.begin[k]) + 1), 0);
      if (away < nearest) { nearest = away; best = lane.calls[k]; }
    }
    return best;
  }

  paint() {
    const c = this.context, { scale } = this;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.#bars();
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.font = "12px system-ui, sans-serif";
    c.globalCompositeOperation = "destination-over";
    this.#faults();
    this.#grid();
    c.globalCompositeOperation = "source-over";
    this.#frames();
    this.#names();
  }

  // Prepares the pixels of a lane, and the colour of each row of a bar by the tones that meet in a column.
  // Several tones share the height of a bar, so that none hides another.
  #pixels() {
    this.columns = Math.max(1, Math.round(this.plot * this.scale));
    this.tall = Math.max(2, Math.round((this.laneHeight - 2) * this.scale));
    const words = TONES.map((tone) => this.word(tone));
    this.looks = new Uint32Array(MIXES * this.tall);
    for (let mask = 1; mask < MIXES; mask++) {
      const tones = words.filter((_, t) => mask & (1 << t));
      for (let row = 0; row < this.tall; row++)
        this.looks[row * MIXES + mask] = tones[Math.floor(row * tones.length / this.tall)];
    }
    this.image = new ImageData(this.columns, this.tall);
    this.words = new Uint32Array(this.image.data.buffer);
    this.masks = new Uint8Array(this.columns);
  }

  // Returns a colour as the pixel of an image.
  word(name) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(this.colour[name].slice(at, at + 2), 16));
    return new Uint32Array(new Uint8Array([r, g, b, 255]).buffer)[0];
  }

  #bars() {
    const { columns, tall, masks, words, looks, shown, scale } = this;
    const per = columns / (this.to - this.from), gap = scale, wide = 4 * scale;
    this.calls.lanes.forEach(({ calls, begin, end }, l) => {
      masks.fill(0);
      for (let k = firstIndex(end, this.from); k < calls.length && begin[k] <= this.to; k++) {
        const tone = shown[calls[k]];
        if (tone === HIDDEN) continue;
        const a = (begin[k] - this.from) * per, b = (end[k] - this.from) * per;
        const first = Math.max(0, Math.floor(a));
        const last = Math.min(columns, Math.max(first + Math.max(1, scale), Math.floor(b - (b - a > wide ? gap : 0))));
        for (let x = first, bit = 1 << (tone - 1); x < last; x++) masks[x] |= bit;
      }
      for (let row = 0, at = 0; row < tall; row++)
        for (let x = 0; x < columns; x++) words[at++] = looks[row * MIXES + masks[x]];
      this.context.putImageData(this.image, Math.round(LABEL * scale), Math.round(this.y(l) * scale));
    });
  }

  // Paints the faults with their labels; `shortened` names those in view whose label is shorter.
  #faults() {
    let reached = LABEL;
    this.shortened = [];
    for (const [fault, x0, , x1] of this.#spans()) reached = this.#label(fault, x0, x1, reached);
    this.shade(this.context, 0, this.height - AXIS);
  }

  // Yields the faults in view with the x of their invocation, of when their effect was verified, and of their end.
  *#spans() {
    for (const fault of this.calls.faults) {
      const until = fault.end ?? this.calls.until;
      if (until < this.from || fault.invoked > this.to) continue;
      const within = (us) => Math.min(Math.max(this.x(us), LABEL), this.width);
      const x0 = within(fault.invoked);
      yield [fault, x0, within(fault.begin), Math.min(Math.max(within(until), x0 + 2), this.width)];
    }
  }

  // Shades the faults in a context of the same width: hatched from invocation until the effect was verified, then plain.
  shade(context, top, bottom) {
    context.globalAlpha = 0.14;
    for (const [, x0, seen, x1] of this.#spans())
      for (const [style, a, b] of [[this.hatched, x0, seen], [this.colour.fault, seen, x1]]) {
        context.fillStyle = style;
        if (b > a) context.fillRect(a, top, b - a, bottom - top);
      }
    context.globalAlpha = 1;
  }

  // Paints the label of a fault between x0 and x1: name and target, or the name, or its number, whichever fits. It may
  // extend a little beyond them, and moves left at the end of the canvas. Returns the x up to which labels reach.
  #label(fault, x0, x1, reached) {
    const c = this.context, number = String(this.calls.faults.indexOf(fault) + 1);
    const width = (text) => c.measureText(text).width + 6, fits = (text) => width(text) <= Math.max(x1 - x0, 60) + 40;
    const place = (text) => Math.max(Math.min(x0, this.width - width(text)), LABEL);
    const whole = `${fault.name} ${fault.text}`;
    const text = [whole, fault.name].find((one) => fits(one) && place(one) >= reached) ?? number, x = place(text);
    if (text !== whole) this.shortened.push(text === number ? `${number} ${whole}` : whole);
    if (x < reached) return reached;
    c.fillStyle = this.colour["fault-ink"];
    c.fillText(text, x + 3, 15);
    return x + width(text) + 4;
  }

  #hatching() {
    const tile = document.createElement("canvas"), c = tile.getContext("2d");
    tile.width = tile.height = 6;
    c.strokeStyle = this.colour.fault;
    c.lineWidth = 2;
    for (const x of [-6, 0, 6]) { c.moveTo(x, 6); c.lineTo(x + 6, 0); }
    c.stroke();
    return c.createPattern(tile, "repeat");
  }

  // Returns the round times in view, each with its place and its label.
  ticks() {
    const span = (this.to - this.from) / 1e6, rough = span / Math.max(2, this.plot / 75);
    const step = roundStep(rough);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), found = [];
    for (let n = Math.ceil(Math.max(this.from, 0) / 1e6 / step); n * step <= this.to / 1e6; n++)
      found.push([Math.round(this.x(n * step * 1e6)) + 0.5, (n * step).toFixed(digits) + " s"]);
    return found;
  }

  #grid() {
    const c = this.context;
    c.fillStyle = this.colour.dim;
    c.strokeStyle = this.colour.rule;
    c.lineWidth = 1;
    c.textAlign = "center";
    for (const [x, label] of this.ticks()) {
      c.beginPath();
      c.moveTo(x, TOP);
      c.lineTo(x, this.height - AXIS);
      c.stroke();
      if (x > LABEL + 14 && x < this.width - 18) c.fillText(label, x, this.height - 6);
    }
    c.textAlign = "start";
  }

  #frames() {
    const c = this.context, tall = this.laneHeight - 2;
    c.save();
    c.beginPath();
    c.rect(LABEL - 3, 0, this.width, this.height);
    c.clip();
    c.lineWidth = 2;
    for (const i of [...this.marked, this.chosen]) {
      if (i < 0 || this.shown[i] === HIDDEN || this.calls.end[i] < this.from || this.calls.begin[i] > this.to) continue;
      const x0 = Math.max(this.x(this.calls.begin[i]), LABEL), x1 = Math.min(this.x(this.calls.end[i]), this.width + 9);
      c.strokeStyle = i === this.chosen ? this.colour.ink : this.colour.marked;
      c.strokeRect(x0 - 2, this.y(this.laneOf[i]) - 2, Math.max(x1 - x0, 2) + 4, Math.max(tall, 2) + 4);
    }
    c.restore();
  }

  #names() {
    const c = this.context;
    c.fillStyle = this.colour.ink;
    c.save();
    c.beginPath();
    c.rect(0, 0, LABEL - 4, this.height);
    c.clip();
    this.calls.lanes.forEach(({ name }, l) => { if (name) c.fillText(name, 6, this.y(l) + 11); });
    c.restore();
  }
}
