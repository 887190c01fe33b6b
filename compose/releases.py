"""Releases: the server versions that the harness can get by itself, and how it gets them.

Users name an alias ("25.8") or the exact version of a release ("25.8.2.1"). An official image is
pulled if a registry is reachable; otherwise the image is built from packages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.core.dialect import Coordination, Dialect, Version, common_dialect
from harness.core.engines import Engines
from harness.core.errors import UsageError
from harness.core.ranges import quoted
from harness.core.topology import Role, version_entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """Wheel on PyPI whose library contains a whole ClickHouse."""

    version: str
    """Version of the package."""
    abi: str
    """ABI tag. No Python code is run, so any wheel of the version will do."""
    sha256: str
    platform: str = "manylinux2014_x86_64"
    python: str = "3.11"
    """Version of Python that pip accepts the wheel for."""
    package: str = "chdb"

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    @property
    def requirement(self) -> str:
        """Return the line of a requirements file."""
        return f"{self.package}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Version of a server that the harness can get by itself."""

    server: str
    """Server: "clickhouse", "zookeeper" or "store"."""
    alias: str
    """Series, such as "25.8"; the version, if another release has the name of the series."""
    version: str
    """Version that the server reports if its image is built here."""
    build: str
    """Origin of the build, such as "as built in chdb 3.7.2"."""
    recipe: str
    """Directory of the recipe in compose/images."""
    official: str | None = None
    """Image that is pulled instead if a registry is reachable."""
    wheel: Wheel | None = None
    packages: tuple[str, ...] = ()
    """Debian packages that the recipe unpacks; after a slash, a release other than the base's."""
    jars: tuple[str, ...] = ()
    """Patterns of the files that are copied from the jars of the installed pyspark."""

    @property
    def public(self) -> str:
        """Return the name of the makers' image of this version, or of its series where the build
        here is none of their releases. Nothing here pulls it."""
        if self.server == "zookeeper":
            return f"zookeeper:{self.version}"
        if self.server == "store":
            return f"motoserver/moto:{self.version}"
        if self.official is None and self.recipe == "clickhouse":
            return f"yandex/clickhouse-server:{self.version}"
        return f"clickhouse/clickhouse-server:{self.alias}"

    @property
    def product(self) -> str:
        """Return the name of the product."""
        products = {"clickhouse": "ClickHouse", "zookeeper": "ZooKeeper", "store": "moto"}
        return products[self.server]

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
_ZOOKEEPER_NEEDS: Final = (
    "libslf4j-java",
    "liblog4j1.2-java",
    "libnetty-java",
    "libdropwizard-metrics-java",
    "libsnappy-java",
    "libsnappy-jni",
    "libcommons-cli-java",
)
"""Packages of the libraries of Debian's ZooKeeper, in the release of the base image."""
ZOOKEEPER: Final[tuple[Release, ...]] = (
    Release(
        server="zookeeper",
        alias="3.8",
        version="3.8.0",
        build="of Debian bookworm",
        recipe="zookeeper",
        packages=("libzookeeper-java", *_ZOOKEEPER_NEEDS),
    ),
    Release(
        server="zookeeper",
        alias="3.9.3",
        version="3.9.3",
        build="of Debian trixie",
        recipe="zookeeper",
        packages=("libzookeeper-java/trixie", *_ZOOKEEPER_NEEDS),
    ),
    Release(
        server="zookeeper",
        alias="3.9",
        version="3.9.5",
        build="as packed in pyspark",
        recipe="zookeeper",
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
OBJECT_STORE: Final = Release(
    server="store",
    alias="5.2",
    version="5.2.5",
    build="from PyPI",
    recipe="object-store",
)
"""S3 server, for workloads whose tables are on an object store. Its recipe pins every wheel."""
NEWEST_ENGINE: Final = Release(
    server="clickhouse",
    alias="26.9",
    version="26.9.2.1",
    build="as embedded in chdb-core 26.9.0",
    recipe="",
    wheel=Wheel(
        package="chdb-core",
        version="26.9.0",
        abi="abi3",
        sha256="707e2ec3fe0f7953bac97942eaeb7a1ed1d66b1e56ecef3f0aa2130f61f6e735",
    ),
)
"""Newest engine that is available. It has no server, so no cluster can run it; the tests check that
it has the names that the project uses."""
_IMAGE_FLAGS: Final = ("--clickhouse", "--zookeeper")
"""Options that have a counterpart for an image."""
_EXCLUSIVE: Final = (
    ("--clickhouse", "--clickhouse-image"),
    ("--zookeeper", "--zookeeper-image", "--keeper-image"),
)
"""Groups of options of which at most one can be given."""
DEFAULT_CLICKHOUSE: Final = "25.8"
DEFAULT_ZOOKEEPER: Final = "3.8"


def clickhouse_release(name: str, flag: str = "--clickhouse", *, or_image: bool = False) -> Release:
    """Return a ClickHouse release by alias or exact version.

    Raises UsageError, which lists the releases; `flag` is the option that the name was given to,
    and `or_image` says that it takes images, too.
    """
    return _found(flag, name, CLICKHOUSE, or_image=or_image)


def zookeeper_release(name: str, *, or_image: bool = False) -> Release:
    """Return a ZooKeeper release by alias or exact version. Raises UsageError, likewise."""
    return _found("--zookeeper", name, ZOOKEEPER, or_image=or_image)


def known(releases: Sequence[Release]) -> str:
    """Return the aliases of releases as text, such as "18.16, 24.8, 25.5, 25.8"."""
    return ", ".join(release.alias for release in releases)


def _found(flag: str, name: str, releases: Sequence[Release], *, or_image: bool = False) -> Release:
    for release in releases:
        if name == release.alias:
            return release
        if name == release.version:
            # The official image of the series may have another patch version.
            return replace(release, official=None)
    offered = ", ".join(
        one.version if one.alias == one.version else f"{one.alias} ({one.version})"
        for one in releases
    )
    own = f", or an image of your own with {flag}-image" if flag in _IMAGE_FLAGS else ""
    own = f", or an image such as my/{releases[0].server}:tag" if or_image else own
    raise UsageError(
        f"{flag} {quoted(name)}: no such version can be had; expected one of {offered}{own}"
    )


def upgrade_targets(names: Sequence[str]) -> Mapping[Role, Mapping[str, Release]]:
    """Return the release that the servers of each role are upgraded to, by the name given.

    Raises UsageError for an unknown version, and for two versions of one role.
    """
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
class ImageOptions:
    """Options of a command that choose the servers; None: not given."""

    clickhouse: str | None = None
    zookeeper: str | None = None
    clickhouse_image: str | None = None
    zookeeper_image: str | None = None
    keeper_image: str | None = None

    @property
    def images(self) -> Mapping[str, str | None]:
        """Return the options that choose the servers, by flag."""
        return {
            "--clickhouse": self.clickhouse,
            "--zookeeper": self.zookeeper,
            "--clickhouse-image": self.clickhouse_image,
            "--zookeeper-image": self.zookeeper_image,
            "--keeper-image": self.keeper_image,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChoice:
    """Choice of the servers: versions out of CLICKHOUSE and ZOOKEEPER, or a user's own images."""

    clickhouse: str = DEFAULT_CLICKHOUSE
    """Version, or several in the form that Topology.of takes."""
    zookeeper: str = DEFAULT_ZOOKEEPER
    clickhouse_image: str | None = None
    zookeeper_image: str | None = None
    keeper_image: str | None = None
    """Image of ClickHouse Keeper, which replaces ZooKeeper."""
    upgrade_to: tuple[str, ...] = ()
    """Versions that servers are upgraded to while the cluster runs."""
    store: bool = False
    """True if the cluster has an object store."""

    @staticmethod
    def of(options: ImageOptions, upgrade_to: tuple[str, ...] = ()) -> "ImageChoice":
        """Return the choice that a command's options make.

        Raises UsageError for an unknown version, and for a version together with an image.
        """
        given = {flag: value for flag, value in options.images.items() if value}
        for several in _EXCLUSIVE:
            flags = [flag for flag in several if flag in given]
            if len(flags) > 1:
                first, second = flags[:2]
                raise UsageError(
                    f"{first} {given[first]}: {second} {given[second]} takes its place; expected "
                    "one of the two"
                )
        if options.keeper_image and Role.ZOOKEEPER in upgrade_targets(upgrade_to):
            raise UsageError(
                f"--upgrade-to {','.join(upgrade_to)}: --keeper-image {options.keeper_image} "
                "leaves no ZooKeeper server to upgrade; expected a version of ClickHouse"
            )
        choice = ImageChoice(
            clickhouse=options.clickhouse or DEFAULT_CLICKHOUSE,
            zookeeper=options.zookeeper or DEFAULT_ZOOKEEPER,
            clickhouse_image=options.clickhouse_image,
            zookeeper_image=options.zookeeper_image,
            keeper_image=options.keeper_image,
            upgrade_to=upgrade_to,
        )
        assert choice.servers, "every version is looked up"
        return choice

    @staticmethod
    def of_run(images: Mapping[str, str], engines: Engines) -> "ImageChoice":
        """Return the choice that leads to the servers of a run, whose images are given by node.

        It names versions if the servers are releases, else their images.
        """
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
                # An upgrade from a user's own image leads to servers of several sources; only that
                # image leads there again.
                own = next(node for node, version in found.items() if version is None)
                keeper = engines.nodes[own].product == Coordination.KEEPER
                chosen["keeper_image" if keeper else f"{server}_image"] = images[own]
            elif len(set(versions)) == 1:
                chosen[server] = str(versions[0])
            else:
                chosen[server] = ",".join(f"{node}={name}" for node, name in found.items())
        return ImageChoice(**chosen)

    @property
    def options(self) -> Mapping[str, str | None]:
        """Return the fields of ImageOptions that make this choice, independent of the defaults."""
        return {
            "clickhouse": None if self.clickhouse_image else self.clickhouse,
            "zookeeper": None if self.coordination_image else self.zookeeper,
            "clickhouse_image": self.clickhouse_image,
            "zookeeper_image": None if self.keeper_image else self.zookeeper_image,
            "keeper_image": self.keeper_image,
        }

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of a command line for this choice."""
        given = ImageOptions(**self.options).images
        return tuple(word for flag, value in given.items() if value for word in (flag, value))

    @property
    def versions(self) -> Mapping[str, str]:
        """Return the versions of the servers in the form that Topology.of takes."""
        return {
            "clickhouse": "" if self.clickhouse_image else self.clickhouse,
            "zookeeper": "" if self.coordination_image else self.zookeeper,
        }

    @property
    def coordination_image(self) -> str | None:
        """Return the user's own image of ZooKeeper or ClickHouse Keeper; None if there is none."""
        return self.keeper_image or self.zookeeper_image

    @property
    def coordination(self) -> Coordination:
        """Return the program through which replicas coordinate."""
        return Coordination.KEEPER if self.keeper_image else Coordination.ZOOKEEPER

    @property
    def servers(self) -> Mapping[Role, Mapping[str, "Release | str"]]:
        """Return what servers run now or after upgrades, by the version as the user named it.

        It is a release, or under "" the user's own image.
        """
        targets = upgrade_targets(self.upgrade_to)
        out: dict[Role, Mapping[str, Release | str]] = {}
        for role, text, image, releases in (
            (Role.CLICKHOUSE, self.clickhouse, self.clickhouse_image, CLICKHOUSE),
            (Role.ZOOKEEPER, self.zookeeper, self.coordination_image, ZOOKEEPER),
        ):
            names = [name for _, name in version_entries(text)]
            first: dict[str, Release | str] = (
                {"": image}
                if image
                else {name: _found(f"--{role}", name, releases) for name in names}
            )
            out[role] = {**first, **targets.get(role, {})}
        if self.store:
            out[Role.STORE] = {"": OBJECT_STORE}
        return out

    @property
    def releases(self) -> tuple[Release, ...]:
        """Return the releases whose images are needed, each once."""
        every = (found for by_name in self.servers.values() for found in by_name.values())
        return tuple(dict.fromkeys(found for found in every if isinstance(found, Release)))

    @property
    def dialect(self) -> Dialect | None:
        """Return the dialect common to all servers at any time; None: the user's image decides."""
        if self.clickhouse_image:
            return None
        found = (release for release in self.releases if release.server == "clickhouse")
        versions = frozenset(Version.of(release.version) for release in found)
        return common_dialect(versions, self.coordination)
