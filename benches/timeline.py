"""A report of many calls in a headless chromium: size, time to open, time a step of zoom and pan.

    python -m benches.timeline [calls]

A step is one turn of the wheel or one press of an arrow key. Its script is what the page's own code
takes in the frame that paints it; its frame is the time from one painted frame to the next while
steps come as fast as frames do, so it holds rasterizing and the browser's own work as well.
"""

import sys
import tempfile
from pathlib import Path
from shutil import which
from statistics import median, quantiles
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from harness.core.clock import WallClock
from harness.report.run_files import draw

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from report_cases import begun, long

STEPS = 60
WATCH = """
const ask = window.requestAnimationFrame.bind(window);
window.spent = [];
window.requestAnimationFrame = (paint) => ask((at) => {
  const began = performance.now();
  paint(at);
  window.spent.push(performance.now() - began);
});
"""
"""Script that runs before the page's own and measures how long each of its frames takes."""
PLAY = """
const [kind, steps, done] = arguments, canvas = document.getElementById("canvas");
const box = canvas.getBoundingClientRect(), frames = [];
let n = 0, last = 0;
window.spent = [];
function step(at) {
  if (last) frames.push(at - last);
  last = at;
  if (n++ === steps) return done([window.spent, frames]);
  const half = n <= steps / 2;
  const clientX = box.left + box.width * 0.6, clientY = box.top + 40, cancelable = true;
  const wheel = { deltaY: half ? -90 : 90, clientX, clientY, cancelable };
  const key = { key: half ? "ArrowRight" : "ArrowLeft", cancelable };
  canvas.dispatchEvent(
    kind === "zoom" ? new WheelEvent("wheel", wheel) : new KeyboardEvent("keydown", key));
  ask(step);
}
ask(step);
"""


def opened(browser: Chrome, page: Path) -> float:
    """Return the seconds until every call is painted, by the browser's clock."""
    browser.get(page.as_uri())
    WebDriverWait(browser, 60).until(
        lambda b: b.find_element(By.ID, "canvas").get_attribute("data-ready")
    )
    ready = "return performance.getEntriesByName('timeline-ready')[0].startTime / 1000"
    return float(browser.execute_script(ready))


def played(browser: Chrome, kind: str) -> tuple[list[float], list[float]]:
    """Return the milliseconds of script and of each frame, for each step."""
    script, frames = browser.execute_async_script(PLAY, kind, STEPS)
    return script, frames


def percentiles(samples: list[float]) -> str:
    """Return a median and a percentile as "1.2 (p95 3.4)"."""
    return f"{median(samples):6.1f} ms (p95 {quantiles(samples, n=20)[-1]:5.1f})"


def start_browser() -> Chrome:
    """Start a headless browser with the width of a desktop."""
    options = ChromeOptions()
    options.binary_location = which("chromium") or "chromium"
    for switch in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--window-size=1440,900",
    ):
        options.add_argument(switch)
    browser = Chrome(options, ChromeService(which("chromedriver")))
    untyped: Any = browser
    untyped.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    browser.set_script_timeout(120)
    return browser


def main(calls: int) -> None:
    """Draw the report and measure how it responds."""
    with tempfile.TemporaryDirectory() as store:
        run = begun(Path(store), long(calls))
        clock = WallClock()
        trouble = draw(run)
        assert trouble is None, trouble
        drawn_s = clock.now_ns() / 1e9
        browser = start_browser()
        try:
            print(f"{calls:,} calls ({2 * calls:,} ops): drawn in {drawn_s:.1f} s, "
                  f"{run.report.stat().st_size / 1e3:,.0f} kB, "
                  f"history.jsonl {run.journal.stat().st_size / 1e6:,.0f} MB")  # fmt: skip
            print(f"  open  {min(opened(browser, run.report) for _ in range(3)):.2f} s")
            for kind in ("zoom", "pan"):
                script, frames = played(browser, kind)
                print(f"  {kind:5} script {percentiles(script)}   frame {percentiles(frames)}")
            box = browser.find_element(By.NAME, "value")
            box.send_keys("4")
            script, frames = played(browser, "zoom")
            print(
                f"  zoom  script {percentiles(script)}   frame {percentiles(frames)}   value search"
            )
        finally:
            browser.quit()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
