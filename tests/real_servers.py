"""What tests on real servers share."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker

from harness.core.topology import Topology

THREE = Topology.of()


def await_(seen: Callable[[], bool], what: str, within_s: float = 30) -> None:
    """Returns when it is seen; fails when it never is."""
    deadline = time.monotonic() + within_s
    while not seen():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.1)


def left(store: Path) -> list[str]:
    """What the runs of this store have in Docker now, and their clusters' files."""
    client = docker.from_env()
    ours: dict[str, Any] = {"label": "harness.run"}
    things: list[Any] = [
        *client.containers.list(all=True, filters=ours, ignore_removed=True),
        *client.networks.list(filters=ours),
        *client.volumes.list(filters=ours),
    ]
    client.close()
    labels = [t.attrs.get("Labels") or t.attrs["Config"]["Labels"] for t in things]
    here = [label["harness.directory"].startswith(f"{store}/") for label in labels]
    files = [str(path) for path in (store / "clusters").glob("*")]
    return [str(t.name) for t, is_ours in zip(things, here, strict=True) if is_ours] + files
