"""Functions that tests on real servers share."""

import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import docker

from compose.plan import DIRECTORY, RUN
from harness.core.capabilities import CanDegradeLinks
from harness.core.link_quality import DEFAULTS, LinkFault
from harness.core.protocols import Cluster
from harness.core.topology import Link, Topology

THREE = Topology.of()


def wait_until(
    seen: Callable[[], bool],
    what: str,
    within_s: float = 300,
    during: subprocess.Popen[str] | None = None,
) -> None:
    """Return once `seen` returns True. Otherwise fail the test: after a time, or when the process
    during which it is to be seen has ended. That process does not outlive a test that fails."""
    deadline = time.monotonic() + within_s
    try:
        while not seen():
            assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
            if during is not None and during.poll() is not None:
                said = during.communicate()
                assert seen(), f"the process ended with {during.returncode} before {what}: {said}"
            time.sleep(0.1)
    except BaseException:
        if during is not None:
            during.kill()
            during.communicate()
        raise


def seen_on(cluster: Cluster, links: Iterable[Link], fault: LinkFault) -> set[Link]:
    """Return the links that show a fault of the default amount now, or show nothing at all."""
    found = cluster.part(CanDegradeLinks).link_evidence(links, fault, DEFAULTS[fault])
    return {link for link, evidence in found.items() if evidence.seen is not False}


def objects(label: str) -> dict[str, dict[str, str]]:
    """Return the labels of the containers, networks and volumes that have this one, by name."""
    ours: dict[str, Any] = {"label": label}
    with closing(docker.from_env()) as client:
        # Sparse, because tests ask ten times a second, and containers of other tests are up.
        containers = client.containers.list(all=True, filters=ours, sparse=True)
        others = [*client.networks.list(filters=ours), *client.volumes.list(filters=ours)]
    labels = {one.attrs["Names"][0].removeprefix("/"): one.attrs["Labels"] for one in containers}
    return labels | {one.attrs["Name"]: one.attrs["Labels"] for one in others}


def things(name: str) -> list[str]:
    """Return the containers, networks and volumes of a cluster, as the engine lists them."""
    return sorted(objects(f"{RUN}={name}"))


def left(store: Path) -> list[str]:
    """Return what the runs of a store have left in Docker, and the files of their clusters."""
    labels = objects(RUN)
    # A container that only says its server's version, or what the kernel can do, has no directory.
    here = [name for name, of in labels.items() if of.get(DIRECTORY, "").startswith(f"{store}/")]
    return here + [str(path) for path in (store / "clusters").glob("*")]
