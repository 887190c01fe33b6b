"""`harness build`: the container images."""

from typing import Any

import rich_click as click

from compose.releases import ImageChoice
from harness.cli.image_options import image_options
from harness.cli.terminal import Terminal
from harness.clusters.images import build_images


@click.command("build")
@image_options
def build(**options: Any) -> int:
    """Build or pull the images that clusters are made from; a run does so too."""
    console = Terminal(stderr=True)
    images = build_images(
        lambda note: console.print(f"images: {note}", highlight=False), ImageChoice.of(options)
    )
    ready = [str(image.engine) for by_name in images.servers.values() for image in by_name.values()]
    console.print(f"images: ready: {', '.join(ready)}", highlight=False)
    return 0
