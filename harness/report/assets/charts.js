// Charts below the timeline, with its filters and its section of time: the latency of every call, and rate and
// latency in bins of time.
"use strict";

const MARGIN = 8, ROW = 18, AXIS = 22, BINS_MAX = 120, BIN_US = 250_000, MARKS = "●■▲▼◆✚×+";
const DASHES = [[], [5, 3], [1.5, 2.5]]; // by kind, so that colour is not the only difference
const QUANTILES = [[0.5, 2, "median"], [0.95, 1.4, "95 %"], [0.99, 0.9, "99 %"], [1, 0.5, "max"]];

// Lines of a chart: the group of a call, and the lines of a group. A line's value is that of the sorted lengths in ns
// of its calls in a bin, and of the bin's seconds.
const LINES = {
  rate: {
    group: (calls, i) => calls.kind[i],
    lines: (calls, kind) => [{ label: calls.kinds[kind], kind, empty: 0, value: (lengths, seconds) => lengths.length / seconds }],
  },
  quantiles: {
    group: (calls, i) => calls.kinds[calls.kind[i]] === "ok" ? calls.kind[i] : -1,
    lines: (calls, kind) => QUANTILES.map(([q, width, label]) => ({ label, kind, width, mark: "●", value: (lengths) => quantile(lengths, q) })),
  },
  medians: {
    group: (calls, i) => calls.f[i] * calls.kinds.length + calls.kind[i],
    lines: (calls, group) => {
      const kind = group % calls.kinds.length, f = (group - kind) / calls.kinds.length;
      return [{ label: `${calls.names.f[f]} ${calls.kinds[kind]}`, kind, mark: MARKS[f % MARKS.length], value: (lengths) => quantile(lengths, 0.5) }];
    },
  },
};
const quantile = (sorted, q) => sorted[Math.round((sorted.length - 1) * q)];

// Returns the lines of a chart over the calls in view that ended, by the time of their end: bins of `width` µs, whole
// ones of the run, and for each line a value a bin, NaN in a bin that has none.
function linesOf(name, { calls, shown, axis: { from, to } }) {
  const least = Math.max((to - from) / BINS_MAX, Math.min(BIN_US, (to - from) / 12));
  const all = Math.max(1, Math.floor(calls.until / least)), width = calls.until / all;
  const first = Math.max(0, Math.floor(from / width)), bins = Math.max(0, Math.min(all, Math.ceil(to / width)) - first);
  const groups = new Map(), { group, lines } = LINES[name];
  for (let i = 0; i < calls.count; i++) {
    const bin = Math.min(Math.floor(calls.end[i] / width), all - 1) - first, of = group(calls, i);
    if (shown[i] === HIDDEN || calls.length[i] < 0 || bin < 0 || bin >= bins || of < 0) continue;
    if (!groups.has(of)) groups.set(of, Array.from({ length: bins }, () => []));
    groups.get(of)[bin].push(calls.length[i]);
  }
  for (const lists of groups.values()) for (const lengths of lists) lengths.sort((a, b) => a - b);
  const made = [...groups].sort(([a], [b]) => a - b).flatMap(([of, lists]) => lines(calls, of).map((line) => (
    { ...line, values: lists.map((lengths) => lengths.length ? line.value(lengths, width / 1e6) : line.empty ?? NaN) })));
  return { first, width, lines: made };
}

// Logarithmic scale for the latencies of all calls, in ns.
class Latencies {
  constructor({ length, count }) {
    let low = Infinity, high = 0;
    for (let i = 0; i < count; i++) if (length[i] >= 0) { low = Math.min(low, length[i]); high = Math.max(high, length[i]); }
    this.low = Math.floor(Math.log10(Math.max(low, 1000)));
    this.high = Math.max(this.low + 1, Math.ceil(Math.log10(Math.max(high, 10_000))));
    if (!Number.isFinite(this.low)) Object.assign(this, { low: 3, high: 4 });
  }
  share(ns) { return (Math.log10(Math.max(ns, 1000)) - this.low) / (this.high - this.low); }
  *ticks() {
    for (let power = this.low; power <= this.high; power++)
      yield [10 ** power, power < 6 ? `${10 ** (power - 3)} µs` : power < 9 ? `${10 ** (power - 6)} ms` : `${10 ** (power - 9)} s`];
  }
}

// Linear scale from 0 to at least `most`.
class Rates {
  constructor(most) {
    this.step = roundStep(Math.max(most, 1) / 4);
    this.high = this.step * Math.ceil(Math.max(most, 1) / this.step);
  }
  share(rate) { return rate / this.high; }
  *ticks() { for (let n = 0; n * this.step <= this.high; n++) yield [n * this.step, (n * this.step).toLocaleString("en")]; }
}

// A canvas with the axes and faults of the timeline's section. Derived classes paint their `marks()` on a `scale`.
class Chart {
  constructor(canvas, painter, scale) {
    Object.assign(this, { canvas, painter, scale, context: canvas.getContext("2d"), top: MARGIN });
    this.restyle();
  }

