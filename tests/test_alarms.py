"""Alarms of a night: a figure of a cell that has changed, and none that chance explains."""

from datetime import UTC, datetime, timedelta

import pytest

from checkers.triage.explanation import Cause, Explained
from harness.nights.alarms import COMPARED, AlarmWindow, alarms_of, recent
from harness.nights.findings import nights_before
from harness.nights.night import Night
from harness.nights.night_summary import NightSummary, cells
from harness.nights.night_text import lines, markdown
from harness.run.rates import fisher

NOW = datetime(2026, 11, 27, 22, tzinfo=UTC)
NEW, OLD = "25.8.2.1 3.8.0", "24.8.4.1 3.8.0"


def known(name):
    """Return the explanation of a run by a defect, as a journal has it."""
    return Cause("known", (Explained(name, "18.16.1", 1, "w"),), ()).results()


def a_night(path, days, runs, *, servers=NEW, seconds=5.0, memory_mb=300.0, cell="a", options=None):
    """Return a night that began so many days before NOW, of so many runs with each outcome:
    {"stale-read": 2, "VALID": 3, "UNKNOWN": 1}."""
    began = NOW - timedelta(days=days)
    night = Night.begun(path / f"{began:%Y%m%dT%H%M%S}Z", {"started_utc": began.isoformat()})
    outcomes = [outcome for outcome, count in runs.items() for _ in range(count)]
    for run, outcome in enumerate(outcomes):
        night.say("begin", run, cell=cell, seed="0x1", options=options or {})
        night.say("directory", run, path=f"a/{run}")
        cost = {"servers": servers, "memory_mb": memory_mb}
        night.say("recorded", run, troubles=[], seconds=seconds, phases={}, **cost)
        status = outcome if outcome in ("VALID", "UNKNOWN") else "INVALID"
        cause = known(outcome) if status == "INVALID" else None
        said = {"status": status, "reason": "r", "kinds": [], "first_ns": 1, "cause": cause}
        night.say("judged", run, **said)
    return night


def short(alarms):
    return [(alarm.figure, alarm.verb, alarm.window) for alarm in alarms]


