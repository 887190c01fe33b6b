"""Links out of a report: the other pages, the runs before and after it, its night, its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.store.store import RunDirectory
from harness.web.nights import NightView
from harness.web.summary import Summary


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Places to which a report leads."""

    run: Summary
    previous: Summary | None
    """The run of the same cell before it."""
    next: Summary | None
    alike: int
    """Number of runs of its cell."""
    night: NightView | None
    """The night that made it."""


def neighbours_of(
    name: str, runs: Sequence[Summary], nights: Sequence[NightView]
) -> Neighbours | None:
    """Return the places to which the report of a run leads; None for an unknown run."""
    run = next((one for one in runs if one.name == name), None)
    if run is None:
        return None
    cell = sorted(
        (one for one in runs if one.cell == run.cell), key=lambda one: (one.started, one.name)
    )
    at = cell.index(run)
    return Neighbours(
        run=run,
        previous=cell[at - 1] if at else None,
        next=cell[at + 1] if at + 1 < len(cell) else None,
        alike=len(cell),
        night=night_by_run(nights).get(name),
    )


def night_by_run(nights: Sequence[NightView]) -> Mapping[str, NightView]:
    """Return the night of each run by the run's name."""
    return {slot.path: view for view in nights for slot in view.night.runs if slot.path}


def linked(page: bytes, navigation: str, url: str) -> bytes:
    """Return a stored report with links out: the navigation at its top, and its links to logs below
    the URL of the run; in the file they are relative to the run's directory."""
    with_logs = page.replace(b'href="logs/', f'href="{url}/logs/'.encode())
    return with_logs.replace(b"<body>", f"<body>\n{navigation}".encode(errors="replace"), 1)


def own_file(run: RunDirectory, *parts: str) -> Path | None:
    """Return the path of a file of a run; None if it is no regular file within the run."""
    path = run.path.joinpath(*parts)
    inside = path.resolve() == run.path.resolve().joinpath(*parts)
    return path if inside and path.is_file() else None
