"""The timeline that a report and pyporcupine's page share: its code, gestures and colours."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from pyporcupine import Operation, timeline, visualize
from report_cases import finished, stale
from selenium.webdriver import Chrome
from selenium.webdriver.support.wait import WebDriverWait

from harness.report.run_files import draw


def report(directory: Path) -> Path:
    run = finished(directory, stale())
    assert draw(run) is None
    return run.report


def picture(directory: Path) -> Path:
    history = [
        Operation(at % 3, "add", None, at, call=10 * at, ret=10 * at + 15) for at in range(200)
    ]
    visualize(history, "set", path=directory / "picture.html", bands=[(100, 300, "partition")])
    return directory / "picture.html"


PAGES = pytest.mark.parametrize("make", [report, picture], ids=["report", "pyporcupine"])

GESTURES = """
const canvas = document.querySelector("canvas.timeline"), box = canvas.getBoundingClientRect();
const view = () => [Number(canvas.dataset.from), Number(canvas.dataset.to)], seen = {};
const place = { clientY: box.top + 60, bubbles: true, cancelable: true };
const at = (x) => ({ ...place, clientX: box.left + x });
const key = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const wheel = (turned) => canvas.dispatchEvent(new WheelEvent("wheel", { ...at(200), ...turned }));
const finger = (id, type, x) =>
  canvas.dispatchEvent(new PointerEvent("pointer" + type, { ...at(x), pointerId: id }));
const note = (name, act) => {
  key("0"); key("+");
  const before = view();
  act();
  seen[name] = [before, view()];
};
canvas.setPointerCapture = () => {}; // there is no such pointer
note("nothing", () => {});
note("plus", () => key("+"));
note("minus", () => key("-"));
note("right", () => key("ArrowRight"));
note("wheel", () => wheel({ deltaY: -200 }));
note("turn sideways", () => wheel({ deltaX: 50 }));
note("double click", () => canvas.dispatchEvent(new MouseEvent("dblclick", at(200))));
note("drag", () => { finger(1, "down", 300); finger(1, "move", 250); finger(1, "up", 250); });
note("pinch", () => {
  finger(1, "down", 200); finger(2, "down", 260); finger(2, "move", 320);
  finger(1, "up", 200); finger(2, "up", 320);
});
note("button", () => document.querySelector("[data-zoom=in]").click());
note("too far", () => { for (let n = 0; n < 99; n++) key("ArrowRight"); });
return seen;
"""
"""Script that makes each gesture in the middle half of the page's time, and returns the sections of
time in view before and after it."""


def opened(browser: Chrome, make: Callable[[Path], Path], directory: Path) -> None:
    browser.set_window_size(1000, 800)
    directory.mkdir(exist_ok=True)
    browser.get(make(directory).as_uri())
    # Until its script has run, a canvas is 300 pixels wide.
    painted = "return document.querySelector('canvas.timeline').width !== 300"
    WebDriverWait(browser, 10).until(lambda b: b.execute_script(painted))


@PAGES
def test_the_page_has_the_shared_script_and_style(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    text = make(tmp_path).read_text()
    assert timeline.script() in text
    assert timeline.style() in text


@PAGES
def test_gestures_move_the_time_in_view(
    browser: Chrome, make: Callable[[Path], Path], tmp_path: Path
) -> None:
    opened(browser, make, tmp_path)
    seen = browser.execute_script(GESTURES)
    changes = {}
    for name, ((a, b), (after_a, after_b)) in seen.items():
        # By how much the time in view grew, and its begin moved, as shares of it.
        changes[name] = [round((after_b - after_a) / (b - a), 6), round((after_a - a) / (b - a), 6)]
    assert changes["nothing"] == [1, 0]
    assert changes["plus"] == changes["button"] == [0.5, 0.25]
    assert changes["minus"] == [2, -0.5]
    assert changes["right"] == [1, 0.2]
    assert changes["drag"] == changes["turn sideways"]  # 50 pixels each
    assert changes["drag"][0] == 1
    assert 0.04 < changes["drag"][1] < 0.1
    assert changes["too far"] == [1, 0.5]
    grown = {name: changes[name][0] for name in ("pinch", "double click", "wheel")}
    assert grown == {"pinch": 0.5, "double click": 0.25, "wheel": 0.606531}
    # What is under the pointer stays there.
    fixed = {name: moved / (1 - share) for name, (share, moved) in changes.items() if name in grown}
    assert fixed["wheel"] == pytest.approx(fixed["double click"], abs=1e-4)
    assert fixed["wheel"] == pytest.approx(fixed["pinch"], abs=1e-4)
    assert 0.1 < fixed["wheel"] < 0.25


@PAGES
def test_the_page_is_painted_in_the_colours_of_the_system(
    browser: Chrome, make: Callable[[Path], Path], tmp_path: Path
) -> None:
    papers = []
    for scheme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        opened(browser, make, tmp_path / scheme)
        papers.append(browser.execute_script("return colours(['paper', 'fault', 'ok'])"))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert papers == [
        {"paper": "rgb(255, 255, 255)", "fault": "rgb(217, 72, 15)", "ok": "rgb(20, 112, 58)"},
        {"paper": "rgb(20, 23, 27)", "fault": "rgb(255, 138, 80)", "ok": "rgb(76, 195, 128)"},
    ]


def test_ticks_have_room_for_their_labels(browser: Chrome, tmp_path: Path) -> None:
    opened(browser, picture, tmp_path)
    ticks = browser.execute_script("""
      const found = {}, cases = { wide: [1200, 8e6, 1e-6], narrow: [300, 9e5, 1e-6],
        deep: [300, 40, 1e-6], plain: [300, 4000, null] };
      for (const [name, [width, span, unit_s]] of Object.entries(cases)) {
        Object.assign(axis, { left: 0, width, from: 5e6, to: 5e6 + span, first: 0, unit_s });
        found[name] = axis.ticks();
      }
      return found;
    """)
    labels = {name: [label for _, label in found] for name, found in ticks.items()}
    assert labels["narrow"] == ["5.0 s", "5.2 s", "5.4 s", "5.6 s", "5.8 s"]
    assert labels["deep"][0] == "5.00000 s"
    assert labels["plain"][0] == "5\u2009000\u2009000"
    for found in ticks.values():
        gaps = {round(b - a) for (a, _), (b, _) in pairwise(found)}
        assert min(gaps) > 7 * max(len(label) for _, label in found)
