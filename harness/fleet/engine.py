"""What judges the runs of a store: processes of this machine, or Spark."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from harness.fleet.location import Location
from harness.fleet.plan import Item
from harness.fleet.stored_runs import SCRATCH
from harness.fleet.task import Job

if TYPE_CHECKING:
    from harness.fleet.spark import Fleet


def choose_engine(master: str | None) -> tuple[bool, str]:
    """Return whether to judge on Spark, and what judges.

    Spark on one machine is never faster than its processes, whatever the size of the store: a
    history costs both the same, and Spark takes seconds to start (docs/lab/fleet.md).
    """
    if master is not None:
        return True, f"Spark ({master})"
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return True, "Spark, by spark-submit"
    return False, "processes of this machine; --spark MASTER judges on a cluster"


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
