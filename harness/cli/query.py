"""`harness query`: Spark SQL over the verdicts and the operations of a store."""

import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import date
from math import isfinite
from typing import Any, Final

import msgspec
import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkers.phrasing import number as counted
from harness.cli.parameter_types import WORD, StoreDirectory, json_option, number
from harness.cli.terminal import Terminal, print_json
from harness.core.errors import UsageError
from harness.core.printable import printable
from harness.core.ranges import unknown_name
from harness.fleet.engine import spark_fleet
from harness.fleet.found_runs import COLUMNS, Found, runs_at
from harness.fleet.location import Location
from harness.fleet.stored_runs import verdicts_of
from harness.fleet.views import QUERIES, SelectedRows, ShippedQuery, StoreTables
from harness.report.narrow_table import TableColumn, least_width, narrow_table
from harness.store.parquet import SCHEMA

ROWS_SHOWN: Final = 50
ROWS_OF_JSON: Final = 10_000
LINES_A_ROW: Final = 2
"""Number of lines of the terminal up to which the wrapped row of a table can be read."""


@click.command("query")
@click.argument("store", type=StoreDirectory(), metavar="STORE")
@click.argument("sql", required=False, type=WORD, metavar="[NAME | SQL]")
@click.option(
    "--limit",
    type=number("rows_shown"),
    show_default=f"{ROWS_SHOWN}, with --json {ROWS_OF_JSON:,}",
    help="Print at most this many rows of a query, and say how many more there are.",
)
@click.option(
    "--spark",
    type=WORD,
    metavar="MASTER",
    show_default="local[*]",
    help="Ask the Spark of this master, such as local[4], spark://HOST:PORT, yarn, k8s://URL.",
)
@click.option(
    "--time-limit",
    type=number("time_limit"),
    default=600.0,
    help="Cancel a query after this many seconds.",
    show_default=True,
)
@json_option
def query(
    store: str,
    sql: str | None,
    limit: int | None,
    spark: str | None,
    time_limit: float,
    as_json: bool,
) -> int:
    """Ask a store by Spark SQL: how many runs of a cell are INVALID, which anomalies, what took
    long.

    STORE is a directory, a folder of it (WORKLOAD+NEMESIS) or a URI such as s3://BUCKET/PREFIX.
    Without SQL it answers the queries `cells`, `anomalies` and `checkers`; a NAME is one of them.
    SQL is one SELECT, which may use the views

    - `runs`: a row for each run, with the verdict of the last check;

    - `rows`: a row for each run, checker and object of these verdicts;

    - `ops`: every operation of every history.

    It may use the functions of Spark SQL, except those that call code or open files.

    Each view has the columns `run`, `cell`, `workload`, `nemesis`, `seed` and `date`. A condition
    on one of them on `ops` reads only the files of these runs. An error lists all columns.
    """
    asked = _asked(sql)
    place = Location.of(store)
    found = runs_at(place)
    tables = _tables(found, whole=found.root == place)
    if all(one.title for one in asked):  # what Spark's start would only delay
        tables.require_verdicts()
    console = Terminal(stderr=as_json)
    rows_max = limit or (ROWS_OF_JSON if as_json else ROWS_SHOWN)
    with console.status("starting Spark") if console.is_terminal else nullcontext():
        answers, notes = _ask(tables, found, asked, spark, rows_max, time_limit)
    if as_json:
        results = list(map(_named, asked, answers))
        print_json({"store": found.root.shown, "results": results, "notes": notes})
        return 0
    for one, answer in zip(asked, answers, strict=True):
        _show(console, one, answer)
    for note in notes:
        console.print(f"! {note}", style="yellow", highlight=False)
    return 0


def _asked(sql: str | None) -> Sequence[ShippedQuery]:
    """Return the queries to answer. One of the user has no title. Raises UsageError."""
    if sql is None:
        return tuple(QUERIES.values())
    if re.fullmatch(r"[\w-]+", sql):  # no query is a single word
        if sql not in QUERIES:
            raise UsageError(f"query {unknown_name(sql, QUERIES)}, or a SELECT")
        return (QUERIES[sql],)
    return (ShippedQuery("", sql),)


