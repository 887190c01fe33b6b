"""The last line of a command, what a VALID run exercised, and progress in words."""

from pathlib import Path

import pytest
from checkers_cases import fault, final, history, insert, read, rest
from report_cases import sound, stale

from checkers.exercise import exercise_of
from checkers.headline import headline
from checkers.judge import Judgement, judge
from checkers.ladder import Level
from checkers.suite import set_checkers
from harness.cli.display import Pace, rate, span
from harness.cli.result import CommandAnswer
from harness.core.history import History
from harness.core.verdict import Status


class StoppedClock:
    """Clock whose time the test sets."""

    now = 0

    def now_ns(self) -> int:
        return self.now

    def sleep_until(self, time_ns: int) -> None:
        raise AssertionError("progress does not wait")


def judged(ops: History, least: int = 1) -> Judgement:
    checkers = set_checkers(
        Level.LINEARIZABLE, faults_expected=False, min_ok={"insert": least, "read": least}
    )
    return judge(ops, checkers, 60, "linearizable")


@pytest.mark.parametrize(
    ("judgement", "line"),
    [
        (judged(stale()), "INVALID: stale read, 1 of 2 inserts"),
        (judged(sound()), "VALID: linearizable held; 14 inserts and 14 reads answered, no faults"),
        (
            judged(sound(), 1_000),
            "UNKNOWN: stats: 14 ok calls of insert, at least 1,000 expected",
        ),
    ],
)
def test_the_answer_says_what_decides(judgement: Judgement, line: str) -> None:
    assert f"{judgement.status.value}: {headline(judgement)}".startswith(line)


def test_the_answer_on_several_runs_counts_them_and_names_the_first_of_the_worst() -> None:
    good = CommandAnswer(Status.VALID, "linearizable held")
    bad = CommandAnswer(Status.INVALID, "stale read, 1 of 2 inserts", Path("/s/report.html"))
    assert CommandAnswer.of_all([bad]).line().plain == (
        "INVALID: stale read, 1 of 2 inserts; report: /s/report.html"
    )
    assert CommandAnswer.of_all([good, bad, bad]).line().plain == (
        "INVALID: 3 runs: 1 VALID, 2 INVALID; first: stale read, 1 of 2 inserts (in 2 runs); "
        "report: /s/report.html"
    )
    assert CommandAnswer.of_all([good, good]).line().plain == "VALID: 2 runs: 2 VALID"


def test_a_valid_run_says_what_it_exercised_and_what_not() -> None:
    ops = history(
        insert(0, 1, 1, 4),
        fault(8, 100, text="{ch2 | ch1}", name="partition-one"),
        *(read(1, [1], t, t + 1, node="ch2") for t in range(10, 70, 2)),
        rest(200),
        *(final(p, [1], 300, 301, node=f"ch{p + 1}") for p in (0, 1)),
    )
    found = exercise_of(judged(ops), ops)
    assert found is not None
    assert found.done == (
        "insert 1 ok of 1, read 30 ok of 30, on ch1, ch2",
        "1 fault (partition-one); ok while one was in force: read 30",
    )
    assert "under a fault: no ok insert" in found.missing
    assert "calls of unknown outcome: there were none" in found.missing
    assert found.next[0] == "--nemesis kill,pause: killed servers, servers that stand still"
    assert exercise_of(judged(stale()), stale()) is None


def test_progress_has_numbers_a_rate_and_the_time_left() -> None:
    clock = StoppedClock()
    pace = Pace("runs", 6, clock=clock)
    assert pace.text(0) == "0 of 6 runs"
    clock.now = 30_000_000_000
    assert pace.text(3) == "3 of 6 runs, 6 a minute, 30 s left"
    assert Pace("runs", None, 20.0, clock=clock).text(3) == "3 runs, 6 a minute, 0 s left"
    assert [rate(2.5), rate(0.001), span(240), span(7_800)] == [
        "2.5 a second", "3.6 an hour", "4 min", "2 h 10 min"
    ]  # fmt: skip
