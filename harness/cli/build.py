"""`harness build`: build or pull the container images."""

import rich_click as click

from compose.releases import ImageChoice, ImageOptions
from harness.cli.image_options import image_options
from harness.cli.terminal import Terminal
from harness.clusters.images import build_images


@click.command("build")
@image_options
def build(**servers: str | None) -> int:
    """Build or pull the container images of clusters; runs do so when they need them."""
    console = Terminal(stderr=True)
    choice = ImageChoice.of(ImageOptions(**servers))
    images = build_images(lambda note: console.print(f"images: {note}", highlight=False), choice)
    ready = [str(image.engine) for by_name in images.servers.values() for image in by_name.values()]
    console.print(f"images: ready: {', '.join(ready)}", highlight=False)
    return 0
