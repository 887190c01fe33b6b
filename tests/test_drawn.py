"""What a steered night says of its runs: how they were drawn, what they added and were aimed at."""

import json
import re
from io import StringIO
from pathlib import Path

from rich.console import Console
from selenium.webdriver import Chrome
from test_web_attacks import served
from test_web_nights import text

from harness.cli.torture import _show_steps
from harness.nights.drawn import DrawnRuns, aimed_moments, drawn_runs
from harness.nights.night import NIGHTS, Night, Slot
from harness.nights.night_summary import NightSummary, cells
from harness.nights.steering import AIM, FORESEEN
from harness.web.app import night_url

STATE = "quorum pending, 1 inactive, 1 behind, 1 with a long queue"
ENDED, FETCHED, RARE = f"{STATE}: EndQuorum", "2+ inactive: GetPart", "1 lost: FinishEntry"
STEERED = night_url("steered/20261120T000000000000Z")
RUNS = (
    ("a", "fresh", "", ("healthy: Insert",)),
    ("b", "fresh options", "", ("healthy: Insert", RARE)),
    ("b", "fresh", "", ("healthy: PullLog",)),
    ("b", AIM, RARE, (RARE, "log lag 2")),
    ("b", "seed", RARE, ("log lag 2",)),
    ("a", FORESEEN, ENDED, ("healthy: Insert",)),
    ("a", FORESEEN, FETCHED, ("log lag 4",)),
    ("a", "options", RARE, (ENDED,)),
    ("a", FORESEEN, ENDED, (ENDED,)),
)
"""Cell, how it was drawn, for which element, and what it covered, of each run."""


def steered(store: Path, *, blind: bool = False) -> Night:
    """Store a night of these runs, the last of which is INVALID, and an earlier one."""
    before = Night.begun(store / NIGHTS / "steered" / "20261119T000000000000Z", {})
    before.say("end")
    (before.path / "summary.json").write_text(
        json.dumps({"steps": {}, "elements": {"healthy: Insert": 3}})
    )
    path = store / NIGHTS / "steered" / "20261120T000000000000Z"
    night = Night.begun(path, {"matrix": "x", "started_utc": "2026-11-20T00:00:00"})
    for number, (cell, how, element, elements) in enumerate(RUNS):
        drawn: dict[str, object] = (
            {} if blind else {"how": how, "element": element, "options": {}, "parent": None}
        )
        night.say("begin", number, cell=cell, seed=f"{number:#x}", **drawn)
        night.say("directory", number, path=f"{cell}/{number}")
        night.say("recorded", number, troubles=[], seconds=1.0)
        status, kinds = ("INVALID", ["stale"]) if number == len(RUNS) - 1 else ("VALID", [])
        night.say("judged", number, status=status, reason="", kinds=kinds, first_ns=None,
                  steps=["Insert"], elements=list(elements))  # fmt: skip
    night.say("end")
    return night


def test_each_way_of_drawing_has_its_runs_and_what_they_added(tmp_path: Path) -> None:
    assert drawn_runs(steered(tmp_path).runs) == [
        DrawnRuns("first run of a cell", 2, 2, 0, 0, 0),
        DrawnRuns("the cell's own options", 1, 1, 0, 0, 0),
        DrawnRuns("an earlier run's options, the next seed", 1, 0, 1, 0, 0),
        DrawnRuns("options near an earlier run's", 1, 1, 1, 0, 0),
        DrawnRuns("aimed at a rare element", 1, 1, 1, 1, 0),
        DrawnRuns("aimed at what only simulated runs had covered", 3, 1, 3, 1, 1),
    ]
    assert drawn_runs([Slot(0, "a", "0x1"), Slot(1, "a", "0x2")]) == []


def test_a_moment_has_the_runs_aimed_at_it_and_those_that_covered_it(tmp_path: Path) -> None:
    moments = aimed_moments(steered(tmp_path).runs)
    assert [(one.element, one.foreseen, one.is_covered) for one in moments] == [
        (FETCHED, True, False), (ENDED, True, True), (RARE, False, True)
    ]  # fmt: skip
    _, ended, rare = moments
    for moment, aimed, hits, others in ((ended, [5, 8], [8], [7]), (rare, [3], [3], [1])):
        slots = (moment.aimed, moment.hits, moment.others)
        assert [[slot.number for slot in of] for of in slots] == [aimed, hits, others]


def test_the_summary_and_the_terminal_say_how_runs_were_drawn(tmp_path: Path) -> None:
    night = steered(tmp_path)
    summary = NightSummary(night=night, cells=cells(night, (), {}))
    report = summary.results()
    assert report["aimed_at"] == {FETCHED: False, ENDED: True}
    ways = report["drawn"]
    assert isinstance(ways, list)
    first = {"way": "first run of a cell", "runs": 2, "added": 2}
    assert ways[0] == first | {"sought": 0, "reached": 0, "INVALID": 0}
    out = StringIO()
    _show_steps(Console(file=out, width=80), summary)
    said = out.getvalue()
    assert "runs drawn, and elements that they added: first run of a cell 2 (+2), the" in said
    assert "aimed at 2 elements that only simulated runs had covered: 1 covered now" in said


def test_the_page_of_a_steered_night_says_what_was_covered_and_aimed_at(
    browser: Chrome, tmp_path: Path
) -> None:
    steered(tmp_path)
    with served(tmp_path) as address:
        browser.get(address + STEERED)
        rows = browser.execute_script(
            "return [...document.querySelectorAll('#drawn tbody tr, #moments tbody tr')]"
            ".map(row => [...row.cells].map(cell => cell.innerText))"
        )
        page = text(address, STEERED)
    assert "6 elements covered, 5 of them in no earlier night" in page
    assert rows[0] == ["first run of a cell", "2", "0", "2", "1.0", "–"]
    assert rows[-4] == [
        "aimed at what only simulated runs had covered", "3", "1", "1", "0.3", "1 of 3"
    ]  # fmt: skip
    assert rows[-3:] == [
        [FETCHED, "only simulated runs", "6", "no"],
        [ENDED, "only simulated runs", "5 8", "by 1 of 2"],
        [RARE, "few runs", "3", "by 1 of 1"],
    ]
    assert re.search(r'id="moments".*?<b>8</b>', page, re.DOTALL)


def test_the_page_of_a_blind_night_says_how_many_elements_it_has(tmp_path: Path) -> None:
    steered(tmp_path, blind=True)
    with served(tmp_path) as address:
        page = text(address, STEERED)
        other = text(address, night_url("steered/20261119T000000000000Z"))
    assert "6 elements covered, 5 of them in no earlier night" in page
    assert "How the runs" not in page
    assert "Moments aimed at" not in page
    assert "elements covered" not in other
