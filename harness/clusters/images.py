"""Provides the images: official ones if a registry is reachable, else built from our recipes, once
for each content of a recipe; or users' own."""

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import docker
from docker.errors import BuildError

import compose
from compose.plan import OWNER, RUN, Image, Images
from compose.releases import ImageChoice, Release
from harness.clusters import ingredients, owner
from harness.clusters.base_image import base_image, has_image, hub_answers, pull
from harness.clusters.engine import asking_engine, engine
from harness.clusters.own_directory import locked
from harness.clusters.parallel import on_each
from harness.core.dialect import Engine
from harness.core.errors import ClusterError
from harness.core.topology import Role

_RECIPES: Final = Path(compose.__file__).parent / "images"
_VERSION_LABEL: Final = "harness.{server}.version"
_BUILD_LABEL: Final = "harness.{server}.build"
_STAGE_LABEL: Final = "harness.stage"
_BUILD_TIMEOUT_S: Final = 600
"""Between two lines of a build's output."""
_VERSION_TIMEOUT_S: Final = 20


_T = TypeVar("_T")
_Servers: TypeAlias = Mapping[Role, Mapping[str, _T]]
"""By the version as a user names it."""


@dataclass(frozen=True, slots=True)
class Way:
    """How the image of a release is had."""

    image: str
    ready: bool
    """It is on this machine."""
    official: bool
    """It is the official one."""
    why: str
    """For people, such as "built here, because no registry can be reached"."""


def build_images(progress: Callable[[str], None], choice: ImageChoice | None = None) -> Images:
    """Every image that a cluster needs, here when this returns. Two processes may call this at
    once: where something is missing, the second one waits.

    Raises ClusterError, with the last lines of a build that failed.
    """
    wanted = (choice or ImageChoice()).servers
    with closing(engine()) as client:
        return _here(client, wanted) or _provided(client, progress, wanted)


def _here(client: docker.DockerClient, wanted: _Servers[Release | str]) -> Images | None:
    """The images, if none of them has to be pulled or built."""
    tags: dict[Role, dict[str, str]] = {role: {} for role in wanted}
    for role, by_name in wanted.items():
        for name, server in by_name.items():
            own = [server] if isinstance(server, str) else [server.official, release_image(server)]
            here = [tag for tag in own if tag and has_image(client, tag)]
            if not here:
                return None
            tags[role][name] = here[0]
    return _images(client, tags) if has_image(client, pod_image()) else None


def _provided(
    client: docker.DockerClient,
    progress: Callable[[str], None],
    wanted: _Servers[Release | str],
) -> Images:
    """The same, after pulling and building what is missing."""
    with locked("images"):
        tags: dict[Role, dict[str, str]] = {role: {} for role in wanted}
        missing: dict[str, Release | None] = {}
        if not has_image(client, pod_image()):
            missing[pod_image()] = None
        for role, by_name in wanted.items():
            for name, server in by_name.items():
                if isinstance(server, str):
                    way = Way(server, False, True, "asked for")
                else:
                    way = way_to(client, server)
                tags[role][name] = way.image
                if way.official:
                    _pull_missing(client, progress, way.image)
                elif not way.ready:
                    assert isinstance(server, Release), "images of others are never built here"
                    missing[way.image] = server
        if missing:
            base = base_image(client, progress)
            named = [str(release or "pod") for release in missing.values()]
            progress(f"building {', '.join(named)}")
            # Together: a third faster on two cores, for a build waits for downloads and for
            # dpkg in turn.
            on_each(missing, lambda tag: _build(tag, missing[tag], base))
            progress("images built")
    return _images(client, tags)


def _images(client: docker.DockerClient, tags: _Servers[str]) -> Images:
    return Images(
        pod_image(),
        {
            role: {name: Image(tag, _engine(client, role, tag)) for name, tag in by_name.items()}
            for role, by_name in tags.items()
        },
    )


def way_to(client: docker.DockerClient, release: Release) -> Way:
    """How to get the image of a release, and why so. An image that is here is taken; asking a
    registry that cannot be reached takes ten seconds at most."""
    ours = release_image(release)
    if release.official and has_image(client, release.official):
        return Way(release.official, True, True, f"{release.official} is here")
    if has_image(client, ours):
        return Way(ours, True, False, f"{release}, built here")
    if release.official is None:
        return Way(ours, False, False, f"{release}, will be built here: there is no official image")
    if hub_answers(release.official):
        return Way(release.official, False, True, f"{release.official} will be pulled")
    why = f"no registry has {release.official} for this machine"
    return Way(ours, False, False, f"{release}, will be built here: {why}")


