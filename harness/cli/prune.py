"""`harness prune`: how large a store is, and what of it is older than it is kept. `harness pack`:
its nights and verdicts as one file, and back."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import rich_click as click
from rich.console import Console
from rich.table import Table

from checkers.phrasing import number as counted
from harness.cli.parameter_types import json_option, number, store_option
from harness.cli.terminal import Terminal, print_json
from harness.core.clock import utc_now
from harness.core.errors import UsageError
from harness.nights.packing import pack as pack_datasets
from harness.nights.packing import restore as restore_datasets
from harness.nights.retention import RULES, Removal, Retention, StoreUsage, remove, usage
from harness.store.store import Store


def _days(rule: str, what: str) -> Callable[..., Any]:
    return click.option(
        f"--{rule}", type=number("kept_days"), help=f"Days for which {what} kept, or ever."
    )


@click.command("prune")
@click.argument("matrix", required=False, type=click.Path(path_type=Path), metavar="[MATRIX]")
@store_option
@_days("logs", "the logs of servers are")
@_days("valid", "VALID runs are")
@_days("unknown", "UNKNOWN runs, and those that crashed or were killed, are")
@_days("invalid", "INVALID runs are")
@click.option("--delete", is_flag=True, help="Delete it. Without this nothing is changed.")
@json_option
def prune(
    matrix: Path | None, store: str, delete: bool, as_json: bool, **days: float | str | None
) -> int:
    """Show how large a store is and what of it is older than it is kept; delete that with
    --delete.

    The table [retention] of a MATRIX says for how long what is kept; an option takes its
    place. A run with a file `keep` in its directory, one that still runs and one that waits to be
    judged stay.
    """
    kept = Retention()
    if matrix is not None:
        # It loads all that a night needs.
        from harness.nights.matrix import read_matrix

        kept = read_matrix(matrix).retention
    kept = kept.changed({rule: value for rule, value in days.items() if value is not None})
    place = Store(Path(store).resolve())
    if not place.root.is_dir():
        raise UsageError(f"--store {store}: is no directory; expected the directory of runs")
    seen = usage(place, kept, utc_now())
    if delete:
        seen = replace(seen, removals=remove(place, seen.removals), deleted=True)
    if as_json:
        print_json(seen)
    else:
        _show(Terminal(highlight=False), seen)
    return 0


def _show(console: Console, seen: StoreUsage) -> None:
    console.print(
        f"{seen.store}: {seen.runs:,} runs, {_mb(seen.bytes)}, of it {_mb(seen.logs_bytes)} logs",
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column, justify in (("what", "left"), ("kept", "left"), ("older", "right"),
                            ("size", "right")):  # fmt: skip
        table.add_column(column, justify="right" if justify == "right" else "left")
    for rule in RULES:
        of: list[Removal] = [one for one in seen.removals if one.rule == rule]
        days = getattr(seen.days, rule)
        what = "logs" if rule == "logs" else f"{rule.upper()} runs"
        shown = "for ever" if days is None else f"{days:g} days"
        table.add_row(what, shown, f"{len(of):,}", _mb(sum(one.bytes for one in of)))
    console.print(table)
    for why, count in sorted(seen.spared.items()):
        console.print(f"kept all the same: {count:,} ({why})")
    freed = _mb(sum(one.bytes for one in seen.removals))
    if seen.deleted:
        console.print(f"deleted {freed}")
    elif seen.removals:
        console.print(f"--delete frees {freed}; nothing was changed")
    else:
        console.print("nothing is older than it is kept")


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


@click.command("pack")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@store_option
@click.option(
    "--nights",
    type=number("nights"),
    default=90,
    show_default=True,
    help="Pack this number of nights of each matrix, the last ones.",
)
@click.option(
    "--restore",
    is_flag=True,
    help="Restore FILE to the store, where what is there already stays as it is.",
)
@json_option
def pack(file: Path, store: str, nights: int, restore: bool, as_json: bool) -> int:
    """Write the nights and verdicts of a store to FILE, or restore them from it.

    A machine that keeps no disk carries them so from one night to the next: what is new or gone,
    the alarms and the trends need them. Histories, pages and logs of runs are not packed.
    """
    place = Path(store).resolve()
    console = Terminal(stderr=as_json)
    if restore:
        console.warn(Store(place).prepare())
        done = restore_datasets(place, file)
    elif place.is_dir():
        done = pack_datasets(place, file, nights)
    else:
        raise UsageError(f"--store {store}: is no directory; expected the directory of runs")
    if as_json:
        print_json(done)
        return 0
    kept = f"; {counted(done.kept, 'file')} stay as they are" if done.kept else ""
    console.print(
        f"{'restored' if restore else 'packed'} {counted(done.nights, 'night')} and verdicts, "
        f"{counted(done.files, 'file')} of {done.bytes:,} bytes{kept}: {file}",
        highlight=False,
        soft_wrap=True,
    )
    return 0
