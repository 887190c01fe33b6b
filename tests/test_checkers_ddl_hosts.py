"""The checkers of tasks that list some hosts, of hosts that execute one, and of tables created with
macros, on histories by hand."""

from typing import Any

import pytest
from checkers_cases import Event, _call, history

from checkers.ddl.active import ACTIVE, ActiveTasks
from checkers.ddl.ddl import EFFECTS, TASKS, Ddl
from checkers.ddl.macros import INSERT, ROWS, Macros
from checkers.ddl.missing_local import MAKE, USE, MissingLocal
from harness.core.verdict import Status, Verdict


def judged(verdict: Verdict) -> tuple[Status, list[str]]:
    return verdict.status, [one.kind for one in verdict.anomalies]


def some(finished: dict[str, str], ch1: list[str], ch2: list[str]) -> list[Event]:
    """Return a task for ch1 alone, and the effects on both hosts."""
    said = {"tasks": {"create-some:1": finished}, "hosts": {"create-some:1": ["ch1"]}}
    out = _call(1, TASKS, 10, 11, "ok", "ch1", None, None, said, None)
    for at, (node, names) in enumerate((("ch1", ch1), ("ch2", ch2))):
        value = {"effects": names}
        out += _call(2 + at, EFFECTS, 12, 13, "ok", node, None, None, value, None)
    return out


def create(kind: str) -> list[Event]:
    return _call(0, "create-some", 1, 2, kind, "ch2", None, 1, 1, None)


IT = ["create-some:1"]


@pytest.mark.parametrize(
    ("told", "status", "kinds"),
    [
        (some({"ch1": "0"}, IT, []), Status.VALID, []),
        (some({"ch1": "0", "ch2": "0"}, IT, []), Status.INVALID, ["outsider"]),
        (some({"ch1": "0"}, IT, IT), Status.INVALID, ["outsider"]),
        (some({"ch1": "0"}, [], []), Status.INVALID, ["without-effect"]),
    ],
)
def test_a_host_that_the_task_does_not_list_ignores_it(
    told: list[Event], status: Status, kinds: list[str]
) -> None:
    verdict = Ddl().check(history(create("ok"), told))
    assert judged(verdict) == (status, kinds)
    assert verdict.figures["not_for_all"] == 1


def test_what_goes_on_after_the_clients_timeout_is_counted() -> None:
    finished = some({"ch1": "0"}, IT, [])
    assert Ddl().check(history(create("info"), finished)).figures["background"] == 1
    assert Ddl().check(history(create("ok"), finished)).figures["background"] == 0


def look(finished: list[str], active: list[str]) -> list[Event]:
    told: dict[str, Any] = {"hosts": ["ch1", "ch2"], "finished": finished, "active": active}
    return _call(0, ACTIVE, 1, 2, "ok", "ch1", None, None, {"tasks": {"create:1": told}}, None)


@pytest.mark.parametrize(
    ("calls", "status", "kinds"),
    [
        (look([], ["ch1", "ch2"]), Status.VALID, []),
        (look(["ch1"], ["ch2"]), Status.VALID, []),
        (look(["ch1"], ["ch1"]), Status.INVALID, ["again"]),
        (look([], ["ch3"]), Status.INVALID, ["outsider"]),
        (look(["ch1"], []), Status.UNKNOWN, []),
    ],
)
def test_hosts_that_execute_a_task(calls: list[Event], status: Status, kinds: list[str]) -> None:
    assert judged(ActiveTasks().check(history(calls))) == (status, kinds)


def test_a_run_goes_on_until_a_look_has_found_a_host_at_work() -> None:
    assert ActiveTasks().lacking({"create": 30}) == ("no host was seen executing a task",)
    assert ActiveTasks().lacking({ACTIVE: 1}) == ()


