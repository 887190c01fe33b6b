"""The server versions that the harness can get by itself, and how each is had.

One record a version. What a user names on the command line is an alias ("25.8") or the exact
version of a record ("25.8.2.1"). An official image is pulled if a registry is reachable; else the
image is built from what package registries offer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.core.dialect import Dialect, Engines, common_dialect
from harness.core.errors import UsageError
from harness.core.topology import Role, version_entries
from harness.core.version import Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel of PyPI's chdb, whose library contains the whole clickhouse-server."""

    version: str
    """The version of chdb."""
    abi: str
    """Its ABI tag. Nothing of Python is run, so that any of a version's wheels will do."""
    sha256: str
    platform: str = "manylinux2014_x86_64"
    python: str = "3.11"
    """A Python that pip accepts the wheel for."""

    @property
    def requirement(self) -> str:
        """The line of a requirements file."""
        return f"chdb=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One version of one server."""

    server: str
    """"clickhouse" or "zookeeper"."""
    alias: str
    """Its series, such as "25.8"."""
    version: str
    """What the server says that it is, where it is built here."""
    build: str
    """How it is built here, such as "as built in chdb 3.7.2"."""
    recipe: str
    """The directory of its recipe in compose/images."""
    official: str | None = None
    """The image that is pulled instead, if a registry is reachable."""
    wheel: Wheel | None = None
    jars: tuple[str, ...] = ()
    """Patterns of the files that are copied out of the installed pyspark's jars."""

    @property
    def product(self) -> str:
        """For people."""
        return {"clickhouse": "ClickHouse", "zookeeper": "ZooKeeper"}[self.server]

    def __str__(self) -> str:
        return f"{self.product} {self.version} {self.build}"


def _chdb(alias: str, version: str, wheel: Wheel) -> Release:
    return Release(
        server="clickhouse",
        alias=alias,
        version=version,
        build=f"as built in chdb {wheel.version}",
        recipe="clickhouse-chdb",
        official=f"clickhouse/clickhouse-server:{alias}",
        wheel=wheel,
    )


CLICKHOUSE: Final[tuple[Release, ...]] = (
    Release(
        server="clickhouse",
        alias="18.16",
        version="18.16.1",
        build="of Debian bookworm",
        recipe="clickhouse",
    ),
    _chdb(
        "24.8",
        "24.8.4.1",
        Wheel(
            version="2.1.1",
            abi="cp311",
            sha256="d904cfd5d7eda5c6833c1b49929cf897dcd2eba3fc1be6fb1bb7018ff87a77fa",
        ),
    ),
    _chdb(
        "25.5",
        "25.5.2.1",
        Wheel(
            version="3.6.0",
            abi="abi3",
            sha256="0e45613df99ea35221693e353c47acb99b7d1ce0c2409e271c24c2ffc993159a",
        ),
    ),
    _chdb(
        "25.8",
        "25.8.2.1",
        Wheel(
            version="3.7.2",
            abi="abi3",
            sha256="c119f0830c12438a4e4b60b8370859ba50992e8b1b01a8c681e1c57eeb2dc82d",
        ),
    ),
)
ZOOKEEPER: Final[tuple[Release, ...]] = (
    Release(
        server="zookeeper",
        alias="3.8",
        version="3.8.0",
        build="of Debian bookworm",
        recipe="zookeeper",
    ),
    Release(
        server="zookeeper",
        alias="3.9",
        version="3.9.5",
        build="as packed in pyspark",
        recipe="zookeeper-jars",
        official="zookeeper:3.9",
        jars=(
            "zookeeper-3.9.5.jar",
            "zookeeper-jute-3.9.5.jar",
            "slf4j-api-*.jar",
            "log4j-api-*.jar",
            "log4j-core-*.jar",
            "log4j-slf4j2-impl-*.jar",
            "metrics-core-*.jar",
            "snappy-java-*.jar",
            "commons-cli-*.jar",
            "netty-buffer-*.jar",
            "netty-codec-4*.jar",
            "netty-codec-base-*.jar",
            "netty-common-*.jar",
            "netty-handler-4*.jar",
            "netty-resolver-4*.jar",
            "netty-transport-4*.jar",
            "netty-transport-classes-epoll-*.jar",
            "netty-transport-native-unix-common-*.jar",
        ),
    ),
)
_IMAGE_FLAGS: Final = ("--clickhouse", "--zookeeper")
"""Options that have another beside them for an image."""
DEFAULT_CLICKHOUSE: Final = "25.8"
DEFAULT_ZOOKEEPER: Final = "3.8"


def clickhouse_release(name: str, flag: str = "--clickhouse") -> Release:
    """By alias or exact version. Raises UsageError that lists what there is; `flag` is the option
    that the name was given to."""
    return _found(flag, name, CLICKHOUSE)


def zookeeper_release(name: str) -> Release:
    """By alias or exact version. Raises UsageError that lists what there is."""
    return _found("--zookeeper", name, ZOOKEEPER)


def known(releases: Sequence[Release]) -> str:
    """Their aliases, for people: "18.16, 24.8, 25.5, 25.8"."""
    return ", ".join(release.alias for release in releases)


def _found(flag: str, name: str, releases: Sequence[Release]) -> Release:
    for release in releases:
        if name == release.alias:
            return release
        if name == release.version:
            # The official image of the series may be of another patch.
            return replace(release, official=None)
    offered = ", ".join(f"{release.alias} ({release.version})" for release in releases)
    own = f", or an image of your own with {flag}-image" if flag in _IMAGE_FLAGS else ""
    raise UsageError(f"{flag} {name!r}: no such version can be had; expected one of {offered}{own}")


