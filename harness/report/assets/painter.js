// Paints the calls in view. The time depends on the size of the canvas and hardly on the number of calls:
// calls first become marks in columns of pixels, then pixels are written a row at a time.
"use strict";

const LABEL = 54, RIGHT = 4, NODE_GAP = 8;
const TONES = ["ok", "fail-fill", "info", "accent", "invalid", "not-due"]; // of 1 + kind, HOLDS, LACKS, NOT_DUE
const MIXES = 1 << TONES.length;

class Painter {
  constructor(canvas, calls, changed) {
    Object.assign(this, { canvas, calls, context: canvas.getContext("2d"), chosen: -1 });
    const slack = calls.until * 0.01;
    this.axis = new TimeAxis(canvas, { start: -slack, end: calls.until + slack, first: 0, least: 20, unit_s: 1e-6, changed });
    this.bands = new Bands(this.axis, calls.faults);
    this.shown = new Uint8Array(calls.count);
    this.marked = calls.witnesses[0] ?? []; // the calls of the witness that is shown
    this.laneHeight = Math.max(3, Math.min(16, Math.floor(420 / Math.max(calls.lanes.length, 1))));
    this.laneOf = new Int32Array(calls.count);
    calls.lanes.forEach((lane, l) => lane.calls.forEach((i) => { this.laneOf[i] = l; }));
    this.restyle();
  }

  // Reads the page's colours and size again, after one of them changed.
  restyle() {
    this.colour = colours([...TONES, "fault", "fault-ink", "dim", "ink", "rule", "marked"]);
    this.height = this.calls.lanes.length ? this.y(this.calls.lanes.length - 1) + this.laneHeight + NODE_GAP : 0;
    this.canvas.style.height = this.height + "px";
    this.scale = sharpen(this.canvas);
    this.axis.measure(LABEL, RIGHT);
    this.bands.restyle(this.colour);
    this.#pixels();
  }

  y(lane) { return this.bands.height + lane * this.laneHeight + (this.calls.lanes[lane].place + 1) * NODE_GAP; }

  // Returns the call at a point, or the nearest one within a few pixels on its lane; -1 if there is none.
  at(x, y) {
    const { axis } = this;
    const l = this.calls.lanes.findIndex((_, n) => y >= this.y(n) - 1 && y < this.y(n) + this.laneHeight - 1);
    if (l < 0) return -1;
    const lane = this.calls.lanes[l];
    let best = -1, nearest = 5; // pixels
    for (let k = firstIndex(lane.end, axis.time(x - 5)); k < lane.calls.length && axis.x(lane.begin[k]) < x + 5; k++) {
      if (this.shown[lane.calls[k]] === HIDDEN) continue;
      const away = Math.max(axis.x(lane.begin[k]) - x, x - Math.max(axis.x(lane.end[k]), axis.x(lane.begin[k]) + 1), 0);
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
    c.globalCompositeOperation = "destination-over";
    this.bands.draw(c, this.height);
    c.globalCompositeOperation = "source-over";
    this.#frames();
    const named = [...this.calls.lanes.entries()].filter(([, { name }]) => name);
    this.axis.drawNames(c, this.colour, named.map(([l, { name }]) => [name, this.y(l) + 7]), this.bands.height);
  }

  // Prepares the pixels of a lane, and the colour of each row of a bar by the tones that meet in a column.
  // Several tones share the height of a bar, so that none hides another.
  #pixels() {
    this.columns = Math.max(1, Math.round(this.axis.width * this.scale));
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
    return new Uint32Array(new Uint8Array([...this.colour[name].match(/\d+/g).map(Number), 255]).buffer)[0];
  }

  #bars() {
    const { columns, tall, masks, words, looks, shown, scale } = this, { from, to } = this.axis;
    const per = columns / (to - from), gap = scale, wide = 4 * scale;
    this.calls.lanes.forEach(({ calls, begin, end }, l) => {
      masks.fill(0);
      for (let k = firstIndex(end, from); k < calls.length && begin[k] <= to; k++) {
        const tone = shown[calls[k]];
        if (tone === HIDDEN) continue;
        const a = (begin[k] - from) * per, b = (end[k] - from) * per;
        const first = Math.max(0, Math.floor(a));
        const last = Math.min(columns, Math.max(first + Math.max(1, scale), Math.floor(b - (b - a > wide ? gap : 0))));
        for (let x = first, bit = 1 << (tone - 1); x < last; x++) masks[x] |= bit;
      }
      for (let row = 0, at = 0; row < tall; row++)
        for (let x = 0; x < columns; x++) words[at++] = looks[row * MIXES + masks[x]];
      this.context.putImageData(this.image, Math.round(LABEL * scale), Math.round(this.y(l) * scale));
    });
  }

  #frames() {
    const c = this.context, { axis } = this, tall = this.laneHeight - 2;
    c.save();
    c.beginPath();
    c.rect(LABEL - 3, 0, axis.width + RIGHT + 3, this.height);
    c.clip();
    c.lineWidth = 2;
    for (const i of [...this.marked, this.chosen]) {
      if (i < 0 || this.shown[i] === HIDDEN || this.calls.end[i] < axis.from || this.calls.begin[i] > axis.to) continue;
      const x0 = Math.max(axis.x(this.calls.begin[i]), LABEL), x1 = Math.min(axis.x(this.calls.end[i]), LABEL + axis.width + 13);
      c.strokeStyle = i === this.chosen ? this.colour.ink : this.colour.marked;
      c.strokeRect(x0 - 2, this.y(this.laneOf[i]) - 2, Math.max(x1 - x0, 2) + 4, Math.max(tall, 2) + 4);
    }
    c.restore();
  }
}
