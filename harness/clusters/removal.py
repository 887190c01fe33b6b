"""Removal of what the harness created in Docker, found by its labels only."""

import os
import shutil
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import docker
import msgspec
from docker.errors import APIError, NotFound

from compose.plan import BUCKET, CLOCKS, DIRECTORY, DISK_FILE, ID_VARIABLE, KEEP, OWNER, RUN
from harness import clusters
from harness.clusters import manifest
from harness.clusters.bucket import remove_objects
from harness.clusters.compose_tool import SETTLE_S
from harness.clusters.engine import engine, engine_request, environment_of
from harness.clusters.parallel import on_each
from harness.clusters.store_http import HttpStoreChannel, StoreKeys
from harness.core.bucket import Bucket
from harness.core.connections import QueryError
from harness.core.errors import ClusterError, ObjectsLeftError, UsageError
from harness.core.file_lock import is_locked, lock
from harness.core.os_process import is_alive
from harness.core.ranges import quoted

LOCK: Final = "cluster.lock"
"""File in a cluster's directory that a process locks while it uses the cluster."""
_FILES: Final = {LOCK, manifest.FILE, "compose.yml", "config", DISK_FILE, CLOCKS}
_REMOVE_S: Final = 30.0
_STORE_S: Final = 10.0
"""Time limit of a request to delete an object."""
_KINDS: Final = ("containers", "networks", "volumes")
"""Kinds of Docker objects, in the order in which they can be removed."""


def lock_cluster(directory: Path) -> IO[str]:
    """Lock a cluster for this process until the file is closed. Raises ClusterError if another
    process uses it."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / LOCK).open("a")
        if lock(file, wait=False) is False:
            file.close()
            raise ClusterError(f"{directory}: another process uses this cluster")
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # `clean` has removed the directory since it was made


@dataclass(frozen=True, slots=True)
class KeptCluster:
    """A cluster that outlives its process because somebody wanted to keep it."""

    name: str
    user: str
    """Owner of its directory; "an unknown user" if the directory is gone."""
    process: str
    """Id of the process that made it, which has ended."""
    directory: Path

    def __str__(self) -> str:
        """Return whose it is in one line."""
        made_by = f"made by process {self.process}, which has ended"
        return f"{self.name} of {self.user}, {made_by}; files: {self.directory}"


def kept_clusters() -> list[KeptCluster]:
    """Return the clusters that are kept and that no process uses: those that `clean` removes only
    with `everything`. Raises ClusterError if no engine answers."""
    with closing(engine()) as client:
        return [
            _kept(name, labels)
            for name, labels in sorted(_labels_by_run(client).items())
            if _abandoned(labels, everything=True) and not _abandoned(labels, everything=False)
        ]


def _kept(name: str, labels: Mapping[str, str]) -> KeptCluster:
    directory = Path(labels.get(DIRECTORY, ""))
    try:
        user = directory.owner()
    except (OSError, KeyError):
        user = "an unknown user"
    return KeptCluster(name, user, labels.get(OWNER, "").partition(":")[0], directory)


def clean(
    names: Sequence[str] = (), *, everything: bool = False, store: Path | None = None
) -> list[str]:
    """Remove the clusters whose owner has ended, with their files.

    Kept clusters are removed only with `everything`; a cluster that a live process owns or uses is
    never removed. With `names`, only these clusters are removed, kept or not. Of a `store` the
    directories of clusters are removed as well whose owner was killed before it had created
    anything in the engine. Return the names of the removed containers, networks and
    volumes, a line for objects in a user's bucket, and such directories.

    Raises UsageError for a name that no cluster has, or a cluster in use; ClusterError if no engine
    answers; ObjectsLeftError, after everything else is removed, if objects stay in a bucket.
    """
    with closing(engine()) as client:
        runs = _labels_by_run(client)
        for name in names:
            _check_name(name, runs)
        removed: list[str] = []
        left: list[str] = []
        for run, labels in sorted(runs.items()):
            if run in names or (not names and _abandoned(labels, everything)):
                directory = Path(labels.get(DIRECTORY, ""))
                # Without a manifest the owner was killed during the setup, and the engine may
                # still be creating the rest.
                settle_s = 0.0 if (directory / manifest.FILE).is_file() else SETTLE_S
                try:
                    removed += remove_run(client, run, directory, settle_s)
                except ObjectsLeftError as error:
                    left.append(str(error))
        if store is not None and not names:
            removed += _remove_begun(store / clusters.FOLDER, runs)
        if left:
            raise ObjectsLeftError("\n".join(left))
        return removed


def _remove_begun(files: Path, known: Container[str]) -> list[str]:
    """Remove the directories of clusters that the engine does not know and no process uses. One
    with a manifest was up: it may be another engine's."""
    removed: list[str] = []
    for path in sorted(files.glob(f"*/{LOCK}")):
        directory = path.parent
        if directory.name in known or (directory / manifest.FILE).exists():
            continue
        with path.open("a") as file:
            if lock(file, wait=False):
                _remove_files(directory)
        removed += [] if directory.exists() else [str(directory)]
    return removed


