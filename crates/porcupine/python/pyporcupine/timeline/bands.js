// What stands above and behind the rows of a time axis: the ticks, and spans of time with labels, such as faults.
"use strict";

class Bands {
  // A band has {from, seen, to, name, text}: it is hatched until its effect is seen, then plain.
  constructor(axis, all) {
    Object.assign(this, { axis, all, shortened: [], height: all.length ? 46 : 28 });
  }

  // Takes the page's colours, once they have changed.
  restyle(colour) {
    const tile = document.createElement("canvas"), pen = tile.getContext("2d");
    tile.width = tile.height = 6;
    Object.assign(pen, { strokeStyle: colour.fault, lineWidth: 2 });
    for (const x of [-6, 0, 6]) { pen.moveTo(x, 6); pen.lineTo(x + 6, 0); }
    pen.stroke();
    Object.assign(this, { colour, hatched: pen.createPattern(tile, "repeat") });
  }

  // Yields the bands in view with the x of their begin, of when their effect was seen, and of their end.
  *inView() {
    const { axis } = this, right = axis.left + axis.width + axis.right;
    for (const band of this.all) {
      if (band.to < axis.from || band.from > axis.to) continue;
      const within = (time) => Math.min(Math.max(axis.x(time), axis.left), right), x0 = within(band.from);
      yield [band, x0, within(band.seen), Math.min(Math.max(within(band.to), x0 + 2), right)];
    }
  }

  // Shades the bands from top to bottom.
  shade(pen, top, bottom) {
    pen.globalAlpha = 0.14;
    for (const [, x0, seen, x1] of this.inView())
      for (const [style, a, b] of [[this.hatched, x0, seen], [this.colour.fault, seen, x1]]) {
        pen.fillStyle = style;
        if (b > a) pen.fillRect(a, top, b - a, bottom - top);
      }
    pen.globalAlpha = 1;
  }

  // Draws what stands above the rows, and the bands and lines of ticks behind them. The labels that are too long for
  // their bands are in `shortened`, as they should be read.
  draw(pen, bottom) {
    this.shortened = [];
    let reached = this.axis.left;
    Object.assign(pen, { font: FONT, textAlign: "left", textBaseline: "middle", fillStyle: this.colour["fault-ink"] });
    for (const [band, x0, , x1] of this.inView()) reached = this.#label(pen, band, x0, x1, reached);
    this.shade(pen, this.height - 3, bottom);
    this.axis.drawTicks(pen, this.colour, this.height - 5, bottom, 13);
  }

  // Writes the label of a band between x0 and x1: name and text, or the name, or its number, whichever fits. It may
  // extend a little beyond them, and moves left at the end of the canvas. Returns the x up to which labels reach.
  #label(pen, band, x0, x1, reached) {
    const { axis } = this, number = String(this.all.indexOf(band) + 1), right = axis.left + axis.width + axis.right;
    const width = (text) => pen.measureText(text).width + 6, fits = (text) => width(text) <= Math.max(x1 - x0, 60) + 40;
    const place = (text) => Math.max(Math.min(x0, right - width(text)), axis.left);
    const whole = `${band.name} ${band.text}`.trim();
    const text = [whole, band.name].find((label) => fits(label) && place(label) >= reached) ?? number, x = place(text);
    if (text !== whole) this.shortened.push(text === number ? `${number} ${whole}` : whole);
    if (x < reached) return reached;
    pen.fillText(text, x + 3, 33);
    return x + width(text) + 4;
  }

  // Returns the shortened labels as one text, empty if there are none.
  legend(title) {
    const named = this.shortened.slice(0, 12), more = this.shortened.length - named.length;
    return named.length ? `${title}: ${named.join("; ")}${more ? ` and ${more} more` : ""}` : "";
  }
}
