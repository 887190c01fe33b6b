// How a person moves along a time axis, and what makes a canvas be painted anew.
"use strict";

// Moves an axis when somebody drags, pinches, turns the wheel, double-clicks, or presses a key or a button with
// data-zoom. `click` gets a point of the canvas, `hover` the one under the pointer, and `scroll` how far rows were dragged,
// where they can be. `listener` gets the keys, also `keys`, the page's own.
function navigate(axis, { click, hover, scroll, keys = {}, listener = axis.canvas }) {
  const { canvas } = axis, down = new Map();
  let held = null;
  const grip = (moved) => {
    const points = [...down.values()];
    return { points, times: points.map(([x]) => axis.time(x)), from: axis.from, to: axis.to, moved };
  };
  canvas.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, [event.offsetX, event.offsetY]);
    canvas.setPointerCapture(event.pointerId);
    held = grip(down.size > 1);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId), at = [event.offsetX, event.offsetY];
    if (!before) return hover?.(...at);
    down.set(event.pointerId, at);
    const [a, b] = down.values(), [first] = held.points;
    held.moved ||= Math.hypot(a[0] - first[0], a[1] - first[1]) > 3;
    if (!held.moved) return;
    canvas.classList.add("dragging");
    if (!b) {
      const by = (first[0] - a[0]) / axis.width * (held.to - held.from);
      scroll?.(before[1] - at[1]);
      axis.show(held.from + by, held.to + by);
    } else if (Math.abs(b[0] - a[0]) > 10) {
      // The points of time under the fingers stay under them.
      const per = (held.times[1] - held.times[0]) / (b[0] - a[0]), from = held.times[0] - (a[0] - axis.left) * per;
      if (per > 0) axis.show(from, from + axis.width * per);
    }
  });
  const release = (event) => {
    const was = held;
    down.delete(event.pointerId);
    canvas.classList.remove("dragging");
    held = down.size ? grip(true) : null;
    return was;
  };
  canvas.addEventListener("pointerup", (event) => { if (release(event)?.moved === false) click(event.offsetX, event.offsetY); });
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => hover?.());
  canvas.addEventListener("dblclick", (event) => axis.zoom(0.25, axis.time(event.offsetX)));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { deltaX, deltaY } = event, line = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey || Math.abs(deltaX) > Math.abs(deltaY)) axis.pan((deltaX || deltaY) * line / axis.width);
    else axis.zoom(Math.exp(Math.max(-400, Math.min(400, deltaY * line)) / 400), axis.time(event.offsetX));
  }, { passive: false });
  const zooms = { in: () => axis.zoom(0.5), out: () => axis.zoom(2), fit: () => axis.fit() };
  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", zooms[button.dataset.zoom]);
  const acts = { ArrowLeft: () => axis.pan(-0.2), ArrowRight: () => axis.pan(0.2), "+": zooms.in, "=": zooms.in, "-": zooms.out, 0: zooms.fit, ...keys };
  listener.addEventListener("keydown", (event) => {
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT"].includes(event.target.tagName)) return;
    event.preventDefault();
    acts[event.key]();
  });
}

// Calls `repaint` at once when the canvas has another size, because it is empty then, or the page other colours. A button
// changes between dark and light; without a choice, the page looks as the system does.
function watchLooks(canvas, repaint, button = null) {
  const { dataset } = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  new ResizeObserver(() => {
    const [width, height] = pixels(canvas);
    if (width !== canvas.width || height !== canvas.height) repaint();
  }).observe(canvas);
  dark.addEventListener("change", () => { delete dataset.theme; repaint(); });
  button?.addEventListener("click", () => {
    dataset.theme = (dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
    repaint();
  });
}
