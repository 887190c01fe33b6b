"""`harness clean`: remove what killed runs left in Docker."""

import json

import rich_click as click

from harness.cli.parameter_types import json_option
from harness.cli.terminal import Terminal
from harness.clusters.removal import clean as remove


@click.command("clean")
@click.argument("clusters", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Also remove clusters that were kept.")
@json_option
def clean(clusters: tuple[str, ...], everything: bool, as_json: bool) -> int:
    """Remove the containers, networks and volumes of runs whose process has died.

    Without CLUSTERS, cleans up after all such runs; a cluster that is named is removed even if it
    was kept. Never touches what a live run uses.
    """
    removed = remove(clusters, everything=everything)
    if as_json:
        click.echo(json.dumps({"removed": removed}))
        return 0
    console = Terminal(highlight=False)
    for name in removed:
        console.print(f"removed {name}")
    if not removed:
        console.print("Nothing to clean.")
    return 0
