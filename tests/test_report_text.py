"""Output of `harness report`: the whole text, for a terminal of 80 columns."""

from collections.abc import Callable
from pathlib import Path

import pytest
from checkers_cases import final, history, insert
from report_cases import backwards, begun, finished, onset, sound, stale
from rich.console import Console
from test_checkers_registers import cas, read, write

from checkers.judge import judge
from checkers.suite import register_checkers
from harness.report.pace import shortfall
from harness.report.run_files import facts_in
from harness.report.story import sentences
from harness.report.text import text_report
from harness.store.store import RunDirectory

NAME = "quorum-set+partition/20261120T174509Z-0x5eed"

WHOLE: dict[str, tuple[Callable[[Path], RunDirectory], str]] = {
    "invalid": (
        lambda store: finished(store, stale()),
        f"""\
INVALID  {NAME}
promised linearizable, held sequential

ch1 acknowledged the insert of 2 into key 0 at 0.060 s, during partition {{ch2 |
ch1 ch3}}.
A read on ch2 that began 900 ms later, at 0.960 s, during partition {{ch2 | ch1
ch3}}, returned 1 value without 2.
That breaks linearizable (a read returns every value acknowledged before it
began); sequential held.

                  ch1  ch2
     time  fault  p0   p1
  0.010 s    ▒     ┌        insert 2 #6
⋮ 50.0 ms    ▒     │
  0.060 s    ▒     └        acknowledged here #8
 ⋮ 900 ms    ▒
  0.960 s    ▒          ┌   read → 1 value #12
  0.964 s    ▒          └   missing here: 2 #13

▒ partition {{ch2 | ch1 ch3}}: from 0.008 s to 1.500 s
""",
    ),
    "invalid, while a fault was being injected": (
        lambda store: finished(store, onset()),
        f"""\
INVALID  {NAME}
promised linearizable, held sequential

ch1 acknowledged the insert of 2 into key 0 at 0.060 s.
A read on ch2 that began 900 ms later, at 0.960 s, while
partition-keeper-follower {{ch2 zk2 | ch1 ch3 zk1 zk3}}, leader zk1, clients
connected was being injected (verified at 0.980 s), returned 1 value without 2.
That breaks linearizable (a read returns every value acknowledged before it
began); sequential held.

                  ch1  ch2
     time  fault  p0   p1
  0.010 s          ┌        insert 2 #4
⋮ 50.0 ms          │
  0.060 s          └        acknowledged here #5
 ⋮ 840 ms
  0.900 s    ░              partition-keeper-follower is invoked
⋮ 60.0 ms    ░
  0.960 s    ░          ┌   read → 1 value #7
⋮ 20.0 ms    ░          │
  0.980 s    ▒          │   partition-keeper-follower is verified
  0.990 s    ▒          └   missing here: 2 #9

▒ partition-keeper-follower {{ch2 zk2 | ch1 ch3 zk1 zk3}}, leader zk1, clients
connected: invoked at 0.900 s, verified at 0.980 s, over at 1.500 s
░ invoked, its effect not verified yet
""",
    ),
    "valid": (
        lambda store: finished(store, sound(), least=10),
        f"""\
VALID  {NAME}
promised linearizable, held linearizable

14 acknowledged writes and 16 answered reads were checked.
No fault was in force, and nothing broke the promise.
Every level up to linearizable held.
""",
    ),
    "unknown": (
        lambda store: finished(store, sound(), least=1_000),
        f"""\
UNKNOWN  {NAME}
promised linearizable

Nothing can be concluded from this run.
Reasons: stats: 14 ok calls of insert, at least 1,000 expected; 14 ok calls of
read, at least 1,000 expected.
This is not a success: run it longer, or with more operations.
""",
    ),
    "crashed": (
        lambda store: begun(store, stale()),
        f"""\
CRASHED  {NAME}
promised linearizable

The harness process is gone and left no reason: it was killed, or the machine
failed.
24 ops reached the disk before that, shown on its page.
It has no verdict; harness check {NAME}
gives one.
""",
    ),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_whole_text(tmp_path: Path, kind: str) -> None:
    make, expected = WHOLE[kind]
    console = Console(width=80, highlight=False)
    with console.capture() as captured:
        console.print(text_report(facts_in(make(tmp_path))), crop=False)
    printed = "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
    assert printed == f"{expected}\nagain  harness run --nemesis partition --seed 0x5eed\n"


def test_a_reason_that_checkers_share_is_given_once(tmp_path: Path) -> None:
    _, reasons, _ = sentences(facts_in(finished(tmp_path, history(insert(0, 1, 1, 4)))))
    assert reasons.startswith("Reasons: stats: 0 ok calls of read, at least 1 expected; ")
    assert "; linearizable, sequential: no read was answered." in reasons


def test_a_cas_is_a_write_and_a_read_of_nothing_a_read(tmp_path: Path) -> None:
    ops = history(
        read(1, None, 0, 1),
        *(call for at in range(10, 130, 10) for call in (write(0, 1, at, at + 1),
          cas(0, 1, 2, at + 2, at + 3), read(1, 2, at + 4, at + 5))),
        read(1, 2, 130, 131, f="final-read"),
    )  # fmt: skip
    run = begun(tmp_path, ops)
    run.finish(
        judge(ops, register_checkers(faults_expected=False), 60, "linearizable"), history=ops
    )
    first, _, _ = sentences(facts_in(run))
    assert first == "24 acknowledged writes and 14 answered reads were checked."


def test_a_witness_is_said_to_break_what_it_breaks_alone(tmp_path: Path) -> None:
    assert sentences(facts_in(finished(tmp_path, backwards())))[-1] == (
        "That breaks linearizable, sequential, session (a process reads whatever it has read "
        "before); eventual held."
    )


@pytest.mark.parametrize(
    ("rate", "took_ms", "text"),
    [
        (None, 99, ""),
        (10, 99, ""),
        (
            100,
            99,
            "10 calls a second of the 100 that --rate asks for: its 1 client waited for answers "
            "99% of the time; --concurrency makes more",
        ),
        (
            100,
            10,
            "10 calls a second of the 100 that --rate asks for: its 1 client waited for answers "
            "only 10% of the time, so that the workload itself paused",
        ),
    ],
)
def test_a_rate_that_was_not_reached_is_said_with_its_reason(
    rate: float | None, took_ms: int, text: str
) -> None:
    """A call begins every 100 ms; the final read is no part of the rate."""
    calls = [insert(0, at, 100 * at, 100 * at + took_ms) for at in range(21)]
    ops = history(*calls, final(0, range(21), 60_000, 60_001))
    assert shortfall(ops, rate, 1) == text