def release_image(release: Release) -> str:
    """The tag of the image that today's recipe makes of a release; it need not be built yet."""
    pinned = (release.wheel.sha256 if release.wheel else "", *release.jars)
    return _tag(release.server, release.recipe, release.version, pinned)


def pod_image() -> str:
    """The tag of the pods' image; it need not be built yet."""
    return _tag("pod", "pod", "", ())


def _tag(name: str, recipe: str, version: str, pinned: tuple[str, ...]) -> str:
    """Named after the content of its recipe and of what is put beside it."""
    digest = blake2b(digest_size=6)
    for file in sorted((_RECIPES / recipe).iterdir()):
        if file.is_file():
            digest.update(f"{file.name}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    digest.update("\0".join((version, *pinned)).encode())
    return f"harness/{name}:{version}{'-' if version else ''}{digest.hexdigest()}"


def _pull_missing(client: docker.DockerClient, progress: Callable[[str], None], image: str) -> None:
    if not has_image(client, image):
        progress(f"pulling {image}")
        pull(image)


def _build(tag: str, release: Release | None, base: str) -> None:
    """The image of a release, or of the pods."""
    labels = {}
    if release is not None:
        labels = {
            _VERSION_LABEL.format(server=release.server): release.version,
            _BUILD_LABEL.format(server=release.server): release.build,
        }
    with tempfile.TemporaryDirectory(prefix="harness-image-") as name:
        context = Path(name) / "context"
        shutil.copytree(_RECIPES / (release.recipe if release else "pod"), context)
        if release is not None:
            ingredients.fetch(release, context)
        try:
            with closing(engine(_BUILD_TIMEOUT_S)) as client, asking_engine(f"build {tag}"):
                try:
                    client.images.build(
                        path=str(context),
                        tag=tag,
                        buildargs={
                            "BASE": base,
                            "STAGE": tag,
                            "VERSION": release.version if release else "",
                        },
                        labels=labels,
                        rm=True,
                        forcerm=True,
                    )
                finally:
                    _remove_stages(client, tag)
        except ClusterError as error:
            if not isinstance(error.__cause__, BuildError):
                raise
            log = "".join(str(line.get("stream", "")) for line in error.__cause__.build_log)
            last = "\n".join(log.strip().splitlines()[-15:])
            raise ClusterError(f"{error}\n{last}") from error


def _remove_stages(client: docker.DockerClient, tag: str) -> None:
    """The stages that only compiled: nothing is made from them again, and one takes 1.5 GB."""
    marked = {"dangling": True, "label": f"{_STAGE_LABEL}={tag}"}
    for image in client.images.list(filters=marked):
        client.images.remove(str(image.id), force=True)


def _engine(client: docker.DockerClient, role: Role, tag: str) -> Engine:
    """What is in an image: by label, else the ClickHouse server is asked. A ZooKeeper server says
    its version when it runs."""
    with asking_engine(f"inspect {tag}"):
        labels = client.images.get(tag).labels
    version = labels.get(_VERSION_LABEL.format(server=role), "")
    if not version and role is Role.CLICKHOUSE:
        version = _asked_version(client, tag)
    return Engine(
        role=role,
        version=version,
        build=labels.get(_BUILD_LABEL.format(server=role), f"of {tag}"),
    )


def _asked_version(client: docker.DockerClient, image: str) -> str:
    """What a ClickHouse image says that it is. The client is asked first: the server of 18.16 knows
    no --version and starts; images of today may have no client."""
    try:
        said = _said(client, image, "clickhouse-client")
    except ClusterError:
        said = _said(client, image, "clickhouse-server")
    found = re.search(r"\d+\.\d+\.\d+(\.\d+)?", said)
    if found is None:
        raise ClusterError(f"{image}: its server does not say its version, but {said[:200]!r}")
    return found[0]


def _said(client: docker.DockerClient, image: str, program: str) -> str:
    """What a program in an image answers to --version. Raises ClusterError without such one."""
    with asking_engine(f"ask {image} for its version"):
        asked = client.containers.create(
            image,
            ["--version"],
            entrypoint=program,
            labels={RUN: "version", OWNER: owner.this_process()},
        )
        try:
            asked.start()
            asked.wait(timeout=_VERSION_TIMEOUT_S)
            return str(asked.logs(stdout=True, stderr=True).decode(errors="replace"))
        finally:
            asked.remove(force=True, v=True)
