"""What a search came to, for people: the claims, the shortest counterexample, the figures."""

from pathlib import Path
from typing import TYPE_CHECKING

from pyexplorer import Claim
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.cli.result import STATUS_STYLE
from harness.core.verdict import Status
from harness.sim.counterexample import rows_of

if TYPE_CHECKING:
    from harness.cli.explore import Explored

_BOUNDS = {
    "states": "so many states were allowed",
    "memory": "so much memory was allowed",
    "time": "so much time was allowed",
    "violation": "stopped at the first broken claim",
}


def print_exploration(explored: "Explored", run: Path | None, console: Console) -> None:
    """The claims, then the counterexample, then how much was seen."""
    console.print(
        Text.assemble(
            (explored.status.value, STATUS_STYLE[explored.status]),
            f"  {explored.model}: {_scope(explored)}",
        )
    )
    console.print(_claims(explored))
    if explored.shown:
        console.print()
        actions = len(explored.steps) - 1
        console.print(f"{explored.shown} is broken after {actions} actions:", style="bold")
        console.print(_table(explored))
        console.print(f"as a history: harness check {run}", soft_wrap=True, highlight=False)
    console.print()
    console.print(totals(explored), soft_wrap=True, highlight=False)


def totals(explored: "Explored") -> str:
    """One line: how much was seen, and whether that is all there is."""
    seen = f"{explored.states:,} states, depth {explored.depth}"
    what = "every state was reached: " if explored.ended == "whole" else "not finished: "
    rest = (
        ""
        if explored.ended == "whole"
        else f", {explored.frontier:,} of them not looked at ({_BOUNDS[explored.ended]})"
    )
    return (
        f"{what}{seen}{rest}; {explored.transitions:,} steps, {explored.seconds:.2f} s, "
        f"{explored.states_per_s:,.0f} states a second, {explored.memory_mb:,.0f} MB"
        + (", one state for all that differ by who is who" if explored.symmetry else "")
    )


def _scope(explored: "Explored") -> str:
    said = []
    for name, value in explored.scope.items():
        if value is None or value is False or value == ():
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            said.append(f"quorum {value}" if name == "quorum" else f"{value} {name}")
        elif value is True:
            said.append(name.replace("_", " "))
        else:
            text = " ".join(value) if isinstance(value, tuple) else value
            said.append(f"{name} {text}")
    return ", ".join(said)


def _claims(explored: "Explored") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("claim", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("of states", justify="right", no_wrap=True)
    table.add_column("what it says")
    for claim in explored.claims:
        verdict, style = _verdict(claim, explored.ended)
        of = f"{claim.applied:,}" + (" steps" if claim.name == "comes-to-rest" else "")
        table.add_row(claim.name, Text(verdict, style), of, claim.text)
    return table


def _verdict(claim: Claim, ended: str) -> tuple[str, str]:
    if claim.broken_after is not None:
        return f"broken after {claim.broken_after}", STATUS_STYLE[Status.INVALID]
    if not claim.applied:
        return "says nothing here", STATUS_STYLE[Status.UNKNOWN]
    if ended != "whole":
        return "not broken so far", STATUS_STYLE[Status.UNKNOWN]
    return "holds", STATUS_STYLE[Status.VALID]


def _table(explored: "Explored") -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for column in ("", "who", "action", *(name for name, _ in explored.steps[0].state)):
        table.add_column(column, no_wrap=column in ("", "who", "action"))
    for row in rows_of(explored.steps):
        table.add_row(*row)
    return table
