"""Asks an embedded ClickHouse for names. A program: argument the engine's directory, standard input
the questions that tests/engine_contract.py collects, standard output what is missing, as JSON."""

import json
import sys
from collections.abc import Iterator
from typing import Any

SERVER_ONLY = ("system.zookeeper",)
"""Tables that an engine without a coordination service lacks: their columns cannot be checked."""


class Engine:
    """One session; errors are text."""

    def __init__(self, directory: str) -> None:
        sys.path.insert(0, directory)
        from chdb.session import Session  # type: ignore[import-not-found]

        self._session = Session()

    def error(self, sql: str) -> str:
        """Run a statement; return its error's first line, "" where there is none."""
        try:
            self._session.query(sql, "Null")
        except Exception as error:  # the library has no class of its own
            return str(error).strip().splitlines()[0][:300]
        return ""

    def names(self, table: str, where: str = "1") -> set[str]:
        """Return the names that a system table lists."""
        answer = self._session.query(f"SELECT name FROM system.{table} WHERE {where}", "TSV")
        return set(str(answer).split())

    def value(self, expression: str) -> str:
        """Return one value as text."""
        return str(self._session.query(f"SELECT {expression}", "TSVRaw")).strip()


def missing(engine: Engine, wanted: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each item that the engine does not know."""
    for table in ("settings", "merge_tree_settings", "server_settings"):
        known = engine.names(table)
        yield from (f"{table}: {name}" for name in sorted(set(wanted[table]) - known))
        obsolete = engine.names(table, "is_obsolete")
        yield from (f"{table}: {x} has no effect" for x in sorted(obsolete & set(wanted[table])))
    for name, value in wanted["defaults"].items():
        found = engine.value(f"value FROM system.merge_tree_settings WHERE name = '{name}'")
        if found != str(value):
            yield f"default of {name}: {value}, here {found}"
    for code, name in wanted["errors"]:
        found = engine.value(f"errorCodeToName({code})")
        if found != name:
            yield f"error {code}: {name}, here {found or 'unknown'}"
    points = engine.names("fail_points")
    for variant, any_of in wanted["failpoints"].items():
        unknown = sorted(set(any_of) - points)
        if unknown:
            yield f"failpoints of {variant}: {', '.join(unknown)}"
    for where, sql in wanted["created"]:
        error = engine.error(sql)
        if error:
            yield f"{where}: {sql}: {error}"
    for where, sql in wanted["statements"]:
        quoted = sql.replace("\\", "\\\\").replace("'", "\\'")
        error = engine.error(f"SELECT formatQuery('{quoted}')")
        resolves = sql.startswith("SELECT") and "FROM system." in sql
        if not error and resolves and not any(table in sql for table in SERVER_ONLY):
            error = engine.error(f"DESCRIBE ({sql})")
        if error:
            yield f"{where}: {sql}: {error}"


if __name__ == "__main__":
    questions = json.load(sys.stdin)
    asked = Engine(sys.argv[1])
    version = asked.value("version()")
    print(json.dumps({"version": version, "missing": list(missing(asked, questions))}))
