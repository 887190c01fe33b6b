"""Statements on rows, and what replicas show at rest, for histories by hand."""

from itertools import count

from checkers_cases import Event, _call, rest

from checkers.statements.calls import EXPIRED_ROWS, FINAL_ROWS, MERGE_EXPIRED

PROCESS = count()


def call(f: str, effect: str, begin: float, end: float, kind: str = "ok", **more) -> list[Event]:
    """Return a statement on partition 1, by default on t, that goes to u."""
    node, key = more.pop("node", "ch1"), more.pop("key", 1)
    value = {"effect": effect, "table": "t", **more}
    return _call(next(PROCESS), f, begin, end, kind, node, key, value, value, "e" * (kind != "ok"))


def insert(row: int, begin: float, end: float, kind: str = "ok", **more) -> list[Event]:
    return call("insert-row", "insert", begin, end, kind, row=row, **more)


def move(begin: float, end: float, kind: str = "ok", **more) -> list[Event]:
    return call("move", "move", begin, end, kind, to="u", **more)


def again(row: int, begin: float, end: float, **more) -> list[Event]:
    return call("insert-again", "again", begin, end, row=row, **more)


def copy(begin: float, end: float, **more) -> list[Event]:
    return call("attach-from", "copy", begin, end, to="u", **more)


def update(number: int, begin: float, end: float, kind: str = "ok", **more) -> list[Event]:
    return call("update", "append", begin, end, kind, update=number, **more)


def shows(node: str, key: int = 1, **tables: list) -> list[Event]:
    answer = {"tables": {"t": [], "u": [], **tables}}
    return _call(next(PROCESS), FINAL_ROWS, 92, 93, "ok", node, key, None, answer, None)


def both_show(key: int = 1, **tables: list) -> list[Event]:
    return [*shows("ch1", key, **tables), *shows("ch2", key, **tables)]


def left(**tables: list) -> list[Event]:
    """Return a look of ch2 at what merges at rest have left."""
    answer = {"tables": {"t": [], "u": [], **tables}}
    return _call(next(PROCESS), EXPIRED_ROWS, 96, 97, "ok", "ch2", 1, None, answer, None)


def projected(node: str, t: list, by_projection: list) -> list[Event]:
    """Return a look at rest that reads t with its projection, too, and u without one."""
    answer = {"tables": {"t": t, "u": []}, "projections": {"t": by_projection}}
    return _call(next(PROCESS), FINAL_ROWS, 92, 93, "ok", node, 1, None, answer, None)


HERE = [(1, [], 1)]
AT_REST = rest(80, ch1={}, ch2={})
ONE = insert(1, 1, 2)
ONE_MORE = insert(2, 1, 2)
VALUED = insert(1, 1, 2, update=1)
EXPIRED = insert(1, 1, 2, expires=True)
BOTH_ROWS = [(1, [], 1), (2, [], 1)]
MERGED = call(MERGE_EXPIRED, "none", 94, 95)
UNMERGED = call(MERGE_EXPIRED, "none", 94, 95, "info")
DELETE_ONE = call("delete", "delete", 25, 26, one_in=2, rest=1)
KEYED = insert(1, 1, 2, replacing=True)
VIEWED = call("insert-row", "insert", 1, 2, row=1, view="v")
UNVIEWED = insert(1, 1, 2, table="u")
SELECTED = call("insert-select", "select", 10, 20, table="u", to="t", view="v", synced=True)
STAGED = call("insert-row", "insert", 1, 2, row=1, table="s@ch1")
DELETE = call("delete", "delete", 10, 15)
OPTIMIZE = call("optimize", "none", 3, 4)
REPLACE = call("replace", "replace", 10, 20, to="u", node="ch2")
SELECT = call("insert-select", "select", 30, 40, to="u")
SELECT_BACK = call("insert-select", "select", 45, 48, table="u", to="t")
MOVE_BACK = call("move", "move", 10, 20, table="u", to="t")
MOVE_BACK_LATER = call("move", "move", 25, 30, table="u", to="t")
DEDUPLICATE = call("deduplicate", "collapse", 50, 55)
FETCH = call("fetch", "fetch", 30, 40, to="u")
DETACH = call("detach", "detach", 30, 40)
BACK_ON_CH1 = call("attach", "attach", 42, 44)
BACK_ON_CH2 = call("attach", "attach", 46, 48, node="ch2")
ATTACH = call("attach", "attach", 50, 55, table="u")
ATTACH_ON_CH2 = call("attach", "attach", 50, 55, table="u", node="ch2")
CLEAR = call("column-clear", "clear", 20, 25)
KILL = call("kill-mutation", "kill", 20, 25, key=None)
TRUNCATE = call("truncate", "delete", 60, 65, key=None)
