"""Options that choose the versions or images of the servers, by the fields of `ImageOptions`.

`harness build` uses them while the Rust modules are still being built, so nothing here may import a
module that needs those.
"""

from collections.abc import Mapping
from typing import Final

from compose.releases import CLICKHOUSE, DEFAULT_CLICKHOUSE, DEFAULT_ZOOKEEPER, ZOOKEEPER, known
from harness.spec.option import Chooser, On, Option, Panel
from harness.spec.option_types import Text


def _image_option(metavar: str, help_: str, *, common: bool = False) -> Option:
    return Option(
        type=Text(metavar),
        panel=Panel.CLUSTER,
        help=help_,
        common=common,
        on=On.CONTAINERS,
        chosen_by=Chooser.TRANSLATION,
        of_cluster=True,
        fixed=True,
        setting=False,
    )


IMAGE_OPTIONS: Final[Mapping[str, Option]] = {
    "clickhouse": _image_option(
        "VERSION",
        f"Version of the ClickHouse servers: {known(CLICKHOUSE)}, or a full version from "
        "`harness list versions`. A list assigns versions to the servers in turn (24.8,25.8) or by "
        f"name (ch1=24.8,25.8). Default: {DEFAULT_CLICKHOUSE}.",
        common=True,
    ),
    "zookeeper": _image_option(
        "VERSION",
        f"Version of the ZooKeeper servers: {known(ZOOKEEPER)}, or a full version; lists "
        f"as with --clickhouse. Default: {DEFAULT_ZOOKEEPER}.",
    ),
    "clickhouse_image": _image_option(
        "TEXT",
        "Image of the ClickHouse servers, instead of a version, such as "
        "clickhouse/clickhouse-server:24.3.",
    ),
    "zookeeper_image": _image_option(
        "TEXT", "Image of the ZooKeeper servers, instead of a version, such as zookeeper:3.7."
    ),
    "keeper_image": _image_option(
        "TEXT",
        "Use ClickHouse Keeper from this image instead of ZooKeeper, such as "
        "clickhouse/clickhouse-keeper:25.8.",
    ),
}
