"""The options that choose the servers' versions or images.

`harness build` needs them while the Rust modules are still being built, so nothing here may import
a module that needs those.
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
        help=f"Version of the ClickHouse servers: {known(CLICKHOUSE)}, or a full version out of "
        "`harness list`; several in turn, as 24.8,25.8, or for servers by name, as ch1=24.8,25.8. "
        f"Default: {DEFAULT_CLICKHOUSE}.",
    ),
    click.option(
        "--zookeeper",
        type=WORD,
        metavar="VERSION",
        help=f"Version of the ZooKeeper servers: {known(ZOOKEEPER)}, or a full version; several "
        "likewise. "
        f"Default: {DEFAULT_ZOOKEEPER}.",
    ),
    click.option(
        "--clickhouse-image",
        type=WORD,
        help="Use this image instead, such as clickhouse/clickhouse-server:24.3.",
    ),
    click.option(
        "--zookeeper-image", type=WORD, help="Use this image instead, such as zookeeper:3.7."
    ),
)
"""Which servers are met; ImageChoice.of reads them."""


def image_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the servers' versions or images."""
    for option in reversed(IMAGE_OPTIONS):
        command = option(command)
    return command