  restyle() {
    Object.assign(this, { dots: sharpen(this.canvas), width: this.canvas.clientWidth, height: this.canvas.clientHeight });
  }

  y(value) { return this.top + (this.height - AXIS - this.top) * (1 - this.scale.share(value)); }

  paint() {
    const { context: c, painter, dots, width, height } = this, { colour } = painter;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, this.canvas.width, this.canvas.height);
    c.font = FONT;
    this.marks();
    c.setTransform(dots, 0, 0, dots, 0, 0);
    c.globalCompositeOperation = "destination-over";
    painter.bands.shade(c, this.top, height - AXIS);
    painter.axis.drawTicks(c, colour, this.top, height - AXIS, height - 10);
    c.textAlign = "start";
    for (const [value, label] of this.scale.ticks()) {
      const y = Math.round(this.y(value)) + 0.5;
      c.beginPath();
      c.moveTo(LABEL, y);
      c.lineTo(width, y);
      c.stroke();
      c.fillText(label, 4, y);
    }
    c.textBaseline = "alphabetic";
    c.globalCompositeOperation = "source-over";
  }
}

// A dot for each call, by its begin and its latency, coloured as in the timeline.
class Scatter extends Chart {
  // Writes pixels, so that the time hardly depends on the number of calls; rarer tones lie on top.
  marks() {
    const { painter, dots, canvas } = this, { calls, shown, axis } = painter, { from, to } = axis;
    const image = new ImageData(canvas.width, canvas.height), pixels = new Uint32Array(image.data.buffer);
    const size = Math.max(2, Math.round(2 * dots)), left = Math.round(LABEL * dots);
    const words = TONES.map((tone) => painter.word(tone));
    for (let tone = 1; tone <= TONES.length; tone++) {
      for (let i = 0, last = firstIndex(calls.begin, to, true); i < last; i++) {
        if (shown[i] !== tone || calls.length[i] < 0 || calls.begin[i] < from) continue;
        const x0 = Math.round(axis.x(calls.begin[i]) * dots), y0 = Math.round(this.y(calls.length[i]) * dots);
        for (let y = y0; y < y0 + size && y < canvas.height; y++)
          for (let x = Math.max(x0, left); x < x0 + size && x < canvas.width; x++) pixels[y * canvas.width + x] = words[tone - 1];
      }
    }
    this.context.putImageData(image, 0, 0);
    canvas.setAttribute("aria-label", `Latency of ${shown.reduce((n, s) => n + (s !== HIDDEN), 0).toLocaleString("en")} calls`);
  }
}

// Lines over bins of time, named above them.
class Lines extends Chart {
  constructor(canvas, painter, scale) {
    super(canvas, painter, scale);
    this.name = canvas.id;
  }

  marks() {
    const { context: c, painter, dots, width } = this, { first, width: bin, lines } = linesOf(this.name, painter);
    if (!(this.scale instanceof Latencies)) this.scale = new Rates(lines.reduce((most, line) => Math.max(most, ...line.values), 0));
    this.canvas.dataset.lines = lines.map((line) => line.label).join(", ");
    c.setTransform(dots, 0, 0, dots, 0, 0);
    this.#legend(lines);
    c.save();
    c.beginPath();
    c.rect(LABEL, 0, width, this.height);
    c.clip();
    for (const line of lines) this.#line(line, line.values.map((value, at) => [painter.axis.x((first + at + 0.5) * bin), this.y(value)]));
    c.restore();
  }

  // Names the lines in as many rows as they need, and lets the chart begin below.
  #legend(lines) {
    const c = this.context;
    let x = LABEL, row = 0;
    for (const line of lines) {
      const wide = 40 + c.measureText(line.label).width;
      if (x > LABEL && x + wide > this.width) { x = LABEL; row++; }
      const y = row * ROW + 11;
      this.#line(line, [[x, y], [x + 10, y], [x + 20, y]], [1]);
      c.fillStyle = this.painter.colour.ink;
      c.fillText(line.label, x + 26, y + 4);
      x += wide;
    }
    this.top = MARGIN + (lines.length ? row + 1 : 0) * ROW;
  }

  // Paints a line through points that follow each other, and its mark at those of the given positions, by default all.
  #line({ kind, width = 1.2, mark }, points, marked = null) {
    const c = this.context;
    c.strokeStyle = c.fillStyle = this.painter.colour[TONES[kind]];
    c.lineWidth = width;
    c.setLineDash(DASHES[kind]);
    c.beginPath();
    points.forEach(([x, y], at) => { at && !Number.isNaN(points[at - 1][1]) ? c.lineTo(x, y) : c.moveTo(x, y); });
    c.stroke();
    c.setLineDash([]);
    if (!mark) return;
    c.save();
    c.font = "8px system-ui, sans-serif";
    c.textAlign = "center";
    for (const [at, [x, y]] of points.entries())
      if (!Number.isNaN(y) && (!marked || marked.includes(at))) c.fillText(mark, x, y + 3);
    c.restore();
  }
}
