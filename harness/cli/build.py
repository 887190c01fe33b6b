"""`harness build`: build or pull the container images."""

from dataclasses import replace

import rich_click as click

from compose.releases import ImageChoice, ImageOptions
from harness.cli.image_options import image_options
from harness.cli.terminal import Terminal
from harness.clusters.images import build_images


@click.command("build")
@image_options
@click.option("--object-store", is_flag=True, help="Build the image of the object store, too.")
def build(object_store: bool, **servers: str | None) -> int:
    """Build or pull the container images of clusters; runs do so when they need them."""
    console = Terminal(stderr=True)
    choice = replace(ImageChoice.of(ImageOptions(**servers)), store=object_store)
    images = build_images(lambda note: console.print(f"images: {note}", highlight=False), choice)
    ready = [str(image.engine) for by_name in images.servers.values() for image in by_name.values()]
    console.print(f"images: ready: {', '.join(ready)}", highlight=False)
    return 0
