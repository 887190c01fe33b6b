"""What a query may not do: call code and open files other than those of the views.

The functions are taken away from the session, whose setting `spark.sql.runSQLOnFiles` takes away
paths as tables, so that no syntax leads to either. To search the parsed query would not do: in
`WINDOW w AS (PARTITION BY (SELECT max(value) FROM text.`/etc/passwd`))` the inner
query is in no child, expression or subquery of a node, and `IDENTIFIER('refl' || 'ect')` is the
name of a function.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from harness.core.errors import UsageError

_REFUSED: Final = re.compile(r"reflect|java_method|xml|xpath")
"""Built-in functions that call a method of any class, and those that read XML: its external
entities and schemas are files and URLs."""


def remove_functions(session: Any) -> frozenset[str]:
    """Take the functions that may call code or open files away from a session, and return their
    names."""
    registry = session._jsparkSession.sessionState().functionRegistry()
    functions = _scala(registry.listFunction())
    refused = [one for one in functions if _REFUSED.search(one.funcName())]
    for function in refused:
        registry.dropFunction(function)
    return frozenset(function.funcName() for function in refused)


def require_no_script(frame: Any) -> None:
    """Raise UsageError if an analysed query runs a program: SELECT TRANSFORM (…) USING 'program'.
    In the analysed plan every part of the query is a node below its root."""
    if any(
        node.getClass().getSimpleName() == "ScriptTransformation"
        for node in _nodes(frame._jdf.queryExecution().analyzed())
    ):
        raise UsageError(
            "SQL: TRANSFORM is refused, because it runs a program; expected a query of the views "
            "with the functions of Spark SQL"
        )


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield the nodes of an analysed plan and of its subqueries."""
    open_ = [plan]
    while open_:
        node = open_.pop()
        yield node
        open_ += [*_scala(node.children()), *_scala(node.subqueries())]


def _scala(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]
