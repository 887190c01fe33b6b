"""The printed result of a run, compared as exact text."""

from rich.console import Console

from checkers.judge import judge
from checkers.ladder import Level
from checkers.suite import set_checkers
from harness.cli.result import result
from harness.core.history import History
from harness.core.op import NEMESIS, Kind, Op, Value

MS = 1_000_000


def history() -> History:
    """Return a history in which value 1 is acknowledged on ch1, then missed by a read on ch2 under
    a partition."""
    rows: list[tuple[int, int | str, Kind, str, Value, str | None]] = [
        (1, NEMESIS, Kind.INVOKE, "partition", {}, None),
        (2, NEMESIS, Kind.OK, "partition",
         {"fault": 1, "edge": "begin", "name": "partition-one", "text": "{ch2 | ch1}"}, None),
        (3, 0, Kind.INVOKE, "insert", 1, "ch1"),
        (4, 0, Kind.OK, "insert", 1, "ch1"),
        (5, 1, Kind.INVOKE, "read", None, "ch2"),
        (6, 1, Kind.OK, "read", (), "ch2"),
        (7, NEMESIS, Kind.INVOKE, "heal", {"edge": "heal"}, None),
        (8, NEMESIS, Kind.OK, "heal", {"edge": "heal"}, None),
        (9, NEMESIS, Kind.INVOKE, "quiesce", None, None),
        (10, NEMESIS, Kind.OK, "quiesce", {"pending": []}, None),
        (11, 0, Kind.INVOKE, "final-read", None, "ch1"),
        (11, 1, Kind.INVOKE, "final-read", None, "ch2"),
        (12, 0, Kind.OK, "final-read", (1,), "ch1"),
        (12, 1, Kind.OK, "final-read", (1,), "ch2"),
    ]  # fmt: skip
    return History(
        [
            Op(
                index=i, process=process, kind=kind, f=f, time_ns=ms * MS, value=value,
                key=None if process == NEMESIS else 0, node=node,
            )
            for i, (ms, process, kind, f, value, node) in enumerate(rows)
        ]
    )  # fmt: skip


def printed(width: int) -> str:
    checkers = set_checkers(
        Level.LINEARIZABLE, faults_expected=True, min_ok={"insert": 1, "read": 1}
    )
    past = history()
    panel = result(
        judge(past, checkers, 10, "linearizable"),
        past,
        title="store/quorum-set+partition/latest",
        workload="quorum-set",
        repro_command="harness run --nemesis partition --seed 0x7",
        troubles=["no logs: the engine is gone"],
    )
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(panel)
    console.file.close()
    return console.export_text()


def test_a_violation_is_told_with_its_witness_and_how_to_run_it_again() -> None:
    text = printed(100)
    assert text == EXPECTED


EXPECTED = """\
╭─  INVALID  store/quorum-set+partition/latest  ───────────────────────────────────────────────────╮
│                                                                                                  │
│  final-read 2 ok · insert 1 ok · read 1 ok · 1 fault · 0 s                                       │
│                                                                                                  │
│  checker              verdict  what was found                                                    │
│  stats                UNKNOWN  4 ok calls in total, at least 20 expected                         │
│  set-full             INVALID  1 acknowledged value is missing from reads begun after the        │
│                                acknowledgement (of 1 acknowledged)                               │
│  convergence          VALID    2 replicas equal in 1 key at 0.010 s                              │
│  monotonic-reads      UNKNOWN  not tested: no answered read is bound by it                       │
│  read-your-writes     VALID    read-your-writes kept by 1 read                                   │
│  monotonic-writes     UNKNOWN  not tested: no answered read is bound by it                       │
│  writes-follow-reads  UNKNOWN  not tested: no answered read is bound by it                       │
│  linearizable         INVALID  1 of 1 key not linearizable (3 reads)                             │
│  sequential           VALID    1 key sequential (3 reads)                                        │
│                                                                                                  │
│  promised linearizable   levels  ✗ linearizable  ✓ sequential  ✓ session  ✓ eventual             │
│                                                                                                  │
│  quorum-set: 1 acknowledged value is missing from reads begun after the acknowledgement (of 1    │
│  acknowledged)                                                                                   │
│  first stale  value 1 of key 0, op #3 ok at 0.004 s on ch1, is missing from op #4 read on ch2,   │
│               begun 1.000 ms later, during partition-one {ch2 | ch1}                             │
│  witness      op #3 insert 1 on ch1 was acknowledged at 0.004 s, during partition-one {ch2 |     │
│               ch1}                                                                               │
│               op #4 read on ch2 began at 0.005 s and returned 0 values at 0.006 s (op #5)        │
│               without 1, during partition-one {ch2 | ch1}                                        │
│  expected     a read returns every value acknowledged before it began                            │
│  again        harness run --nemesis partition --seed 0x7                                         │
│                                                                                                  │
│  ! no logs: the engine is gone                                                                   │
│                                                                                                  │
╰──────────────────────────────────────────────────────────────────────────────────────────────────╯
"""
