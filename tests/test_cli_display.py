"""The live display of a run, compared as exact text."""

import io

from rich.console import Console

from harness.cli.display import Display, live_display
from harness.core.op import NEMESIS, Kind, Op, Value
from harness.run.monitor import Monitor, Phase

MS = 1_000_000


class Still:
    """A clock that somebody else moves."""

    time_ns = 0

    def now_ns(self) -> int:
        return self.time_ns

    def sleep_until(self, time_ns: int) -> None:
        self.time_ns = time_ns


def monitored() -> Monitor:
    """Return a monitor in the fault phase: value 1 was acknowledged, and a later read lacks it."""
    monitor = Monitor("quorum-set + partition, seed 0x7", 30.0, clock=Still())
    fault = {"fault": 1, "edge": "begin", "name": "partition-ring", "text": "{ch1 | ch2 ch3}"}
    rows: list[tuple[int, int | str, Kind, str, Value]] = [
        (1, NEMESIS, Kind.INVOKE, "partition", {}),
        (2, NEMESIS, Kind.OK, "partition", fault),
        (3, 0, Kind.INVOKE, "insert", 1),
        (4, 0, Kind.OK, "insert", 1),
        (5, 1, Kind.INVOKE, "read", None),
        (6, 1, Kind.OK, "read", ()),
        (7, 2, Kind.INVOKE, "insert", 2),
    ]
    for index, (ms, process, kind, f, value) in enumerate(rows):
        key = None if process == NEMESIS else 0
        op = Op(
            index=index,
            process=process,
            kind=kind,
            f=f,
            time_ns=ms * MS,
            value=value,
            key=key,
        )
        monitor.saw(op)
    monitor.enter(Phase.FAULTS)
    monitor.clock.sleep_until(12_000 * MS)
    return monitor


def test_the_display_of_a_run_under_a_fault() -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(Display(monitored()))
    assert console.export_text() == EXPECTED


def test_without_a_terminal_each_phase_and_each_new_reason_is_a_line() -> None:
    monitor, result = Monitor("a run", 30.0), io.StringIO()
    with live_display(monitor, Console(width=30, file=result)):
        monitor.enter(Phase.FAULTS)
        for reason in ("ch2 has 3 queue entries", "ch2 has 3 queue entries", "ch2 is read-only"):
            monitor.enter(Phase.QUIESCE, f"pending: {reason}")
    assert result.getvalue().splitlines() == [
        "faults",
        "quiesce: pending: ch2 has 3 queue entries",
        "quiesce: pending: ch2 is read-only",
    ]


EXPECTED = """\
╭─  quorum-set + partition, seed 0x7  ─────────────────────────────────────────────────────────────╮
│                                                                                                  │
│  ✓ set up   ● faults   ○ heal   ○ quiesce   ○ final reads   ○ judge   ○ clean up                 │
│                                                                                                  │
│  ━━━━━━━━━━━━━━━━━━━━━━━━                                      12 of 30 s                        │
│                                                                                                  │
│  operation          ok     fail     info                                                         │
│  insert              1        0        0                                                         │
│  read                1        0        0                                                         │
│  per second          0        0        0                                                         │
│  1 in flight                                                                                     │
│                                                                                                  │
│  faults      1 so far, now: partition-ring {ch1 | ch2 ch3}                                       │
│  anomalies   1 stale read, 1 acknowledged value missing, first at 0.006 s                        │
│                                                                                                  │
╰──────────────────────────────────────────────────────────────────────────────────────────────────╯
"""
