"""A value that no op may have is refused when the call returns, and costs the run one call."""

import json
import sys
from enum import IntEnum
from pathlib import Path

import pytest

from harness.cli.main import app
from harness.clients.table_client import Roaming, TableClient
from harness.core.errors import HarnessError
from harness.core.lines import OpValueError, check_value, decoded, encoded
from harness.core.op import Done, Kind, Op, Written
from harness.core.plugins import NAMED
from harness.run.call_ends import HarnessIssues, check_call, checked_end, checked_state

CALL = Op(index=0, process=0, kind=Kind.INVOKE, f="read", time_ns=0, node="ch1")
DEEP: dict[str, object] = {}
for _ in range(200):
    DEEP = {"in": DEEP}


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "value",
    [None, 7, 2**70, Number.ONE, (), (1, 2**70), [3, 4], {}, {"a": [1, "x", None, 1.5]},
     {"facts": Written("[1]")}, {"text": "[" * 200}, {"many": [[]] * 200}],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_what_an_op_may_have_can_be_written_and_read_again(value: object) -> None:
    check_value(value, str)
    op = Op(index=0, process=0, kind=Kind.OK, f="read", time_ns=0, value=value)  # type: ignore[arg-type]
    decoded(encoded(op))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([[1, 2], [3]], "[[1, 2], [3]] is a list of list; expected None, a whole number, a list"),
        ((1, "x"), "(1, 'x') is a tuple of str;"),
        ((True,), "(True,) is a tuple of bool;"),
        (True, "True is of type bool;"),
        ("text", "'text' is of type str;"),
        (1.5, "1.5 is of type float;"),
        ({1, 2}, "{1, 2} is of type set;"),
        (["x" * 5_000], f"['{'x' * 38}… is a list of str;"),
        ({"at": {1}}, "{'at': {1}} is not JSON (Object of type set is not JSON serializable);"),
        ({"at": "\ud800"}, "is not JSON ('utf-8' codec can't encode character"),
        (DEEP, "… is nested more than "),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_no_op_may_have_is_refused_with_value_and_expectation(value: object, why: str) -> None:
    with pytest.raises(OpValueError) as refused:
        checked_end(Done(Kind.OK, value), CALL)  # type: ignore[arg-type]
    assert str(refused.value).startswith("the value that the nemesis for read returned: ")
    assert why in str(refused.value)
    issues = HarnessIssues()
    state = checked_state(Done(Kind.OK, value), "quiesce", issues)  # type: ignore[arg-type]
    assert (state.kind, issues.bugs) == (Kind.INFO, 1)
    call = Op(index=0, process=0, kind=Kind.INVOKE, f="add", time_ns=0, value=value)  # type: ignore[arg-type]
    with pytest.raises(HarnessError, match="the value of the call add that the generator made: "):
        check_call(call)


def odd(connection, op):
    return "odd"


class Own:
    def invoke(self, op): ...
    def close(self): ...


def test_the_function_that_returned_it_is_named_with_its_place() -> None:
    here, first = Path(__file__).resolve(), odd.__code__.co_firstlineno
    table = TableClient(None, writes={}, reads={"read": odd})  # type: ignore[arg-type]
    roaming = Roaming(lambda node: table)
    roaming._clients["ch1"] = table
    for client in (table, roaming):
        with pytest.raises(OpValueError) as refused:
            checked_end(Done(Kind.OK, "odd"), CALL, client)  # type: ignore[arg-type]
        assert f"that odd for read ({here}:{first}) returned: 'odd'" in str(refused.value)
    with pytest.raises(OpValueError, match=r"that Own\.invoke for read \(.*\.py:\d+\) returned"):
        checked_end(Done(Kind.OK, "odd"), CALL, Own())  # type: ignore[arg-type]


WORKLOAD = """
from checkers.stats import Stats
from harness.clients.replicated_table import TableSchema
from harness.clients.table_session import TableSession
from harness.core.op import Call
from harness.generators.calls import numbered
from workloads.options import PacedOptions
from workloads.table import TableWorkload

SCHEMA = TableSchema("n Int64", order_by="n", partition_by="tuple()", settings={})


def workload(options: PacedOptions, seed, promise, faults_expected):
    def create(cluster, token):
        table = TableSession.table(cluster, token, SCHEMA)

        def insert(server, op):
            server.insert(table.name, [(op.value,)])
            return op.value

        def counts(server, op):
            return [[row[0]] for row in server.rows(f"SELECT count() FROM {table.name}")]

        return TableSession(
            cluster, table, writes={"insert": insert}, reads={"final-read": counts}, timeout_s=5
        )

    return TableWorkload(
        name="odd", seed=seed, promise=promise, create=create, per_s=20.0,
        calls=numbered(lambda n: Call(f="insert", value=n, key=0)),
        judges=(Stats(min_ok={"insert": 10}, faults_expected=False),),
    )
"""


def test_a_run_keeps_its_history_and_says_which_function_was_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_counts.py").write_text(WORKLOAD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(NAMED, "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    words = ["--cluster", "sim", "--time-limit", "2", "--seed", "1", "--promise", "eventual"]
    app(["run", "--workload", "own_counts:workload", *words, "--json"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert f"counts for final-read ({tmp_path / 'own_counts.py'}:" in str(found)
    assert "is a list of list; expected None, a whole number, a list of whole numbers" in str(found)
    journal = Path("store/latest").resolve() / "history.jsonl"
    ops = [json.loads(line) for line in journal.read_text().splitlines()]
    assert {op["kind"] for op in ops if op["f"] == "insert"} == {"invoke", "ok"}
    assert {op["kind"] for op in ops if op["f"] == "final-read"} == {"invoke", "info"}
    del sys.modules["own_counts"]
