"""What is asked of servers at rest after every run, whatever its workload."""

from collections.abc import Iterator

from checkers.health import HEALTH
from checkers.look import encode
from checkers.trees import TREES
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.run import health, keeper_trees


def looks(cluster: Cluster) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield names and values of the ops that say what was found."""
    for f, asked in ((HEALTH, health.asked), (TREES, keeper_trees.asked)):
        report = asked(cluster)
        if report is not None:
            yield f, encode(report)
