"""Removing what was made in Docker, found by our labels and by nothing else."""

import fcntl
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import docker
from docker.errors import APIError, NotFound

from compose.plan import DIRECTORY, KEEP, OWNER, RUN
from harness.clusters import kept, owner
from harness.clusters.compose_tool import SETTLE_S
from harness.clusters.engine import asking_engine, engine
from harness.clusters.parallel import on_each
from harness.core.errors import ClusterError, UsageError

LOCK: Final = "cluster.lock"
"""In a cluster's directory; whoever uses the cluster holds a lock on it."""
_FILES: Final = {LOCK, kept.FILE, "compose.yml", "config"}
_PATIENCE_S: Final = 30.0
_KINDS: Final = ("containers", "networks", "volumes")
"""In the order in which they can be removed."""


def clean(names: Sequence[str] = (), *, everything: bool = False) -> list[str]:
    """Removes the clusters whose owner is gone, their files too, and returns the names of the
    containers, networks and volumes removed. Kept clusters are spared unless `everything`;
    what a live process owns or uses is always spared. With `names` only these clusters, also
    when they were kept.

    Raises UsageError for a name that no cluster has, or one in use; ClusterError when no engine
    answers.
    """
    with closing(engine()) as client:
        runs: dict[str, dict[str, str]] = {}
        for labels in _labels(client):
            runs.setdefault(labels[RUN], labels)
        for name in names:
            _check_name(name, runs)
        removed: list[str] = []
        for run, labels in sorted(runs.items()):
            if run in names or (not names and _abandoned(labels, everything)):
                directory = Path(labels.get(DIRECTORY, ""))
                # Killed while it was set up: the engine may still be creating the rest.
                settle_s = 0.0 if (directory / kept.FILE).is_file() else SETTLE_S
                removed += remove_run(client, run, settle_s)
                remove_files(directory)
        return removed


def remove_run(client: docker.DockerClient, run: str, settle_s: float = 0.0) -> list[str]:
    """Removes everything of one cluster and returns the names. What is still being created is
    removed too, when nothing new comes for `settle_s`.

    Raises ClusterError when something cannot be removed.
    """
    removed: list[str] = []
    deadline = time.monotonic() + _PATIENCE_S
    settled = time.monotonic() + settle_s
    while True:
        found = {kind: _things(client, kind, f"{RUN}={run}") for kind in _KINDS}
        if any(found.values()):
            settled = time.monotonic() + settle_s
        elif time.monotonic() < settled:
            time.sleep(0.1)
            continue
        else:
            return removed
        if time.monotonic() > deadline:
            left = ", ".join(thing.name for things in found.values() for thing in things)
            raise ClusterError(f"{run}: could not be removed in {_PATIENCE_S:g} s: {left} is left")
        for kind in _KINDS:
            # Servers first: a pod cannot go while the engine sets up what joins it.
            names = on_each(found[kind], partial(_remove, kind))
            removed += [thing.name for thing, gone in names.items() if gone]


def remove_files(directory: Path) -> None:
    """Removes a cluster's directory, if it holds what clusters write and nothing else."""
    if (directory / LOCK).is_file() and {file.name for file in directory.iterdir()} <= _FILES:
        shutil.rmtree(directory, ignore_errors=True)


def _check_name(name: str, runs: Mapping[str, dict[str, str]]) -> None:
    if name not in runs:
        known = f"there are {', '.join(sorted(runs))}" if runs else "there is none at all"
        raise UsageError(f"cluster {name!r}: there is none of that name; {known}")
    if not _abandoned(runs[name], everything=True):
        raise UsageError(f"cluster {name!r}: a living process uses it; end that first")


def _abandoned(labels: dict[str, str], everything: bool) -> bool:
    if owner.is_alive(labels.get(OWNER, "")):
        return False
    if labels.get(KEEP) != "1":
        return True
    return everything and not in_use(Path(labels.get(DIRECTORY, "")))


def in_use(directory: Path) -> bool:
    """Whether some process holds the lock of a cluster's directory."""
    try:
        with (directory / LOCK).open("r") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _labels(client: docker.DockerClient) -> Iterable[dict[str, str]]:
    for kind in _KINDS:
        for thing in _things(client, kind, RUN):
            yield (thing.attrs.get("Labels") or thing.attrs.get("Config", {}).get("Labels") or {})


def _things(client: docker.DockerClient, kind: str, label: str) -> list[Any]:
    with asking_engine(f"list {kind}"):
        filters: dict[str, str | list[str] | bool] = {"label": label}
        if kind == "containers":
            return client.containers.list(all=True, filters=filters, ignore_removed=True)
        if kind == "networks":
            return client.networks.list(filters=filters)
        return client.volumes.list(filters=filters)


def _remove(kind: str, thing: Any) -> bool:
    """Whether it is gone; False: another try is needed."""
    with asking_engine(f"remove {thing.name}"):
        try:
            if kind == "containers":
                thing.remove(force=True, v=True)
            elif kind == "volumes":
                thing.remove(force=True)
            else:
                thing.remove()
        except NotFound:
            return True
        except APIError:
            # In use, or its removal is under way: `remove_run` looks again until its deadline.
            time.sleep(0.1)
            return False
    return True