def remove_run(
    client: docker.DockerClient, run: str, directory: Path, settle_s: float = 0.0
) -> list[str]:
    """Remove everything of one cluster from the engine, its objects in a user's bucket, and its
    directory. Return the names of what was removed from the engine, and a line for the objects.

    What the engine is still creating is removed too; the function returns when nothing new has
    appeared for `settle_s`. Raises ClusterError if something cannot be removed; ObjectsLeftError if
    only objects cannot.

    The directory goes after the containers, which mount files of it, and before the volumes, whose
    labels name it: the other way round, a process that is killed after the last volume would leave
    a directory that nobody finds. What the engine is still creating would make it anew, so then it
    goes last.
    """
    removed: list[str] = []
    bucket, environment = _bucket_of(client, run)
    left: ObjectsLeftError | None = None
    deadline = time.monotonic() + _REMOVE_S
    settled = time.monotonic() + settle_s
    reason = ""
    while True:
        found = {kind: _objects(client, kind, f"{RUN}={run}") for kind in _KINDS}
        found["volumes"] += _unlabelled(client, run)
        if any(found.values()):
            settled = time.monotonic() + settle_s
        elif time.monotonic() < settled:
            time.sleep(0.1)
            continue
        else:
            _remove_files(directory)
            if left is not None:
                raise left
            return removed
        if time.monotonic() > deadline:
            rest = ", ".join(one.name for objects in found.values() for one in objects)
            raise ClusterError(
                f"{run}: could not be removed in {_REMOVE_S:g} s: {rest} is left ({reason})"
            )
        for kind in _KINDS:
            # Containers in parallel and repeatedly: a pod cannot be removed while the engine sets
            # up a server that joins it.
            reasons = on_each(found[kind], partial(_remove, kind))
            removed += [one.name for one, why in reasons.items() if not why]
            reason = next(filter(None, reasons.values()), reason)
            if kind != "containers" or any(reasons.values()):
                continue
            if bucket is not None:
                # As long as a volume has the label, a process that is killed here leaves nothing
                # that is not found again.
                try:
                    removed.append(_emptied(bucket, environment))
                except ObjectsLeftError as error:
                    left = error
                bucket = None
            if not settle_s:
                _remove_files(directory)


def _bucket_of(client: docker.DockerClient, run: str) -> tuple[Bucket | None, Mapping[str, str]]:
    """Return the part of a user's bucket that a cluster writes to, if it does, and an environment
    with its keys: that of its servers, else that of this process."""
    environment: Mapping[str, str] = os.environ
    bucket: Bucket | None = None
    for kind in _KINDS:
        for one in _objects(client, kind, f"{RUN}={run}"):
            text = _labels_of(one).get(BUCKET)
            bucket = msgspec.json.decode(text, type=Bucket) if text else bucket
            if kind == "containers" and ID_VARIABLE in (own := environment_of(one)):
                environment = own
    return bucket, environment


