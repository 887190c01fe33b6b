"""The statements that a simulated server understands; everything else is error 62.

It knows what the harness' own workloads and clusters say, and not more.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import crc32

from harness.sim.errors import ServerError
from harness.sim.table.parts import Row
from harness.sim.table.schema import Schema
from harness.sim.table.settings import TableSettings


class Statement(NamedTuple):
    """A statement's kind, and its words by name."""

    kind: str
    words: Mapping[str, str | None]


_FLAGS: Final = re.IGNORECASE | re.DOTALL
_FORMS: Final = tuple(
    (kind, re.compile(form + r"\s*;?\s*$", _FLAGS))
    for kind, form in (
        ("create database", r"CREATE DATABASE (IF NOT EXISTS )?\w+"),
        ("drop database", r"DROP DATABASE (IF EXISTS )?(?P<database>\w+)"),
        ("drop table", r"DROP TABLE (IF EXISTS )?(?P<table>[\w.]+)"),
        (
            "create table",
            r"CREATE TABLE (IF NOT EXISTS )?(?P<table>[\w.]+) \((?P<columns>.+?)\) ENGINE = "
            r"ReplicatedMergeTree\('(?P<path>[^']+)', '(?P<replica>[^']+)'\) "
            r"PARTITION BY (?P<partition>\w+(\(\))?) ORDER BY (?P<order>\(?[\w, ]+?\)?)"
            r"( SETTINGS (?P<settings>.+))?",
        ),
        (
            "optimize",
            r"OPTIMIZE TABLE (?P<table>[\w.]+)( PARTITION (?P<partition>\w+))?(?P<final> FINAL)?",
        ),
        ("mutate", r"ALTER TABLE (?P<table>[\w.]+) (?P<change>(UPDATE|DELETE) .+)"),
        ("system", r"SYSTEM (?P<verb>STOP|START) FETCHES( (?P<table>[\w.]+))?"),
        (
            "hashes",
            r"SELECT _part, count\(\), sum\(cityHash64\([\w, ]+\)\) FROM (?P<table>[\w.]+) "
            r"GROUP BY _part",
        ),
        (
            "mutations undone",
            r"SELECT mutation_id, max\(parts_to_do\) FROM system\.mutations WHERE NOT is_done AND "
            r"database = '(?P<database>\w+)' GROUP BY mutation_id",
        ),
        (
            "mutations to do",
            r"SELECT uniq\(mutation_id\) FROM \(SELECT .+? FROM system\.mutations ARRAY JOIN .+? "
            r"WHERE database = '(?P<database>\w+)'\) ALL INNER JOIN .+ WHERE data_version < n",
        ),
        (
            "insert",
            r"INSERT INTO (?P<table>[\w.]+) SELECT (?P<what>.+) FROM numbers\((?P<count>\d+)\)",
        ),
        (
            "groups",
            r"SELECT (?P<what>\w+), count\(\), any\((?P<any>\w+)\) FROM (?P<table>[\w.]+) "
            r"WHERE (?P<where>.+) GROUP BY (?P=what) ORDER BY (?P=what)",
        ),
        (
            "select",
            r"SELECT (?P<what>.+?) FROM (?P<table>[\w.]+)( WHERE (?P<where>.+?))?"
            r"( ORDER BY (?P<order>[\w, ]+))?( LIMIT \d+)?",
        ),
        ("select", r"SELECT (?P<what>\d+)(?P<table>)(?P<where>)"),
    )
)


@lru_cache(maxsize=1024)
def parsed(text: str) -> Statement:
    """Raises ServerError 62."""
    flat = " ".join(text.split())
    for kind, form in _FORMS:
        found = form.match(flat)
        if found is not None:
            return Statement(kind, found.groupdict())
    raise ServerError(62, f"Syntax error: the simulated server does not know: {flat[:200]}")


def schema_of(words: Mapping[str, str | None]) -> Schema:
    """Of a CREATE TABLE."""
    columns = re.sub(r"\([^()]*\)", "", words["columns"] or "")
    names = tuple(column.split()[0] for column in columns.split(","))
    partition = words["partition"] or ""
    order = tuple(name.strip() for name in (words["order"] or "").strip("()").split(","))
    return Schema(names, None if partition == "tuple()" else partition, order)


def rows_of(words: Mapping[str, str | None]) -> list[Row]:
    """Of an INSERT … SELECT … FROM numbers(…). Raises ServerError 62."""
    columns = [_column(text) for text in re.split(r",\s*(?![^()]*\))", words["what"] or "")]
    return [
        tuple(column(number) for column in columns) for number in range(int(words["count"] or 0))
    ]


def _column(text: str) -> Callable[[int], object]:
    """Of the number of a row: a constant, or a hash."""
    if re.fullmatch(r"-?\d+", text):
        return lambda _: int(text)
    if found := re.fullmatch(r"hex\(cityHash64\(number, (\d+)\)\)", text):
        return lambda number: f"{crc32(f'{number} {found[1]}'.encode()):016X}"
    raise ServerError(62, f"Syntax error: {text!r} is not simulated")


def settings_of(words: Mapping[str, str | None], defaults: TableSettings) -> TableSettings:
    """Of a CREATE TABLE."""
    pairs = (pair.split("=") for pair in (words["settings"] or "").split(",") if "=" in pair)
    given = {name.strip(): value.strip() for name, value in pairs}
    return defaults.with_({name: int(n) for name, n in given.items() if n.isdigit()})
