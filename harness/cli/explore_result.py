"""Output of `harness explore`: the claims, the shortest counterexample, the figures."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.cli.result import STATUS_STYLE
from harness.core.verdict import Status
from harness.native.explorer import Claim
from harness.sim.counterexample import rows_of

if TYPE_CHECKING:
    from harness.cli.explore import ExplorationResult

_BOUNDS = {
    "states": "the limit of states",
    "memory": "the memory limit",
    "time": "the time limit",
    "violation": "stopped at the first broken claim",
}


def print_exploration(result: "ExplorationResult", run: Path | None, console: Console) -> None:
    """Print the claims, then the counterexample, then the size of the search."""
    console.print(
        Text.assemble(
            (result.status.value, STATUS_STYLE[result.status]),
            f"  {result.model}: {_scope(result)}",
        )
    )
    console.print(_claims(result))
    if result.shown:
        console.print()
        actions = len(result.steps) - 1
        console.print(f"{result.shown} is broken after {actions} actions:", style="bold")
        console.print(_table(result))
        console.print(f"as a history: harness check {run}", soft_wrap=True, highlight=False)
    console.print()
    answer = (result.status.value, STATUS_STYLE[result.status])
    broken = (
        f"{result.shown} is broken after {len(result.steps) - 1} actions; " if result.shown else ""
    )
    said = Text.assemble(answer, f": {broken}{totals(result)}")
    console.print(said, soft_wrap=True, highlight=False)


def totals(result: "ExplorationResult") -> str:
    """Return a line with the size of the search, and whether it is complete."""
    seen = f"{result.states:,} states, depth {result.depth}"
    prefix = "every state was reached: " if result.ended == "whole" else "not finished: "
    rest = (
        ""
        if result.ended == "whole"
        else f", {result.frontier:,} of them not explored ({_BOUNDS[result.ended]})"
    )
    return (
        f"{prefix}{seen}{rest}; {result.transitions:,} steps, {result.seconds:.2f} s, "
        f"{result.states_per_s:,.0f} states per second, {result.memory_mb:,.0f} MB"
        + (
            ", states merged that differ only in the names of the replicas"
            if result.symmetry
            else ""
        )
    )


def _scope(result: "ExplorationResult") -> str:
    words = []
    for name, value in result.scope.items():
        if value is None or value is False or value == ():
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            words.append(f"quorum {value}" if name == "quorum" else f"{value} {name}")
        elif value is True:
            words.append(name.replace("_", " "))
        else:
            text = " ".join(value) if isinstance(value, tuple) else value
            words.append(f"{name} {text}")
    return ", ".join(words)


def _claims(result: "ExplorationResult") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("claim", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("states", justify="right", no_wrap=True)
    table.add_column("meaning")
    for claim in result.claims:
        verdict, style = _verdict(claim, result.ended)
        of = f"{claim.applied:,}" + (" steps" if claim.name == "comes-to-rest" else "")
        table.add_row(claim.name, Text(verdict, style), of, claim.text)
    return table


def _verdict(claim: Claim, ended: str) -> tuple[str, str]:
    if claim.broken_after is not None:
        return f"broken after {claim.broken_after}", STATUS_STYLE[Status.INVALID]
    if not claim.applied:
        return "never applied", STATUS_STYLE[Status.UNKNOWN]
    if ended != "whole":
        return "not broken so far", STATUS_STYLE[Status.UNKNOWN]
    return "holds", STATUS_STYLE[Status.VALID]


def _table(result: "ExplorationResult") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for column in ("", "who", "action", *(name for name, _ in result.steps[0].state)):
        table.add_column(column, no_wrap=column in ("", "who", "action"))
    for row in rows_of(result.steps):
        table.add_row(*row)
    return table
