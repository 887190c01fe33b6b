"""Spark for a store, and where it logs."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from harness.fleet.location import Location
from harness.fleet.stored_runs import SCRATCH

if TYPE_CHECKING:
    from harness.fleet.spark import Fleet


@contextmanager
def spark_fleet(master: str | None, root: Location) -> Iterator["Fleet"]:
    """Yield a Spark that ends with the block. It logs to the store, or to a temporary directory if
    the store is elsewhere or read-only. Raises MissingExtraError without pyspark."""
    # Slow to import, and the other forms of the commands do not need it.
    from harness.fleet.spark import Fleet

    with ExitStack() as stack:
        writable = root.path is not None and os.access(root.path, os.W_OK)
        if root.path is not None and writable:
            directory = root.path / SCRATCH
        else:
            directory = Path(stack.enter_context(TemporaryDirectory(prefix="harness-spark-")))
        yield stack.enter_context(closing(Fleet(master, directory / "spark.log")))