def _emptied(bucket: Bucket, environment: Mapping[str, str]) -> str:
    """Remove the objects of a cluster whose servers are gone, and return what was removed. Raises
    ObjectsLeftError."""
    assert bucket.prefix, "each cluster has a prefix of its own"
    try:
        keys = StoreKeys.of(environment)
        count = remove_objects(HttpStoreChannel(bucket, _STORE_S, keys))
    except (QueryError, UsageError) as error:
        why = error.text if isinstance(error, QueryError) else error
        raise ObjectsLeftError(
            f"objects may be left below {bucket.url}: {why}; delete them with a client of S3"
        ) from error
    return f"objects below {bucket.url}: {count}"


def _remove_files(directory: Path) -> None:
    """Remove a cluster's directory if it contains only what clusters write.

    Whoever is killed meanwhile leaves a directory that is known as a cluster's: its lock goes last,
    and an empty one has had it.
    """
    if not directory.is_dir():
        return
    names = {file.name for file in directory.iterdir()}
    if names and (LOCK not in names or not names <= _FILES):
        return
    for path in (directory / name for name in names - {LOCK}):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


def _check_name(name: str, runs: Mapping[str, dict[str, str]]) -> None:
    if name not in runs:
        known = f"expected one of {', '.join(sorted(runs))}" if runs else "there are no clusters"
        raise UsageError(f"cluster {quoted(name)}: no such cluster; {known}")
    if not _abandoned(runs[name], everything=True):
        raise UsageError(f"cluster {quoted(name)}: a running process uses it; end that first")


def _abandoned(labels: dict[str, str], everything: bool) -> bool:
    if is_alive(labels.get(OWNER, "")):
        return False
    if labels.get(KEEP) != "1":
        return True
    return everything and not in_use(Path(labels.get(DIRECTORY, "")))


def in_use(directory: Path) -> bool:
    """Return whether a process holds the lock of a cluster's directory."""
    try:
        with (directory / LOCK).open("r") as file:
            return is_locked(file) is True
    except OSError:
        return False


def _labels_by_run(client: docker.DockerClient) -> dict[str, dict[str, str]]:
    runs: dict[str, dict[str, str]] = {}
    for labels in _labels(client):
        runs.setdefault(labels[RUN], labels)
    return runs


def _labels(client: docker.DockerClient) -> Iterable[dict[str, str]]:
    for kind in _KINDS:
        yield from map(_labels_of, _objects(client, kind, RUN))


def _labels_of(one: Any) -> dict[str, str]:
    found: dict[str, str] = (
        one.attrs.get("Labels") or one.attrs.get("Config", {}).get("Labels") or {}
    )
    return found


def _objects(client: docker.DockerClient, kind: str, label: str) -> list[Any]:
    with engine_request(f"list {kind}"):
        filters: dict[str, str | list[str] | bool] = {"label": label}
        if kind == "containers":
            return client.containers.list(all=True, filters=filters, ignore_removed=True)
        if kind == "networks":
            return client.networks.list(filters=filters)
        return client.volumes.list(filters=filters)


def _unlabelled(client: docker.DockerClient, run: str) -> list[Any]:
    """Return the volumes of a cluster whose labels the engine lost, because it was stopped while it
    created them. Nothing else has a name that begins with the cluster's."""
    with engine_request("list volumes"):
        named = client.volumes.list(filters={"name": f"{run}-"})
    return [one for one in named if one.name.startswith(f"{run}-") and not _labels_of(one)]


def _remove(kind: str, one: Any) -> str:
    """Remove an object. Return why it is still there, "" if it is gone."""
    with engine_request(f"remove {one.name}"):
        try:
            if kind == "containers":
                one.remove(force=True, v=True)
            elif kind == "volumes":
                one.remove(force=True)
            else:
                one.remove()
        except NotFound:
            return ""
        except APIError as error:
            # It is in use or being removed; `remove_run` tries again until its deadline.
            time.sleep(0.1)
            return str(error.explanation)
    return ""
