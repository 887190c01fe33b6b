"""The usual schedule of a nemesis."""

from collections.abc import Callable
from dataclasses import replace

from harness.core.op import Call
from harness.core.protocols import Generator
from harness.generators.calls import once
from harness.generators.order import cycle, phases
from harness.generators.timing import sleep
from harness.generators.workers import on_nemesis


def faults(
    begin: Callable[[int], Call],
    end: Callable[[int], Call],
    *,
    interval_s: float,
    duration_s: float,
) -> Generator:
    """Quiet for `interval_s`, `begin(n)`, `duration_s` under the fault, `end(n)`, and again with
    n + 1, without end. Each wait counts from when the nemesis' last call ended, so a fault that
    takes long to begin still lasts as long as it should. The calls are marked as the nemesis'.
    """

    def round_(n: int) -> Generator:
        return phases(
            sleep(interval_s),
            once(replace(begin(n), nemesis=True)),
            sleep(duration_s),
            once(replace(end(n), nemesis=True)),
        )

    return on_nemesis(cycle(round_))
