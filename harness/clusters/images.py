"""Builds the images, once for each content of their recipes; takes users' own instead."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

import docker
from docker.errors import BuildError

import compose
from compose.plan import OWNER, RUN, Images
from compose.version import Version
from harness.clusters import owner
from harness.clusters.base_image import base_image, has_image, pull
from harness.clusters.engine import asking_engine, engine
from harness.clusters.parallel import on_each
from harness.core.errors import ClusterError

_RECIPES: Final = Path(compose.__file__).parent / "images"
_VERSION_LABEL: Final = "harness.clickhouse.version"
_BUILD_TIMEOUT_S: Final = 600
"""Between two lines of a build's output."""
_VERSION_TIMEOUT_S: Final = 20


def build_images(
    progress: Callable[[str], None],
    *,
    clickhouse_image: str | None = None,
    zookeeper_image: str | None = None,
) -> Images:
    """Every image that a cluster needs. Ours are built unless they are here; a user's image is
    pulled unless it is here. Two processes may call this at once: the second one waits.

    Raises ClusterError, with the last lines of a build that failed.
    """
    given = {"clickhouse": clickhouse_image, "zookeeper": zookeeper_image}
    with closing(engine()) as client:
        return _images(client, progress, given)


def _images(
    client: docker.DockerClient, progress: Callable[[str], None], given: Mapping[str, str | None]
) -> Images:
    ours = {name: tag for name, tag in our_images().items() if not given.get(name)}
    with _one_at_a_time():
        for image in filter(None, given.values()):
            if not has_image(client, image):
                progress(f"pulling {image}")
                pull(image)
        missing = [name for name, tag in ours.items() if not has_image(client, tag)]
        if missing:
            base = base_image(client, progress)
            progress(f"building {', '.join(missing)}")
            # Together: a third faster on two cores, for a build waits for downloads and for
            # dpkg in turn.
            on_each(missing, lambda name: _build(name, ours[name], base))
            progress("images built")
    clickhouse = given["clickhouse"] or ours["clickhouse"]
    return Images(
        pod=ours["pod"],
        clickhouse=clickhouse,
        zookeeper=given["zookeeper"] or ours["zookeeper"],
        clickhouse_version=str(_version(client, clickhouse)),
    )


def our_images() -> dict[str, str]:
    """The tags of the images that the recipes of today make; they need not be built yet."""
    return {name: _tag(name) for name in ("pod", "clickhouse", "zookeeper")}


def _tag(name: str) -> str:
    """Named after the content of its recipe."""
    digest = blake2b(digest_size=6)
    for file in sorted((_RECIPES / name).iterdir()):
        if file.is_file():
            digest.update(f"{file.name}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return f"harness/{name}:{digest.hexdigest()}"


def _build(name: str, tag: str, base: str) -> None:
    try:
        with closing(engine(_BUILD_TIMEOUT_S)) as client, asking_engine(f"build {tag}"):
            client.images.build(
                path=str(_RECIPES / name), tag=tag, buildargs={"BASE": base}, rm=True, forcerm=True
            )
    except ClusterError as error:
        if not isinstance(error.__cause__, BuildError):
            raise
        log = "".join(str(line.get("stream", "")) for line in error.__cause__.build_log)
        last = "\n".join(log.strip().splitlines()[-15:])
        raise ClusterError(f"{error}\n{last}") from error


def _version(client: docker.DockerClient, image: str) -> Version:
    """Of the server in a ClickHouse image: by label, else its own client is asked."""
    with asking_engine(f"inspect {image}"):
        labels = client.images.get(image).labels
    if _VERSION_LABEL in labels:
        return Version.of(labels[_VERSION_LABEL])
    with asking_engine(f"ask {image} for its version"):
        asked = client.containers.create(
            image,
            ["--version"],
            entrypoint="clickhouse-client",
            labels={RUN: "version", OWNER: owner.this_process()},
        )
        try:
            asked.start()
            asked.wait(timeout=_VERSION_TIMEOUT_S)
            said = asked.logs(stdout=True, stderr=True).decode(errors="replace")
        finally:
            asked.remove(force=True, v=True)
    return Version.of(said)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    path = Path(tempfile.gettempdir()) / f"harness-images-{os.getuid()}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
