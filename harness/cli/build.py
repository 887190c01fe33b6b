"""`harness build`: the container images."""

import rich_click as click
from rich.console import Console

from harness.clusters.images import build_images


@click.command("build")
@click.option("--clickhouse-image", help="Pulled instead of built.")
@click.option("--zookeeper-image", help="Pulled instead of built.")
def build(clickhouse_image: str | None, zookeeper_image: str | None) -> int:
    """Build or pull the images that clusters are made from; a run does so too."""
    console = Console(stderr=True)
    images = build_images(
        lambda note: console.print(f"images: {note}", highlight=False),
        clickhouse_image=clickhouse_image,
        zookeeper_image=zookeeper_image,
    )
    console.print(f"images: ClickHouse {images.clickhouse_version} is ready", highlight=False)
    return 0