def table(
    node: str, shard: int, rows: list[int], *, path: str = "", replica: str = ""
) -> list[Event]:
    """Return a host's insert of its number into its table, and its list of the table."""
    own = {"path": path or f"/t/{shard}", "replica": replica or node, "rows": rows}
    number = int(node[2:])
    inserted = {"row": number, "tables": ["rep_0"]}
    told = {"shard": shard, "tables": {"rep_0": own}}
    return [
        *_call(number, INSERT, 1, 2, "ok", node, None, None, inserted, None),
        *_call(10 + number, ROWS, 3, 4, "ok", node, None, None, told, None),
    ]


ONE, TWO, THREE = table("ch1", 1, [1, 2]), table("ch2", 1, [1, 2]), table("ch3", 2, [3])


@pytest.mark.parametrize(
    ("calls", "status", "kinds"),
    [
        ((ONE, TWO, THREE), Status.VALID, []),
        ((ONE, table("ch2", 1, [2])), Status.INVALID, ["not-replicated"]),
        ((ONE, TWO, table("ch3", 2, [1, 3])), Status.INVALID, ["strayed"]),
        ((ONE, table("ch2", 1, [1, 2], replica="ch1")), Status.INVALID, ["misnamed"]),
        ((ONE, table("ch2", 1, [1, 2], path="/t/2")), Status.INVALID, ["misplaced"]),
        ((ONE, TWO, table("ch3", 2, [3], path="/t/1")), Status.INVALID, ["misplaced"] * 2),
        ((ONE, THREE), Status.UNKNOWN, []),
        ((), Status.UNKNOWN, []),
    ],
)
def test_tables_created_with_macros(
    calls: tuple[list[Event], ...], status: Status, kinds: list[str]
) -> None:
    assert judged(Macros().check(history(*calls))) == (status, kinds)


def test_a_host_that_does_not_answer_leaves_the_verdict_open() -> None:
    silent = _call(9, ROWS, 3, 4, "fail", "ch4", None, None, None, "209")
    verdict = Macros().check(history(ONE, TWO, silent))
    assert (verdict.status, verdict.summary) == (Status.UNKNOWN, "no tables of ch4")


def use(code: int, at: int, node: str = "ch1", names: str = "none_0") -> list[Event]:
    """Return a host's select from its only Distributed table."""
    text = f"There is no table {names}" if code else ""
    told = {"dist_0": {"local": "none_0", "code": code, "text": text}}
    return _call(10 * at + int(node[2:]), USE, at, at + 1, "ok", node, None, None, told, None)


def make(at: int, node: str = "ch1", kind: str = "ok") -> list[Event]:
    error = None if kind == "ok" else "209"
    return _call(10 * at + int(node[2:]), MAKE, at, at + 1, kind, node, None, None, 1, error)


@pytest.mark.parametrize(
    ("calls", "status", "kinds"),
    [
        ((use(60, 1), make(3), use(0, 5)), Status.VALID, []),
        ((use(0, 1), make(3), use(0, 5)), Status.INVALID, ["answered"]),
        ((use(279, 1), make(3), use(0, 5)), Status.VALID, []),
        ((use(279, 1, names="none_1"), make(3), use(0, 5)), Status.INVALID, ["unclear"]),
        ((use(47, 1), make(3), use(0, 5)), Status.INVALID, ["unclear"]),
        ((use(60, 1), make(3), use(60, 5)), Status.INVALID, ["unusable"]),
        ((use(60, 1), make(3), make(3, "ch2", "info"), use(60, 5)), Status.UNKNOWN, []),
        ((use(60, 1), make(3)), Status.UNKNOWN, []),
        ((use(60, 1), use(60, 1, "ch2"), make(3), make(3, "ch2"), use(0, 5)), Status.UNKNOWN, []),
        ((), Status.UNKNOWN, []),
    ],
)
def test_a_distributed_table_before_its_local_tables(
    calls: tuple[list[Event], ...], status: Status, kinds: list[str]
) -> None:
    assert judged(MissingLocal().check(history(*calls))) == (status, kinds)
