"""Files of a run as pages need them: its facts, its report, and all of them as an archive."""

import tarfile
from dataclasses import replace
from pathlib import Path
from tempfile import mkstemp

from harness.core.errors import HistoryError
from harness.core.file_lock import MEANING
from harness.core.history import History
from harness.report.facts import Facts, facts_of
from harness.store.store import RunDirectory


def facts_in(directory: RunDirectory, history: History | None = None) -> Facts:
    """Return the facts in a run's files, also of a live or crashed run. `history`: the whole
    journal, if it was read already."""
    alive = directory.alive
    troubles: list[str] = []
    if history is None:
        try:
            contents = directory.contents()
            history = contents.history
            if contents.damage and not alive:
                troubles.append(contents.damage)
            if not alive:
                troubles += filter(None, [directory.outdated()])
        except HistoryError as error:
            troubles.append(str(error))
    facts = facts_of(directory.path, history, troubles, alive=alive)
    if facts.info.state == "running" and directory.may_be_alive is None:
        lacking = f"whether the run goes on is not known: its file system {MEANING}"
        return replace(facts, troubles=(*facts.troubles, lacking))
    return facts


def draw(directory: RunDirectory, history: History | None = None) -> str | None:
    """Write report.html. Returns why that failed, and never raises, because a failed report must
    not affect the run and its verdict. `history` is as in `facts_in`."""
    try:
        from harness.report.page import write  # its templates are slow to load

        write(facts_in(directory, history), directory.report)
    except Exception as error:
        return f"{directory.report.name} was not drawn: {type(error).__name__}: {error}"
    return None


def archive(directory: Path) -> Path:
    """Return the path of a `.tar.gz` in the system's temporary directory; the caller removes it.

    Regular files only: a link could lead out of the store.
    """
    descriptor, path = mkstemp(suffix=".tar.gz")
    with open(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for file in sorted(directory.rglob("*")):
            if file.is_file() and not file.is_symlink() and _within(directory, file):
                tar.add(file, f"{directory.name}/{file.relative_to(directory)}", recursive=False)
    return Path(path)


def _within(directory: Path, file: Path) -> bool:
    """Return whether the path is inside, and no directory on the way is a link."""
    return file.resolve().is_relative_to(directory.resolve())
