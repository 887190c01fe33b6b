"""From a stored run to its report."""

from harness.core.errors import HistoryError
from harness.core.history import History
from harness.report.facts import Facts, facts_of
from harness.report.page import write
from harness.run.store import RunDirectory


def facts_in(directory: RunDirectory) -> Facts:
    """All that the run's files say, also those of a run that goes on or has died."""
    alive = directory.alive
    history: History | None = None
    troubles: list[str] = []
    try:
        contents = directory.contents()
        history = contents.history
        if contents.truncated and not alive:
            troubles.append(contents.truncated)
    except HistoryError as error:
        troubles.append(str(error))
    return facts_of(directory.path, history, troubles, alive=alive)


def draw(directory: RunDirectory) -> str | None:
    """Writes report.html. Returns why it could not, and never raises: whatever is wrong with a
    report, the run and its verdict stay as they are."""
    try:
        write(facts_in(directory), directory.report)
    except Exception as error:
        return f"{directory.report.name} was not drawn: {type(error).__name__}: {error}"
    return None
