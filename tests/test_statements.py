"""The table of statements, what the workload draws from it, and its page in the manual."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import convert

from checkers.ladder import Level
from checkers.statements.calls import Effect, StatementCall
from harness.core.errors import UsageError
from harness.core.op import Call
from harness.core.protocols import Context, Ready, Worker
from harness.core.seed import Seed
from harness.core.topology import Topology
from workloads.statement_table import STATEMENTS
from workloads.statements import PARTITIONS, StatementsOptions, statements
from workloads.table import TableWorkload

FREE = Context(0, tuple(Worker(n, n, f"ch{n}") for n in (1, 2, 3)), ())


def calls_of(options: StatementsOptions, count: int, seed: int = 1) -> Iterator[Call]:
    """Yield the first calls of the workload, as if each was answered at once."""
    workload = statements(options, Seed(seed), Level.EVENTUAL, False)
    assert isinstance(workload, TableWorkload)
    generator = workload.calls
    for _ in range(count):
        step, generator = generator.op(FREE)
        assert isinstance(step, Ready)
        yield step.call


def test_the_manual_lists_every_statement() -> None:
    text = (Path(__file__).parent.parent / "docs" / "statements.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
    assert rows == [(name, one.text, one.promise) for name, one in STATEMENTS.items()]


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_says_what_it_takes(name: str) -> None:
    STATEMENTS[name].validate(name)


def test_a_seed_decides_every_call() -> None:
    options = StatementsOptions()
    assert [*calls_of(options, 300)] == [*calls_of(options, 300)]
    assert [*calls_of(options, 300)] != [*calls_of(options, 300, seed=2)]


def test_rows_and_updates_have_numbers_of_their_own() -> None:
    calls = [convert(call.value, StatementCall) for call in calls_of(StatementsOptions(), 2_000)]
    rows = [call.row for call in calls if call.effect is Effect.INSERT]
    updates = [call.update for call in calls if call.effect is Effect.APPEND]
    assert len(rows) > 1_000
    assert len(rows) == len({*rows})
    assert len(updates) > 50
    assert len(updates) == len({*updates})


def test_few_statements_touch_a_partition_and_all_of_them_touch_some() -> None:
    calls = [*calls_of(StatementsOptions(), 1_000)]
    assert {call.f for call in calls} == {n for n, kind in STATEMENTS.items() if not kind.by_name}
    first_seen = list(dict.fromkeys(call.key for call in calls))
    assert len(first_seen) > 5 * PARTITIONS
    late = calls[-100:]
    assert not {call.key for call in late} & {*first_seen[:PARTITIONS]}


def test_those_that_take_rows_are_preceded_by_a_sync_if_it_is_wanted() -> None:
    for call in calls_of(StatementsOptions(sync=True), 500):
        value = convert(call.value, StatementCall)
        assert value.synced == STATEMENTS[call.f].takes_rows


def test_inserts_are_always_among_the_chosen() -> None:
    names = {call.f for call in calls_of(StatementsOptions(statements="drop, move"), 200)}
    assert names == {"insert-row", "drop", "move"}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (StatementsOptions(statements="move,dorp"), "statements 'dorp' is unknown; did you mean"),
        (StatementsOptions(sees="all"), "sees 'all' is unknown; expected one of ack"),
        (StatementsOptions(ops_per_s=0), "ops-per-s"),
    ],
)
def test_a_wrong_option_is_refused(options: StatementsOptions, error: str) -> None:
    with pytest.raises(UsageError) as raised:
        options.validate(Topology.of())
    assert error in str(raised.value)
