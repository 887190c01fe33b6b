"""What is asked of servers at rest after every run, whatever its workload."""

from collections.abc import Iterator
from functools import partial

from checkers.health import HEALTH
from checkers.look import encode
from checkers.trees import TREES
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.run import health, keeper_trees


def looks(cluster: Cluster, rested_s: float) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield names and values of the ops that say what was found on a cluster that was healed so
    many seconds ago."""
    health_of = partial(health.asked, rested_s=rested_s)
    for f, asked in ((HEALTH, health_of), (TREES, keeper_trees.asked)):
        report = asked(cluster)
        if report is not None:
            yield f, encode(report)
