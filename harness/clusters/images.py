"""Images of servers and pods: pulled if a registry is reachable, else built from our recipes.

An image is built once for each content of its recipe. A user may also choose an image of his own.
"""

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import docker
from docker.errors import BuildError

import compose
from compose.plan import OWNER, RUN, Image, Images
from compose.releases import ImageChoice, Release
from harness.clusters import build_inputs, programs
from harness.clusters.base_image import base_image, has_image, pull, registry_has
from harness.clusters.engine import engine, engine_request
from harness.clusters.own_directory import locked
from harness.clusters.parallel import on_each
from harness.core.dialect import Coordination
from harness.core.engines import Engine
from harness.core.errors import ClusterError
from harness.core.os_process import this_process
from harness.core.topology import Role

_RECIPES: Final = Path(compose.__file__).parent / "images"
_VERSION_LABEL: Final = "harness.{server}.version"
_BUILD_LABEL: Final = "harness.{server}.build"
_STAGE_LABEL: Final = "harness.stage"
_BUILD_TIMEOUT_S: Final = 600
"""Time limit between two lines of a build's output."""
_VERSION_TIMEOUT_S: Final = 120
"""The program of an image that was just pulled is read from the disk for the first time: a library
of 860 MB took more than 20 s on a busy machine."""


_T = TypeVar("_T")
_Servers: TypeAlias = Mapping[Role, Mapping[str, _T]]
"""Values for the servers of each role, by the version as a user names it."""


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Source of the image of a release."""

    image: str
    ready: bool
    """True if the image is on this machine."""
    official: bool
    """True if it is the official image."""
    why: str
    """Reason, such as "built here, because no registry can be reached"."""


def build_images(progress: Callable[[str], None], choice: ImageChoice | None = None) -> Images:
    """Pull or build every image that a cluster needs and return them.

    Two processes may call this at once: if something is missing, the second one waits. Raises
    ClusterError with the last lines of a build that failed.
    """
    chosen = choice or ImageChoice()
    with closing(engine()) as client:
        tags = _find(client, chosen.servers) or _provide(client, progress, chosen.servers)
        return _images(client, tags, chosen.coordination)


def _find(client: docker.DockerClient, wanted: _Servers[Release | str]) -> _Servers[str] | None:
    """Return the tags of the images; None if any of them has to be pulled or built."""
    tags: dict[Role, dict[str, str]] = {role: {} for role in wanted}
    for role, by_name in wanted.items():
        for name, server in by_name.items():
            own = [server] if isinstance(server, str) else [server.official, release_image(server)]
            found = [tag for tag in own if tag and has_image(client, tag)]
            if not found:
                return None
            tags[role][name] = found[0]
    return tags if has_image(client, pod_image()) else None


def _provide(
    client: docker.DockerClient,
    progress: Callable[[str], None],
    wanted: _Servers[Release | str],
) -> _Servers[str]:
    """Pull and build the images that are missing, and return the tags of all."""
    with locked("images"):
        tags: dict[Role, dict[str, str]] = {role: {} for role in wanted}
        missing: dict[str, Release | None] = {}
        if not has_image(client, pod_image()):
            missing[pod_image()] = None
        for role, by_name in wanted.items():
            for name, server in by_name.items():
                if isinstance(server, str):
                    source = ImageSource(server, False, True, "chosen by the user")
                else:
                    source = source_of(client, server)
                tags[role][name] = source.image
                if source.official:
                    _pull_missing(client, progress, source.image)
                elif not source.ready:
                    assert isinstance(server, Release), "images of others are never built here"
                    missing[source.image] = server
        if missing:
            base = base_image(client, progress)
            named = [str(release or "pod") for release in missing.values()]
            progress(f"building {', '.join(named)}")
            # In parallel it takes a third less time on two cores, because a build alternates
            # between downloads and dpkg.
            on_each(missing, lambda tag: _build(tag, missing[tag], base))
            progress("images built")
    return tags


def _images(client: docker.DockerClient, tags: _Servers[str], coordination: Coordination) -> Images:
    return Images(
        pod_image(),
        {
            role: {
                name: Image(tag, _engine(client, role, tag, coordination), _command(client, tag))
                for name, tag in by_name.items()
            }
            for role, by_name in tags.items()
        },
    )


def source_of(client: docker.DockerClient, release: Release) -> ImageSource:
    """Return the source of the image of a release, with the reason.

    An image on this machine is preferred. A registry that cannot be reached takes at most 10 s.
    """
    ours = release_image(release)
    if release.official and has_image(client, release.official):
        return ImageSource(release.official, True, True, f"{release.official} is here")
    if has_image(client, ours):
        return ImageSource(ours, True, False, f"{release}, built here")
    why = "there is no official image"
    if release.official is not None:
        if registry_has(release.official):
            return ImageSource(release.official, False, True, f"{release.official} will be pulled")
        why = f"no registry has {release.official} for this machine"
    return ImageSource(ours, False, False, f"{release}, will be built here: {why}")


def release_image(release: Release) -> str:
    """Return the tag that the current recipe gives to the image of a release, built or not."""
    pinned = (release.wheel.sha256 if release.wheel else "", *release.packages, *release.jars)
    return _tag(release.server, release.recipe, release.version, pinned)


def pod_image() -> str:
    """Return the tag of the pods' image, built or not."""
    return _tag("pod", "pod", "", programs.inputs(programs.PACKET_QUEUE))


