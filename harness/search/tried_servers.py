"""Servers that are compared: of a known version, of an image, or as a command builds them."""

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from compose.releases import (
    CLICKHOUSE,
    ZOOKEEPER,
    ImageOptions,
    Release,
    clickhouse_release,
    zookeeper_release,
)
from harness.core.dialect import Version
from harness.core.errors import ClusterError, UsageError
from harness.core.ranges import quoted
from harness.core.topology import Role

REVISION: Final = "{revision}"
BUILD_S_MAX: Final = 4 * 3600
"""Time limit of one build."""
_FLAGS: Final = {Role.CLICKHOUSE: "--versions", Role.ZOOKEEPER: "--zookeeper"}


class BuildError(ClusterError):
    """The command that builds a revision failed."""


@dataclass(frozen=True, slots=True)
class TriedServers:
    """Servers of one role, which a replay gets in place of its own."""

    name: str
    """Name that the user gave: a version, an image or a revision."""
    role: Role = Role.CLICKHOUSE
    release: Release | None = None
    """The known version; None: an image, or a revision."""
    build: str = ""
    """Command that builds the revision and prints the image's name in its last line."""

    @property
    def identity(self) -> str:
        """Return what two names of the same servers have in common."""
        return self.release.version if self.release else self.name

    def options(self, beside: ImageOptions) -> ImageOptions:
        """Return the options of these servers and of those `beside` them; a revision is built now.
        Raises BuildError."""
        image = None if self.release else self._built() if self.build else self.name
        version = self.name if self.release else None
        if self.role is Role.ZOOKEEPER:
            return ImageOptions(
                clickhouse=beside.clickhouse,
                clickhouse_image=beside.clickhouse_image,
                zookeeper=version,
                zookeeper_image=image,
            )
        return ImageOptions(
            clickhouse=version,
            clickhouse_image=image,
            zookeeper=beside.zookeeper,
            zookeeper_image=beside.zookeeper_image,
        )

    @property
    def build_words(self) -> list[str]:
        """Return the words of the command that builds the revision."""
        return [word.replace(REVISION, self.name) for word in shlex.split(self.build)]

    def _built(self) -> str:
        words = self.build_words
        try:
            said = subprocess.run(  # the user's own command
                words, stdout=subprocess.PIPE, text=True, timeout=BUILD_S_MAX, check=False
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise BuildError(f"{shlex.join(words)}: {error}") from error
        if said.returncode:
            raise BuildError(f"{shlex.join(words)}: exit status {said.returncode}")
        lines = said.stdout.split()
        if not lines:
            raise BuildError(f"{shlex.join(words)}: expected the image's name in its last line")
        return said.stdout.strip().splitlines()[-1].strip()


def tried_servers(
    versions: Sequence[str], zookeeper: Sequence[str], build: str = ""
) -> tuple[Sequence[TriedServers], ImageOptions]:
    """Return the servers to compare, from old to new, and the options of those beside them.

    Several of `zookeeper` are compared with each other, else those of `versions`, or all known
    versions of ClickHouse. Known versions are sorted; with an image or a revision among them they
    stay in the order in which they were given. Raises UsageError.
    """
    _check_build(build)
    if len(zookeeper) > 1:
        if len(versions) > 1 or build:
            raise UsageError(
                f"--zookeeper {','.join(zookeeper)}: versions of ZooKeeper are compared on one of "
                f"ClickHouse; expected one --versions, and no --build"
            )
        found = _sorted([_named(name, Role.ZOOKEEPER) for name in zookeeper])
        return found, _beside([_named(name, Role.CLICKHOUSE) for name in versions])
    names = versions or [release.alias for release in CLICKHOUSE]
    found = _sorted([_named(name, Role.CLICKHOUSE, build) for name in names])
    if build and not any(one.build for one in found):
        raise UsageError(f"--build {quoted(build)}: --versions has no revision; expected one")
    return found, _beside([_named(name, Role.ZOOKEEPER) for name in zookeeper])


def _check_build(build: str) -> None:
    try:
        words = shlex.split(build)
    except ValueError as error:
        raise UsageError(f"--build {quoted(build)}: {error}") from error
    if words and not any(REVISION in word for word in words):
        raise UsageError(
            f"--build {quoted(build)}: expected a command with {REVISION}, such as "
            f"'./build.sh {REVISION}'"
        )


def _named(name: str, role: Role, build: str = "") -> TriedServers:
    """Return the servers of this name: a known version, else an image, which has a colon or a
    slash in its name, else a revision. With a command that builds, only a colon makes an image."""
    known = CLICKHOUSE if role is Role.CLICKHOUSE else ZOOKEEPER
    listed = any(name in (release.alias, release.version) for release in known)
    if not listed and (":" in name or ("/" in name and not build)):
        return TriedServers(name, role)
    if not listed and build:
        return TriedServers(name, role, build=build)
    if role is Role.ZOOKEEPER:
        return TriedServers(name, role, zookeeper_release(name, or_image=True))
    return TriedServers(name, role, clickhouse_release(name, _FLAGS[role], or_image=True))


def _sorted(found: Sequence[TriedServers]) -> Sequence[TriedServers]:
    """Return servers from old to new. Raises UsageError if some are the same."""
    by_identity: dict[str, TriedServers] = {}
    for one in found:
        other = by_identity.setdefault(one.identity, one)
        if other is not one:
            names = f"{other.name},{one.name}"
            raise UsageError(f"{_FLAGS[one.role]} {names}: expected each version once")
    releases = [one.release for one in found if one.release]
    if len(releases) < len(found):
        return found
    return sorted(found, key=lambda one: Version.of(one.identity))


def _beside(found: Sequence[TriedServers]) -> ImageOptions:
    return found[0].options(ImageOptions()) if found else ImageOptions()
