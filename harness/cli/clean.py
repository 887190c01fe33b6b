"""`harness clean`: what killed runs left in Docker."""

import json

import rich_click as click

from harness.cli.terminal import Terminal
from harness.clusters.removal import clean as remove


@click.command("clean")
@click.argument("clusters", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Also clusters that were kept.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def clean(clusters: tuple[str, ...], everything: bool, as_json: bool) -> int:
    """Remove containers, networks and volumes of runs whose process is gone.

    Of all, or of the CLUSTERS named, also when they were kept. What a living run uses is never
    touched.
    """
    removed = remove(clusters, everything=everything)
    if as_json:
        click.echo(json.dumps({"removed": removed}))
        return 0
    console = Terminal(highlight=False)
    for name in removed:
        console.print(f"removed {name}")
    if not removed:
        console.print("nothing of ours was left")
    return 0
