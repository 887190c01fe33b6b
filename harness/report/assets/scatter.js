// Paints the latency of every call in view: a dot by its begin and its length, coloured as in the timeline.
"use strict";

class Scatter {
  constructor(canvas, painter) {
    Object.assign(this, { canvas, painter, context: canvas.getContext("2d") });
    const { length, count } = painter.calls;
    let low = Infinity, high = 0;
    for (let i = 0; i < count; i++) if (length[i] >= 0) { low = Math.min(low, length[i]); high = Math.max(high, length[i]); }
    this.low = Math.floor(Math.log10(Math.max(low, 1000)));
    this.high = Math.max(this.low + 1, Math.ceil(Math.log10(Math.max(high, 10_000))));
    this.restyle();
  }

  restyle() {
    const scale = window.devicePixelRatio || 1;
    Object.assign(this, { scale, width: this.canvas.clientWidth, height: this.canvas.clientHeight });
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
  }

  y(ns) { return 8 + (this.height - AXIS - 8) * (1 - (Math.log10(Math.max(ns, 1000)) - this.low) / (this.high - this.low)); }

  paint() {
    const { context: c, painter, scale, width, height } = this, { colour, calls, shown } = painter;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.#dots();
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.globalCompositeOperation = "destination-over";
    c.font = "12px system-ui, sans-serif";
    for (const fault of calls.faults) {
      const a = Math.max(painter.x(fault.begin), LABEL), b = Math.min(painter.x(fault.end ?? calls.until), width);
      if (b <= a) continue;
      c.globalAlpha = 0.14;
      c.fillStyle = colour.fault;
      c.fillRect(a, 8, b - a, height - AXIS - 8);
      c.globalAlpha = 1;
    }
    c.strokeStyle = colour.rule;
    c.fillStyle = colour.dim;
    for (let power = this.low; power <= this.high; power++) {
      const y = Math.round(this.y(10 ** power)) + 0.5;
      c.beginPath();
      c.moveTo(LABEL, y);
      c.lineTo(width, y);
      c.stroke();
      c.fillText(power < 6 ? `${10 ** (power - 3)} µs` : power < 9 ? `${10 ** (power - 6)} ms` : `${10 ** (power - 9)} s`, 4, y + 4);
    }
    c.textAlign = "center";
    for (const [x, label] of painter.ticks())
      if (x > LABEL + 14 && x < width - 18) c.fillText(label, x, height - 6);
    c.textAlign = "start";
    c.globalCompositeOperation = "source-over";
    this.canvas.setAttribute("aria-label", `Latency of ${shown.reduce((n, s) => n + (s !== HIDDEN), 0).toLocaleString("en")} calls`);
  }

  // Writes pixels, so that the time hardly depends on the number of calls; rarer tones lie on top.
  #dots() {
    const { painter, scale, canvas } = this, { calls, shown, from, to, colour } = painter;
    const image = new ImageData(canvas.width, canvas.height), pixels = new Uint32Array(image.data.buffer);
    const size = Math.max(2, Math.round(2 * scale)), left = Math.round(LABEL * scale);
    const words = TONES.map((name) => {
      const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour[name].slice(at, at + 2), 16));
      return new Uint32Array(new Uint8Array([r, g, b, 255]).buffer)[0];
    });
    for (let tone = 1; tone <= TONES.length; tone++) {
      for (let i = 0, last = firstIndex(calls.begin, to, true); i < last; i++) {
        if (shown[i] !== tone || calls.length[i] < 0 || calls.begin[i] < from) continue;
        const x0 = Math.round(painter.x(calls.begin[i]) * scale), y0 = Math.round(this.y(calls.length[i]) * scale);
        for (let y = y0; y < y0 + size && y < canvas.height; y++)
          for (let x = Math.max(x0, left); x < x0 + size && x < canvas.width; x++) pixels[y * canvas.width + x] = words[tone - 1];
      }
    }
    this.context.putImageData(image, 0, 0);
  }
}
