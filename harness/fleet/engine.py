"""What judges the runs of a store: processes of this machine, or Spark."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from harness.core.errors import UsageError
from harness.fleet.java import require_java
from harness.fleet.location import Location
from harness.fleet.plan import Item
from harness.fleet.stored_runs import SCRATCH
from harness.fleet.task import Job

if TYPE_CHECKING:
    from harness.fleet.spark import Fleet


MASTER: Final = "SPARK_MASTER"
"""Variable of the environment with the master of Spark, if the command line has none."""
SPARK_FROM: Final = 25_000
"""Number of histories from which Spark judges: its start takes 5 s and a history of 2,000 ops some
2.1 ms (docs/lab/fleet.md), so that the start is under a tenth of the time."""


class EngineName(StrEnum):
    """What judges the runs of a store."""

    AUTO = "auto"
    """Spark from SPARK_FROM histories on, if pyspark is installed; else processes."""
    PROCESSES = "processes"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class ChosenEngine:
    """What judges, and why it does."""

    on_spark: bool
    master: str | None
    """Master of the Spark; None for that of spark-submit or of Spark's configuration, or else
    local[*]."""
    text: str
    """Name of the engine and the reason, in a line."""


def choose_engine(name: EngineName, master: str | None, histories: int) -> ChosenEngine:
    """Return what judges this number of histories. Raises UsageError if a master is given for
    processes."""
    if name is EngineName.PROCESSES:
        if master is not None:
            raise UsageError(f"--spark {master}: expected --engine spark or auto, not processes")
        return ChosenEngine(False, None, "processes of this machine: --engine processes")
    known = master or os.environ.get(MASTER)
    shown = f"Spark ({known or 'local[*], or the master of its configuration'})"
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return ChosenEngine(True, master, "Spark, by spark-submit")
    if master is not None or name is EngineName.SPARK:
        return ChosenEngine(True, known, f"{shown}: {'--spark' if master else '--engine spark'}")
    if histories < SPARK_FROM:
        why = f"fewer than {SPARK_FROM:,} histories to judge; --spark MASTER judges on a cluster"
        return ChosenEngine(False, None, f"processes of this machine: {why}")
    if lack := _lack_of_spark():
        why = f"Spark judges from {SPARK_FROM:,} histories on, and {lack}"
        return ChosenEngine(False, None, f"processes of this machine: {why}")
    return ChosenEngine(True, known, f"{shown}: {SPARK_FROM:,} histories or more to judge")


def _lack_of_spark() -> str:
    """Return why Spark cannot be started on this machine; "" if nothing is known to lack."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed"
    try:
        require_java()
    except UsageError as error:
        return str(error)
    return ""


@contextmanager
def spark_fleet(master: str | None, root: Location) -> Iterator["Fleet"]:
    """Yield a Spark that ends with the block. It logs to the store, or to a temporary directory if
    the store is elsewhere or read-only. Raises MissingExtraError without pyspark."""
    # Slow to import, and most commands do not need it.
    from harness.fleet.spark import Fleet

    with ExitStack() as stack:
        writable = root.path is not None and os.access(root.path, os.W_OK)
        if root.path is not None and writable:
            directory = root.path / SCRATCH
        else:
            directory = Path(stack.enter_context(TemporaryDirectory(prefix="harness-spark-")))
        yield stack.enter_context(closing(Fleet(master, directory / "spark.log")))


def judge_on_spark(
    master: str | None,
    job: Job,
    items: Sequence[Item],
    on_progress: Callable[[int], None] | None = None,
) -> list[Location]:
    """Judge all items on a Spark of their own, as `harness.fleet.processes.judge` does."""
    with spark_fleet(master, job.store) as fleet:
        return fleet.judge(job, items, on_progress)
