"""Functions that tests on real servers share."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import docker

from compose.plan import DIRECTORY, RUN
from harness.core.capabilities import CanDegradeLinks
from harness.core.link_quality import DEFAULTS, LinkFault
from harness.core.topology import Link, Topology

THREE = Topology.of()


def wait_until(seen: Callable[[], bool], what: str, within_s: float = 150) -> None:
    """Return once `seen` returns True; fail the test if that takes too long."""
    deadline = time.monotonic() + within_s
    while not seen():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.1)


def seen_on(cluster: CanDegradeLinks, links: Iterable[Link], fault: LinkFault) -> set[Link]:
    """Return the links that show a fault of the default amount now, or show nothing at all."""
    found = cluster.link_evidence(links, fault, DEFAULTS[fault])
    return {link for link, evidence in found.items() if evidence.seen is not False}


def left(store: Path) -> list[str]:
    """Return what the runs of a store have left in Docker, and the files of their clusters."""
    client = docker.from_env()
    ours: dict[str, Any] = {"label": RUN}
    objects: list[Any] = [
        *client.containers.list(all=True, filters=ours, ignore_removed=True),
        *client.networks.list(filters=ours),
        *client.volumes.list(filters=ours),
    ]
    client.close()
    labels = [one.attrs.get("Labels") or one.attrs["Config"]["Labels"] for one in objects]
    # A container that only says its server's version, or what the kernel can do, has no directory.
    ours_here = [label.get(DIRECTORY, "").startswith(f"{store}/") for label in labels]
    files = [str(path) for path in (store / "clusters").glob("*")]
    return [str(one.name) for one, here in zip(objects, ours_here, strict=True) if here] + files
