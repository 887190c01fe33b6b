"""The Debian that our images stand on: one that is here or can be pulled, or one made here."""

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Final

import docker
from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

from harness.clusters.engine import asking_engine, engine
from harness.core.errors import ClusterError

SUITE: Final = "bookworm"
"""The Debian that has ClickHouse 18.16.1 and ZooKeeper 3.8.0."""
PUBLIC: Final = f"debian:{SUITE}-slim"
_HUB_TIMEOUT_S: Final = 10
_PULL_TIMEOUT_S: Final = 300
_MAKE_TIMEOUT_S: Final = 600

_LEAN: Final = (
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
    "force-unsafe-io",
)
"""dpkg's options, kept in the image: nobody reads manuals there, and an image that was half
built is thrown away, so nothing need be synced to the disk."""


def base_image(client: docker.DockerClient, progress: Callable[[str], None]) -> str:
    """Its tag. Raises ClusterError when it is not here, no hub answers and no tool can make it."""
    made = f"harness/base:{_recipe()}"
    for tag in (made, PUBLIC):
        if has_image(client, tag):
            return tag
    if hub_answers():
        progress(f"pulling {PUBLIC}")
        pull(PUBLIC)
        return PUBLIC
    tool = bootstrap_tool()
    if tool is None:
        raise ClusterError(
            f"base image: {PUBLIC} is not here, no hub can be reached, and neither mmdebstrap nor "
            "debootstrap was found. Install one (Debian, Ubuntu: apt-get install mmdebstrap)"
        )
    progress(f"making a base image with {tool}")
    with tempfile.TemporaryDirectory(prefix="harness-base-") as directory:
        tar = Path(directory) / "base.tar"
        _make(tool, tar)
        repository, _, tag = made.partition(":")
        with asking_engine("import the base image"):
            client.api.import_image_from_file(str(tar), repository, tag)
    return made


def hub_answers(image: str = PUBLIC) -> bool:
    """Whether the registry of an image can be reached and has it; says so in 10 s."""
    try:
        with closing(engine(_HUB_TIMEOUT_S)) as client:
            client.images.get_registry_data(image)
    except (DockerException, RequestException, OSError):
        return False
    return True


def pull(image: str) -> None:
    """Raises ClusterError."""
    with closing(engine(_PULL_TIMEOUT_S)) as client, asking_engine(f"pull {image}"):
        client.images.pull(image)


def bootstrap_tool() -> str | None:
    """The tool on this host that can make a base image; None: there is none."""
    return next(filter(shutil.which, ("mmdebstrap", "debootstrap")), None)


def has_image(client: docker.DockerClient, tag: str) -> bool:
    """Whether the engine has it."""
    with asking_engine(f"look for the image {tag}"):
        try:
            client.images.get(tag)
        except ImageNotFound:
            return False
    return True


def _recipe() -> str:
    """A new recipe is a new tag."""
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
        raise ClusterError(f"{argv[0]}: could not make a Debian {SUITE}:\n{last}")
