"""Options that choose the versions or images of the servers.

`harness build` uses them while the Rust modules are still being built, so nothing here may import a
module that needs those.
"""

from collections.abc import Callable
from typing import Any

import rich_click as click

from compose.releases import CLICKHOUSE, DEFAULT_CLICKHOUSE, DEFAULT_ZOOKEEPER, ZOOKEEPER, known
from harness.cli.parameter_types import WORD

IMAGE_OPTIONS: tuple[Any, ...] = (
    click.option(
        "--clickhouse",
        type=WORD,
        metavar="VERSION",
        help=f"Version of the ClickHouse servers: {known(CLICKHOUSE)}, or a full version from "
        "`harness list versions`. A list assigns versions to the servers in turn (24.8,25.8) or by "
        "name (ch1=24.8,25.8). "
        f"Default: {DEFAULT_CLICKHOUSE}.",
    ),
    click.option(
        "--zookeeper",
        type=WORD,
        metavar="VERSION",
        help=f"Version of the ZooKeeper servers: {known(ZOOKEEPER)}, or a full version; lists "
        f"as with --clickhouse. Default: {DEFAULT_ZOOKEEPER}.",
    ),
    click.option(
        "--clickhouse-image",
        type=WORD,
        help="Image of the ClickHouse servers, instead of a version, such as "
        "clickhouse/clickhouse-server:24.3.",
    ),
    click.option(
        "--zookeeper-image",
        type=WORD,
        help="Image of the ZooKeeper servers, instead of a version, such as zookeeper:3.7.",
    ),
    click.option(
        "--keeper-image",
        type=WORD,
        help="Use ClickHouse Keeper from this image instead of ZooKeeper, such as "
        "clickhouse/clickhouse-keeper:25.8.",
    ),
)
"""Options that choose the servers; the fields of ImageOptions."""


def image_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the versions or images of the servers."""
    for option in reversed(IMAGE_OPTIONS):
        command = option(command)
    return command