def upgrade_targets(names: Sequence[str]) -> Mapping[Role, Mapping[str, Release]]:
    """Return the release that servers are to be upgraded to, one for a role, by the name that the
    user gave. Raises UsageError for what is not listed, and for two of one role."""
    found: dict[Role, Mapping[str, Release]] = {}
    for name in names:
        release = _found("--upgrade-to", name, (*CLICKHOUSE, *ZOOKEEPER))
        role = Role(release.server)
        if role in found:
            raise UsageError(
                f"--upgrade-to {','.join(names)}: two versions of {release.product}; expected one"
            )
        found[role] = {name: release}
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChoice:
    """Which servers are wanted: versions that are listed in compose/releases.py, or an image of the
    user's own in their place."""

    clickhouse: str = DEFAULT_CLICKHOUSE
    """One version, or several as Topology.of has them."""
    zookeeper: str = DEFAULT_ZOOKEEPER
    clickhouse_image: str | None = None
    zookeeper_image: str | None = None
    upgrade_to: tuple[str, ...] = ()
    """Versions that servers are upgraded to while the cluster runs."""

    @staticmethod
    def of(options: Mapping[str, Any]) -> "ImageChoice":
        """From the options of a command, by name. Raises UsageError for a version that is not
        listed, and for a version together with an image."""
        for server in ("clickhouse", "zookeeper"):
            if options[server] and options[f"{server}_image"]:
                raise UsageError(
                    f"--{server} {options[server]}: --{server}-image {options[f'{server}_image']} "
                    "takes its place; expected one of the two"
                )
        choice = ImageChoice(
            clickhouse=options["clickhouse"] or DEFAULT_CLICKHOUSE,
            zookeeper=options["zookeeper"] or DEFAULT_ZOOKEEPER,
            clickhouse_image=options["clickhouse_image"],
            zookeeper_image=options["zookeeper_image"],
            upgrade_to=tuple(options.get("upgrade_to", ())),
        )
        assert choice.servers, "every version is looked up"
        return choice

    @staticmethod
    def met(images: Mapping[str, str], engines: Engines) -> "ImageChoice":
        """The choice that leads to servers that were met: a listed version where they are of one,
        else their images. `images` are by node."""
        chosen: dict[str, Any] = {}
        for server, releases in (("clickhouse", CLICKHOUSE), ("zookeeper", ZOOKEEPER)):
            listed = {str(release): release.version for release in releases}
            official = {release.official: release.alias for release in releases}
            found = {
                node: listed.get(str(engine), official.get(images[node]))
                for node, engine in engines.nodes.items()
                if engine.role == server
            }
            versions = list(found.values())
            if None in versions:
                # Servers of several sources that were put together by an upgrade from an image of
                # the user's own: no command line leads there but from that image.
                own = next(node for node, version in found.items() if version is None)
                chosen[f"{server}_image"] = images[own]
            elif len(set(versions)) == 1:
                chosen[server] = str(versions[0])
            else:
                chosen[server] = ",".join(f"{node}={name}" for node, name in found.items())
        return ImageChoice(**chosen)

    @property
    def words(self) -> tuple[str, ...]:
        """The options of a command line that say the same, whatever the defaults are."""
        return (
            *(
                ("--clickhouse-image", self.clickhouse_image)
                if self.clickhouse_image
                else ("--clickhouse", self.clickhouse)
            ),
            *(
                ("--zookeeper-image", self.zookeeper_image)
                if self.zookeeper_image
                else ("--zookeeper", self.zookeeper)
            ),
        )

    @property
    def versions(self) -> Mapping[str, str]:
        """Return the versions of the servers, as Topology.of takes them."""
        return {
            "clickhouse": "" if self.clickhouse_image else self.clickhouse,
            "zookeeper": "" if self.zookeeper_image else self.zookeeper,
        }

    @property
    def servers(self) -> Mapping[Role, Mapping[str, "Release | str"]]:
        """Return what servers run, now or later, by the version as the user named it: a release,
        or under "" an image of the user's own."""
        targets = upgrade_targets(self.upgrade_to)
        out: dict[Role, Mapping[str, Release | str]] = {}
        for role, text, image, releases in (
            (Role.CLICKHOUSE, self.clickhouse, self.clickhouse_image, CLICKHOUSE),
            (Role.ZOOKEEPER, self.zookeeper, self.zookeeper_image, ZOOKEEPER),
        ):
            names = [name for _, name in version_entries(text)]
            first: dict[str, Release | str] = (
                {"": image}
                if image
                else {name: _found(f"--{role}", name, releases) for name in names}
            )
            out[role] = {**first, **targets.get(role, {})}
        return out

    @property
    def releases(self) -> tuple[Release, ...]:
        """Return the releases that must be had, each once; without those that an image of the
        user's own takes the place of."""
        every = (found for by_name in self.servers.values() for found in by_name.values())
        return tuple(dict.fromkeys(found for found in every if isinstance(found, Release)))

    @property
    def dialect(self) -> Dialect | None:
        """What all servers will understand at any time; None: the user's image decides."""
        if self.clickhouse_image:
            return None
        found = (release for release in self.releases if release.server == "clickhouse")
        return common_dialect(frozenset(Version.of(release.version) for release in found))
