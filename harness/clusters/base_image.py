"""Base image of our own images: a Debian that is present, can be pulled, or is built here."""

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Final

import docker
from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

from harness.clusters.engine import engine, engine_request
from harness.core.errors import ClusterError

SUITE: Final = "bookworm"
"""Debian release that has ClickHouse 18.16.1 and ZooKeeper 3.8.0."""
PUBLIC: Final = f"debian:{SUITE}-slim"
_REGISTRY_TIMEOUT_S: Final = 10
_PULL_TIMEOUT_S: Final = 300
_MAKE_TIMEOUT_S: Final = 600

_LEAN: Final = (
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
    "force-unsafe-io",
)
"""Options of dpkg, which stay in the image. They leave out manuals, which nobody reads there, and
fsync, because a half-built image is discarded."""


def base_image(client: docker.DockerClient, progress: Callable[[str], None]) -> str:
    """Return the tag of the base image, after pulling or building it if it is missing.

    Raises ClusterError if no registry can be reached and no tool can build it.
    """
    made = f"harness/base:{_recipe()}"
    for tag in (made, PUBLIC):
        if has_image(client, tag):
            return tag
    if registry_has():
        progress(f"pulling {PUBLIC}")
        pull(PUBLIC)
        return PUBLIC
    tool = bootstrap_tool()
    if tool is None:
        raise ClusterError(
            f"base image: {PUBLIC} is missing, no registry can be reached, and neither mmdebstrap "
            "nor debootstrap was found. Install one (Debian, Ubuntu: apt-get install mmdebstrap)"
        )
    progress(f"building a base image with {tool}")
    with tempfile.TemporaryDirectory(prefix="harness-base-") as directory:
        tar = Path(directory) / "base.tar"
        _make(tool, tar)
        repository, _, tag = made.partition(":")
        with engine_request("import the base image"):
            client.api.import_image_from_file(str(tar), repository, tag)
    return made


def registry_has(image: str = PUBLIC) -> bool:
    """Return whether the registry of an image can be reached and has it, within 10 s."""
    try:
        with closing(engine(_REGISTRY_TIMEOUT_S)) as client:
            client.images.get_registry_data(image)
    except (DockerException, RequestException, OSError):
        return False
    return True


def pull(image: str) -> None:
    """Pull an image. Raises ClusterError."""
    with closing(engine(_PULL_TIMEOUT_S)) as client, engine_request(f"pull {image}"):
        client.images.pull(image)


def bootstrap_tool() -> str | None:
    """Return the tool on this machine that can build a base image; None if there is none."""
    return next(filter(shutil.which, ("mmdebstrap", "debootstrap")), None)


def require_images(client: docker.DockerClient, images: Iterable[str]) -> None:
    """Raise ClusterError for an image that is no longer here. The compose tool would pull one of
    that name from a registry, where anybody may have put it."""
    for image in images:
        if not has_image(client, image):
            raise ClusterError(
                f"{image}: this image was removed while the cluster was being created; run again, "
                "which builds or pulls it"
            )


def has_image(client: docker.DockerClient, tag: str) -> bool:
    """Return whether the engine has an image."""
    with engine_request(f"look for the image {tag}"):
        try:
            client.images.get(tag)
        except ImageNotFound:
            return False
    return True


def _recipe() -> str:
    """Return a digest of the recipe, so that a changed recipe gets a new tag."""
    return blake2b("\n".join((SUITE, *_LEAN)).encode(), digest_size=6).hexdigest()


def _make(tool: str, tar: Path) -> None:
    if tool == "mmdebstrap":
        lean = (f"--dpkgopt={option}" for option in _LEAN)
        languages = '--aptopt=Acquire::Languages "none"'
        _run(tool, "--quiet", "--variant=minbase", *lean, languages, SUITE, str(tar))
        return
    root = tar.parent / "root"
    _run(tool, "--variant=minbase", SUITE, str(root))
    shutil.rmtree(root / "var/cache/apt", ignore_errors=True)
    (root / "etc/dpkg/dpkg.cfg.d/harness").write_text("\n".join((*_LEAN, "")))
    with tarfile.open(tar, "w") as archive:
        archive.add(root, arcname=".")
    shutil.rmtree(root)


def _run(*argv: str) -> None:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_MAKE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{argv[0]}: not done after {_MAKE_TIMEOUT_S} s") from error
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise ClusterError(f"{argv[0]}: could not build a Debian {SUITE}:\n{last}")
