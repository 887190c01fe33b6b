"""Notices when the cluster is lost, so that a run does not go on against nothing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness.core.errors import ClusterError
from harness.core.protocols import Cluster
from harness.run.stop import Stop

INTERVAL_S = 1.0
STRIKES = 3
"""A busy engine may be late once; one that is gone stays silent."""


@contextmanager
def watched(cluster: Cluster, stop: Stop) -> Iterator[None]:
    """Pings the cluster while the block runs; a wish to stop when it is lost."""
    over = threading.Event()

    def watch() -> None:
        strikes = 0
        while not over.wait(INTERVAL_S):
            try:
                cluster.ping()
            except ClusterError as error:
                strikes += 1
                if strikes == STRIKES:
                    stop.wish(f"the cluster is lost: {error}")
                    return
            else:
                strikes = 0

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(INTERVAL_S)
