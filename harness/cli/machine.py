"""`harness doctor`, `build`, `clean`: what a machine lacks, its images, and what runs left on it.

`harness build` works before the Rust modules are built, so nothing here may import one that needs
them.
"""

import sys
from dataclasses import asdict, replace
from pathlib import Path

import rich_click as click
from rich.table import Table
from rich.text import Text

from compose.releases import ImageChoice, ImageOptions
from harness.cli.parameter_types import image_options, json_option, store_option
from harness.cli.terminal import Terminal, print_json
from harness.clusters.images import build_images
from harness.clusters.removal import clean as remove
from harness.clusters.removal import kept_clusters
from harness.clusters.requirements import requirements
from harness.core.errors import EXIT_CRASH, UsageError


@click.command("doctor")
@image_options
@json_option
def doctor(as_json: bool, **servers: str | None) -> int:
    """Check whether this machine meets every requirement, and say how to meet the others.

    Exit status: 0 if everything that a run needs is present, else 255.
    """
    found = requirements(ImageChoice.of(ImageOptions(**servers)))
    if as_json:
        print_json([asdict(requirement) for requirement in found])
    else:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in ("", "requirement", "found", "how to get it"):
            table.add_column(column)
        for requirement in found:
            mark = (
                ("✓", "green")
                if requirement.ok
                else ("✗", "red" if requirement.needed else "yellow")
            )
            advice = "" if requirement.ok else requirement.how_to_get
            table.add_row(Text(*mark), requirement.name, requirement.found, advice)
        console = Terminal(highlight=False)
        console.print(table)
        lacking = [one.name for one in found if one.needed and not one.ok]
        answer = f"lacking: {', '.join(lacking)}" if lacking else "ready: every requirement is met"
        console.print(answer, style="bold red" if lacking else "bold green", soft_wrap=True)
    return EXIT_CRASH if any(r.needed and not r.ok for r in found) else 0


@click.command("build")
@image_options
@click.option("--object-store", is_flag=True, help="Build the image of the object store, too.")
@json_option
def build(object_store: bool, as_json: bool, **servers: str | None) -> int:
    """Build or pull the container images of clusters; runs do so when they need them."""
    console = Terminal(stderr=True)
    choice = replace(ImageChoice.of(ImageOptions(**servers)), store=object_store)
    images = build_images(lambda note: console.print(f"images: {note}", highlight=False), choice)
    ready = [str(image.engine) for by_name in images.servers.values() for image in by_name.values()]
    if as_json:
        print_json({"images": ready})
    else:
        console.print(f"images: ready: {', '.join(ready)}", highlight=False)
    return 0


@click.command("clean")
@click.argument("clusters", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Also remove clusters that were kept.")
@click.option("--yes", is_flag=True, help="Do not ask before --all removes kept clusters.")
@store_option
@json_option
def clean(clusters: tuple[str, ...], everything: bool, yes: bool, store: str, as_json: bool) -> int:
    """Remove the containers, networks and volumes of runs whose process has died.

    Without CLUSTERS, cleans up after all such runs; a cluster that is named is removed even if it
    was kept. Never touches what a live run uses. Objects of such a run in a user's bucket are
    removed as well. Removes from the store the files of clusters that were killed before they had
    containers.
    """
    console = Terminal(highlight=False, stderr=as_json)
    if everything and not clusters and not yes and not _may_remove_kept(console):
        console.print("Nothing was removed.")
        return 0
    removed = remove(clusters, everything=everything, store=Path(store))
    if as_json:
        print_json({"removed": removed})
        return 0
    for name in removed:
        console.print(f"removed {name}", soft_wrap=True)
    console.print(f"removed: {len(removed)}" if removed else "Nothing to clean.")
    return 0


def _may_remove_kept(console: Terminal) -> bool:
    """Return whether all kept clusters of this machine may be removed, whoever keeps them. Raises
    UsageError if there are some and nobody can be asked."""
    kept = kept_clusters()
    if not kept:
        return True
    lines = "\n".join(f"  {one}" for one in kept)
    if not _can_ask(console):
        raise UsageError(
            f"--all removes {len(kept)} kept clusters of this machine, whoever keeps them:\n"
            f"{lines}\nexpected --yes, or the names of those that may go"
        )
    console.print(f"Kept clusters of this machine:\n{lines}", soft_wrap=True)
    return click.confirm("Remove them?", err=True)


def _can_ask(console: Terminal) -> bool:
    return sys.stdin.isatty() and console.is_terminal