def _tag(name: str, recipe: str, version: str, pinned: Sequence[str]) -> str:
    """Return a tag with a digest of the recipe's files and of its other inputs."""
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
    """Build the image of a release; without one, the image of the pods."""
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
            build_inputs.fetch(release, context)
        else:
            programs.install(programs.PACKET_QUEUE, context / "programs")
        try:
            with closing(engine(_BUILD_TIMEOUT_S)) as client, engine_request(f"build {tag}"):
                try:
                    client.images.build(
                        path=str(context),
                        tag=tag,
                        buildargs={
                            "BASE": base,
                            "STAGE": tag,
                            "VERSION": release.version if release else "",
                            "PACKAGES": " ".join(release.packages) if release else "",
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
    """Remove the intermediate stages of a build, which are not used again and take up to 1.5 GB."""
    marked = {"dangling": True, "label": f"{_STAGE_LABEL}={tag}"}
    for image in client.images.list(filters=marked):
        client.images.remove(str(image.id), force=True)


def _engine(
    client: docker.DockerClient, role: Role, tag: str, coordination: Coordination
) -> Engine:
    """Return the engine in an image, from its labels or from the version that its program prints.

    A ZooKeeper server reports its version only when it runs.
    """
    with engine_request(f"inspect {tag}"):
        labels = client.images.get(tag).labels
    if role is Role.ZOOKEEPER and coordination is Coordination.KEEPER:
        version = _program_version(client, tag, "clickhouse-keeper")
        return Engine(role=role, version=version, build=f"of {tag}", coordination=coordination)
    version = labels.get(_VERSION_LABEL.format(server=role), "")
    if not version and role is Role.CLICKHOUSE:
        version = _program_version(client, tag, "clickhouse-client", "clickhouse-server")
    build = labels.get(_BUILD_LABEL.format(server=role), f"of {tag}")
    return Engine(role=role, version=version, build=build)


def _command(client: docker.DockerClient, tag: str) -> tuple[str, ...]:
    """Return the program that an image starts, with its arguments."""
    with engine_request(f"inspect {tag}"):
        config = client.images.get(tag).attrs["Config"]
    return (*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ()))


def _program_version(client: docker.DockerClient, image: str, *programs: str) -> str:
    """Return the version that the first of these programs prints that the image has.

    The client comes first: the server of 18.16 does not know --version and starts, and newer images
    may have no client.
    """
    *others, last = programs
    for program in others:
        with suppress(ClusterError):
            text = _version_output(client, image, program)
            break
    else:
        text = _version_output(client, image, last)
    found = re.search(r"\d+\.\d+\.\d+(\.\d+)?", text)
    if found is None:
        raise ClusterError(f"{image}: its server does not say its version, but {text[:200]!r}")
    return found[0]


def _version_output(client: docker.DockerClient, image: str, program: str) -> str:
    """Return what a program in an image prints for --version. Raises ClusterError."""
    with engine_request(f"ask {image} for its version"):
        container = client.containers.create(
            image,
            ["--version"],
            entrypoint=program,
            labels={RUN: "version", OWNER: this_process()},
        )
        try:
            container.start()
            container.wait(timeout=_VERSION_TIMEOUT_S)
            return str(container.logs(stdout=True, stderr=True).decode(errors="replace"))
        finally:
            container.remove(force=True, v=True)