CHANGES = {
    "a rate that rises tonight": (
        [(10, {"stale-read": 2, "VALID": 38}, {})], {"stale-read": 8, "VALID": 4}, {},
        [("stale-read", "rises", AlarmWindow.NIGHT)],
    ),
    "a rate that falls": (
        [(10, {"stale-read": 30, "VALID": 10}, {})], {"VALID": 12}, {},
        [("stale-read", "falls", AlarmWindow.NIGHT)],
    ),
    "a rate that chance explains": (
        [(10, {"stale-read": 4, "VALID": 36}, {})], {"stale-read": 3, "VALID": 9}, {}, [],
    ),
    "a rate that creeps up over a week of short nights": (
        [
            (20, {"stale-read": 1, "VALID": 39}, {}),
            *((day, {"stale-read": 2, "VALID": 2}, {}) for day in (5, 4, 3, 2, 1)),
        ],
        {"stale-read": 2, "VALID": 2}, {}, [("stale-read", "rises", AlarmWindow.WEEK)],
    ),
    "a rate that differs on servers which are new": (
        [(1, {"stale-read": 20, "VALID": 4}, {"servers": OLD})], {"stale-read": 1, "VALID": 15}, {},
        [("stale-read", "falls", AlarmWindow.SERVERS)],
    ),
    "runs without a conclusion": (
        [(10, {"VALID": 30}, {})], {"VALID": 6, "UNKNOWN": 6}, {},
        [("UNKNOWN", "rises", AlarmWindow.NIGHT)],
    ),
    "runs that take longer": (
        [(10, {"VALID": 30}, {})], {"VALID": 10}, {"seconds": 9.0},
        [("run time", "rises", AlarmWindow.NIGHT)],
    ),
    "runs that take a little longer": (
        [(10, {"VALID": 30}, {})], {"VALID": 10}, {"seconds": 5.2}, [],
    ),
    "a harness that takes more memory": (
        [(10, {"VALID": 30}, {})], {"VALID": 10}, {"memory_mb": 900.0},
        [("memory", "rises", AlarmWindow.NIGHT)],
    ),
    "runs that a steered night gave other options": (
        [(10, {"stale-read": 2, "VALID": 38}, {})], {"stale-read": 8, "VALID": 4},
        {"options": {"interval": "1"}}, [],
    ),
    "a night that is compared with none": ([], {"stale-read": 12}, {}, []),
    "nights too long ago": (
        [(COMPARED.days + 1, {"stale-read": 40}, {})], {"VALID": 12}, {}, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES, ids=str)
def test_a_change_is_an_alarm_and_chance_is_none(case, tmp_path):
    past, tonight, more, expected = CHANGES[case]
    for days, runs, cost in past:
        a_night(tmp_path, days, runs, **cost)
    night = a_night(tmp_path, 0, tonight, **more)
    assert short(alarms_of(night, nights_before(night.path).recent)) == expected


def test_many_cells_that_did_not_change_raise_no_alarm_and_one_that_did_does(tmp_path):
    nights = [
        a_night(tmp_path / f"{n}", days, {"stale-read": n % 3, "VALID": 9}, cell=f"cell {n}")
        for n in range(40)
        for days in (9, 8, 0)
    ]
    before, now = ([one for one in nights if (one.began == NOW) is last] for last in (False, True))
    night = now[0]
    for other in now[1:]:
        night.slots |= {len(night.slots) + run: slot for run, slot in other.slots.items()}
    assert alarms_of(night, before) == []
    changed = a_night(tmp_path / "changed", 0, {"stale-read": 9}, cell="cell 0")
    assert short(alarms_of(changed, before)) == [("stale-read", "rises", AlarmWindow.NIGHT)]


def test_an_alarm_is_said_wherever_the_night_is(tmp_path):
    path = tmp_path / "weekly|matrix"
    a_night(path, 10, {"stale-read": 2, "VALID": 38})
    night = a_night(path, 0, {"stale-read": 8, "VALID": 4})
    earlier = nights_before(night.path)
    summary = NightSummary(
        night=night,
        cells=cells(night, ("a",), earlier.records),
        alarms=alarms_of(night, earlier.recent),
    )
    report = summary.results()
    text = "a: stale-read rises: 8 of 12 runs, 67 % (35–90 %) tonight; before: 2 of 40 runs, 5 % "
    text += "(0.61–17 %)"
    assert [alarm["text"] for alarm in report["alarms"]] == [text]
    assert report["headline"] == (
        "INVALID: 12 runs in 1 cell: 8 INVALID, 4 VALID; explained by stale-read 8; 1 alarm"
    )
    assert lines(report)[0] == report["headline"]
    assert lines(report)[1] == "run 0, a, seed 0x1: stale-read: r"
    assert f"alarm: {text}" in lines(report)
    page = markdown(report).splitlines()
    assert page[0].startswith(r"## weekly\|matrix: INVALID: 12 runs")
    assert page[2:5] == [
        "| cell | runs | INVALID | UNKNOWN | VALID | findings |",
        "| --- | --- | --- | --- | --- | --- |",
        "| a | 12 | 8 | 0 | 4 | stale-read 8 |",
    ]
    assert (
        "| a | stale-read rises | 8 of 12 runs, 67 % (35–90 %), tonight | 2 of 40 runs, 5 % "
        "(0.61–17 %) |" in page
    )


def test_nights_that_nothing_is_compared_with_any_more_are_not_kept(tmp_path):
    kept = []
    for days in (100, 60, 50, 0):
        kept = recent(kept, a_night(tmp_path, days, {"VALID": 1}))
    assert [(NOW - night.began).days for night in kept] == [50, 0]


@pytest.mark.parametrize(
    ("counts", "probability"),
    [
        # Fisher, "The design of experiments" (1935): a lady tells 3 of 4 cups, or all 4.
        ((3, 4, 1, 4), 34 / 70),
        ((4, 4, 0, 4), 2 / 70),
        ((2, 4, 2, 4), 1.0),
        ((0, 0, 3, 4), 1.0),
        # R: fisher.test(matrix(c(1, 9, 11, 3), 2))$p.value
        ((1, 10, 11, 14), 0.002759456),
    ],
)
def test_fishers_probability_is_that_of_the_book(counts, probability):
    assert fisher(*counts) == pytest.approx(probability)
    assert fisher(*counts[2:], *counts[:2]) == pytest.approx(probability)
