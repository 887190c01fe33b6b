"""`harness report`: print a run's witness as text and draw its page."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import rich_click as click

from checkers.headline import headline
from harness.cli.parameter_types import WORD, json_option, number, open_option, store_option
from harness.cli.result import CommandAnswer, open_page, print_answer
from harness.cli.terminal import Terminal, print_json
from harness.core.errors import HarnessError, UsageError
from harness.core.op import Json
from harness.export.derived_statements import derived_statements
from harness.report.facts import Facts
from harness.report.run_files import draw, facts_in
from harness.report.sql import sql_of_op, sql_of_run
from harness.report.story import sentences
from harness.report.text import STATUS_STYLE, text_report
from harness.store.statement_file import read_statements
from harness.store.store import RunDirectory, Store


@click.command("report")
@click.argument("run", type=WORD, default="latest")
@click.option(
    "--sql",
    is_flag=True,
    help="Print the statements of every call, with CREATE TABLE and settings, instead.",
)
@click.option(
    "--op",
    type=number("op"),
    metavar="N",
    help="Print the statements of the call with op N, and what the servers logged of them, "
    "instead.",
)
@store_option
@open_option
@json_option
def report(run: str, sql: bool, op: int | None, store: str, open_: bool, as_json: bool) -> None:
    """Show a stored run: a directory, a path within the store, or latest.

    Prints the witness as a text timeline and draws report.html again, also for a run that crashed
    or was killed.
    """
    directory = Store(Path(store)).find(run)
    if sql or op is not None:
        if sql and op is not None:
            raise UsageError(f"--op {op}: with --sql every call is shown; expected one of the two")
        for line in _sql(directory, op):
            click.echo(line)
        return
    console = Terminal(highlight=False, stderr=as_json)
    facts = facts_in(directory)
    failed = draw(directory)
    if as_json:
        print_json(ReportAnswer.of(facts, None if failed else directory.report))
    else:
        console.print(text_report(facts), crop=False)
    if failed:
        raise HarnessError(failed)
    if open_:
        open_page(console, directory.report)
    if not as_json:
        console.print()
        if facts.judgement is not None:
            print_answer(console, CommandAnswer.of(facts.judgement, directory.report))
        else:
            text = f"{sentences(facts)[0].rstrip('.')}; report: {directory.report}"
            console.print(f"{facts.status}: {text}", style=STATUS_STYLE[facts.status],
                          soft_wrap=True)  # fmt: skip


def _sql(directory: RunDirectory, op: int | None) -> Iterator[str]:
    """Return the lines of the run's statements, or of those of one call."""
    history = directory.history()
    sent = read_statements(directory.path)
    if sent is None:
        sent = derived_statements(directory.info(), history)
    if op is None:
        return sql_of_run(history, sent)
    return sql_of_op(history, sent, op, directory.logs)


class ReportAnswer(msgspec.Struct, frozen=True):
    """What `report --json` prints: what the text says."""

    run: str
    status: str
    headline: str
    sentences: Sequence[str]
    troubles: Sequence[str]
    command: str
    page: Path | None
    judgement: Mapping[str, Json] | msgspec.UnsetType = msgspec.UNSET

    @staticmethod
    def of(facts: Facts, page: Path | None) -> "ReportAnswer":
        """Return the answer of a run with its page, None if none was drawn."""
        judgement = facts.judgement
        return ReportAnswer(
            run=facts.name,
            status=facts.status,
            headline="" if judgement is None else headline(judgement),
            sentences=sentences(facts),
            troubles=facts.troubles,
            command=facts.info.command,
            page=page,
            judgement=msgspec.UNSET if judgement is None else judgement.results(),
        )
