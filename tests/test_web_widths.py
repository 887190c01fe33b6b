"""Every page in a real browser on the screen of a phone: nothing is wider than the page, and every
control is as large as a finger needs it."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from pyporcupine import Operation, visualize
from report_cases import begun, finished, onset, sound, stale
from selenium.webdriver import Chrome
from test_drawn import STEERED, steered
from test_web_attacks import served
from test_web_nights import two_nights

from harness.report.run_files import facts_in
from harness.report.shrunk import write_comparison
from harness.store.store import RunDirectory
from harness.web.app import run_url

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
LONG = "partition-keeper-follower,pause-clickhouse,kill-zookeeper-leader"
SIZE = {"operations": 1_997, "faults": 3, "seconds": 20.0, "nodes": 6}
SIZES = {
    "kind": "set-full:stale",
    "candidates": 255,
    "accepted": 18,
    "why": None,
    "tries": None,
    "before": SIZE,
    "after": SIZE,
    "command": f"harness run --script {'x/' * 60}shrunk.toml",
}
NIGHT = "/night/m/20261121T000000000000Z"
PAGES = (
    "/", "/?group=scenario", "/?group=exploration", "/matrix", "/nights", NIGHT, STEERED,
    "/staleness", "/run/x/y", "/diff?run=x", "/none", "diff", "invalid", "valid", "unknown",
    "crashed", "live", "shrunk", "history",
)  # fmt: skip
REFUSED = ("/run/x/y", "/diff?run=x", "/none")
TARGET_PX_MIN = 24
"""WCAG 2.2, 2.5.8 Target Size (Minimum); links within text are exempt."""
SMALL = """
const controls = document.querySelectorAll("button, select, input, summary, nav a, .button");
return [...controls].filter(e => {
  const {width, height} = e.getBoundingClientRect();
  return width && (width < arguments[0] || height < arguments[0]);
}).map(e => e.outerHTML.slice(0, 80))
"""
STALE = [
    Operation(0, "write", None, 1, call=0, ret=10),
    Operation(0, "write", None, 2, call=20, ret=30),
    Operation(1, "read", None, call=40, ret=50, output=1),
]


def name_of(run: RunDirectory) -> str:
    return f"{run.path.parent.name}/{run.path.name}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the address of a served store, and the paths of the pages that have a name."""
    store: Path = tmp_path_factory.mktemp("store")
    two_nights(store)
    steered(store)
    invalid = finished(store, onset(), seed=90, nemesis=LONG)
    valid = finished(store, sound(), seed=91, least=10, workload="scenario-stale-read")
    unknown = finished(store, sound(), seed=92, least=1_000, workload="explore-quorum")
    crashed = begun(store, stale(), seed=93, nemesis=LONG)
    crashed.crash(f"ClusterError: {'/a/very/long/path' * 9}: no such file")
    live = begun(store, stale(), seed=94, nemesis=LONG)
    facts = facts_in(invalid)
    assert write_comparison(invalid.shrunk_page, [facts, facts], SIZES, f"# {'x' * 300}\n") is None
    history = store / "history.html"
    visualize(STALE, "register", path=history, title="x" * 300, bands=[(0, 15, "y" * 300)])
    two = [("run", name_of(invalid)), ("run", name_of(valid))]
    named = {"invalid": invalid, "valid": valid, "unknown": unknown, "crashed": crashed}
    paths = {page: run_url(name_of(run)) for page, run in named.items()}
    paths["live"] = f"{run_url(name_of(live))}/live"
    paths["shrunk"] = f"{paths['invalid']}/shrunk"
    paths["diff"] = f"/diff?{urlencode(two)}"
    with live.held(), served(store) as address:
        yield (
            address,
            {page: address + path for page, path in paths.items()} | {"history": history.as_uri()},
        )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_a_phone_and_a_finger(
    browser: Chrome, site: tuple[str, dict[str, str]], page: str
) -> None:
    address, paths = site
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        browser.get(paths.get(page, address + page))
        wider, screen = browser.execute_script(
            "return [document.documentElement.scrollWidth - innerWidth, innerWidth]"
        )
        assert (wider, screen) == (0, PHONE["width"])
        assert browser.execute_script(SMALL, TARGET_PX_MIN) == []
        if page in REFUSED:
            browser.get_log("browser")  # a status of 4xx counts as an error of the page
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_report_leads_to_what_it_was_shrunk_to(
    browser: Chrome, site: tuple[str, dict[str, str]]
) -> None:
    _, paths = site
    browser.get(paths["invalid"])
    browser.find_element("link text", "shrunk to a script").click()
    assert browser.current_url == paths["shrunk"]
    assert browser.find_element("link text", "report").get_attribute("href") == paths["invalid"]
    browser.get(paths["valid"])
    assert not browser.find_elements("link text", "shrunk to a script")
