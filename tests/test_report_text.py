"""Output of `harness report`: the whole text, for a terminal of 80 columns."""

from collections.abc import Callable
from pathlib import Path

import pytest
from report_cases import begun, finished, onset, sound, stale
from rich.console import Console

from harness.report.text import text_report
from harness.run.store import RunDirectory
from harness.web.run_files import facts_in

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