def _tables(found: Found, *, whole: bool) -> StoreTables:
    """Return the tables of these runs; of a whole store, also the verdicts on runs whose files
    stayed on the machine that packed them."""
    verdicts = verdicts_of(found.root, None)
    known = verdicts.judged()
    return StoreTables(
        store=found.root,
        verdicts=verdicts,
        judged=known if whole else {run: known[run] for run in found.runs if run in known},
        histories=[
            found.root.below(*run.split("/"), COLUMNS)
            for run in found.runs
            if found.has_columns(run)
        ],
        history_schema=SCHEMA,
    )


def _ask(
    tables: StoreTables,
    found: Found,
    asked: Sequence[ShippedQuery],
    master: str | None,
    rows_max: int,
    limit_s: float,
) -> tuple[list[SelectedRows], list[str]]:
    """Return the answers, and what they leave out."""
    with spark_fleet(master, found.root) as fleet:
        # Here it is known that pyspark is installed.
        from harness.fleet.store_sql import StoreSql

        spark = StoreSql(fleet, tables)
        answers = [spark.select(one.sql, rows_max, limit_s) for one in asked]
    begun = [run for run in found.runs if found.has_history(run)]  # a failed start has no verdict
    of = f"of {counted(len(begun), 'run')}; harness check {found.root.shown}"
    unjudged = sum(run not in tables.judged for run in begun)
    unwritten = len(begun) - len(tables.histories)
    notes = []
    if unjudged and {"runs", "rows"} & set(spark.views):
        notes.append(f"no verdict yet: {unjudged:,} {of} judges them")
    if unwritten and "ops" in spark.views:
        notes.append(f"no history.parquet yet: {unwritten:,} {of} makes it")
    return answers, notes


class NamedRows(msgspec.Struct, frozen=True):
    """Answer to a query, as --json prints it."""

    title: str
    sql: str
    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    more: int


def _named(asked: ShippedQuery, answer: SelectedRows) -> NamedRows:
    """Return an answer with its rows as objects. Raises UsageError for two columns of one name."""
    twice = sorted(name for name in {*answer.columns} if answer.columns.count(name) > 1)
    if twice:
        raise UsageError(
            f"SQL: two columns are named {twice[0]!r}; expected a name for each, such as "
            f"{twice[0]} AS {twice[0]}_2, because a JSON object has each name once"
        )
    rows = [dict(zip(answer.columns, map(_json_value, row), strict=True)) for row in answer.rows]
    return NamedRows(asked.title, asked.sql, answer.columns, rows, answer.more)


def _json_value(value: Any) -> Any:
    """Return a value of SQL as JSON has it: dates, decimals and what is no finite number as text,
    bytes in hexadecimal, a map as pairs."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _json_value(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(one) for one in value]
    return str(value)


def _show(console: Console, asked: ShippedQuery, answer: SelectedRows) -> None:
    if asked.title:
        console.print(asked.title, style="bold")
    columns = [
        TableColumn(name, [*map(_shown, values)], right=_are_numbers(values))
        for name, values in zip(answer.columns, zip(*answer.rows, strict=True), strict=False)
    ]
    is_readable = (
        least_width(columns) <= console.width
        and sum(column.most for column in columns) <= LINES_A_ROW * console.width
    )
    if not answer.rows:
        console.print(f"no rows ({', '.join(answer.columns)})", style="dim")
    elif is_readable:
        console.print(narrow_table(columns, console.width))
    else:
        _show_records(console, answer)
    if answer.more:
        console.print(f"and {counted(answer.more, 'more row')}; --limit shows more", style="dim")
    if asked.title:
        console.print()


def _are_numbers(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, int | float) for value in known)


def _show_records(console: Console, answer: SelectedRows) -> None:
    """Print each row as a block with a line for each column, because its columns would be too
    narrow in a table."""
    for at, row in enumerate(answer.rows, 1):
        console.print(f"row {at}", style="dim")
        block = Table.grid(padding=(0, 2, 0, 0))
        block.add_column(style="dim")
        block.add_column(overflow="fold")
        for name, value in zip(answer.columns, row, strict=True):
            block.add_row(name, _shown(value))
        console.print(block)


def _shown(value: Any) -> Text:
    if value is None:
        return Text("null", "dim")
    found = _json_value(value)
    shown = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return Text(printable(shown))
