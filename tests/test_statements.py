"""The table of statements, what the workload draws from it, and its page in the manual."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from generators_play import play
from msgspec import UNSET, convert

from checkers.ladder import Level
from checkers.statements.calls import (
    EXPIRED_ROWS,
    FINAL_ROWS,
    MERGE_EXPIRED,
    Effect,
    StatementCall,
)
from harness.clients.several_tables import sum_of
from harness.core.dialect import Mechanism, Version, dialect_of
from harness.core.errors import UsageError
from harness.core.op import Call, Kind
from harness.core.protocols import Context, Ready, Worker
from harness.core.seed import Seed
from harness.core.topology import Topology
from workloads.statement_presets import MutationsOptions
from workloads.statement_table import STATEMENTS
from workloads.statement_tables import ENGINES, EXPIRED, EXPIRES_S, TableShape
from workloads.statements import (
    PARTITIONS,
    SELECTED,
    StatementsOptions,
    statements,
)
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


def test_a_retry_sends_the_block_of_the_call_before() -> None:
    options = StatementsOptions(statements="insert-retried,insert-token")
    calls = [call for call in calls_of(options, 600) if call.f != "insert-row"]
    tries: dict[tuple[str, object], list[Call]] = {}
    for call in calls:
        tries.setdefault((call.f, convert(call.value, StatementCall).row), []).append(call)
    assert len(tries) > 30
    assert {len(same) for same in [*tries.values()][:-2]} == {2}
    assert all(same[0] == same[-1] for same in tries.values())
    tokens = {
        convert(call.value, StatementCall).settings.get("insert_deduplication_token")
        for call in calls
        if call.f == "insert-token"
    }
    assert {f"row {row}" for f, row in tries if f == "insert-token"} == tokens


def test_plain_tables_are_made_where_statements_use_them() -> None:
    options = StatementsOptions(statements="insert-staged,attach-staged")
    assert options.shape.staging
    assert not StatementsOptions(statements="move").shape.staging
    for call in calls_of(options, 300):
        value = convert(call.value, StatementCall)
        assert value.table == ("s@" if call.f.endswith("-staged") else value.table)
        assert value.synced == (call.f == "attach-staged")


def test_statements_on_all_hosts_are_those_of_one_host() -> None:
    kind = STATEMENTS["move-on-cluster"]
    assert kind.sql == "ALTER TABLE {table} ON CLUSTER harness MOVE PARTITION {p:d} TO TABLE {to}"
    assert kind.effect is STATEMENTS["move"].effect
    assert not kind.takes_rows, "the replica that makes it need not be the one that was synced"


def test_calls_are_spread_over_all_tables() -> None:
    calls = calls_of(StatementsOptions(tables=8), 600)
    values = [convert(call.value, StatementCall) for call in calls]
    assert len({value.table for value in values}) == 8
    assert len({value.to for value in values} - {UNSET}) == 8
    assert all(value.table != value.to for value in values)


def test_inserts_are_always_among_the_chosen() -> None:
    names = {call.f for call in calls_of(StatementsOptions(statements="drop, move"), 200)}
    assert names == {"insert-row", "drop", "move"}


def test_one_table_is_enough_for_statements_on_one() -> None:
    options = MutationsOptions()
    options.validate(Topology.of())
    values = [convert(call.value, StatementCall) for call in calls_of(options, 300)]
    assert {value.table for value in values} == {"t"}
    with pytest.raises(UsageError, match="tables 1: expected at least 2"):
        MutationsOptions(statements="update,move").validate(Topology.of())


def test_fewer_inserts_leave_more_of_the_other_statements() -> None:
    def drops(options: StatementsOptions) -> int:
        return sum(call.f == "drop" for call in calls_of(options, 500))

    few, many = (StatementsOptions(statements="drop", inserts=inserts) for inserts in (0.1, 1.0))
    assert drops(few) > 3 * drops(many) > 0


def test_a_statement_has_the_settings_that_its_servers_know() -> None:
    settings = {"mutations_sync": 2, "insert_quorum": 2}
    old, new = (dialect_of(Version(year, month)) for year, month in ((18, 16), (25, 8)))
    assert old.query_settings(settings) == {"insert_quorum": 2}
    assert new.query_settings(settings) == settings


OWN = """
from checkers.statements.calls import Effect
from workloads.statement_kinds import StatementKind

def kind(sql, effect, **more):
    return StatementKind(sql=sql, effect=effect, text="does something", promise="nowhere", **more)

PURGE = kind("ALTER TABLE {table} DELETE IN PARTITION {p} WHERE {where}", Effect.DELETE)
EVERYWHERE = kind("INSERT INTO {to} SELECT * FROM {table}", Effect.SELECT)
TWICE = kind("ALTER TABLE {table} DROP PARTITION {q:d}", Effect.DELETE)
NOWHERE = kind("ALTER TABLE {table} MOVE PARTITION {p:d} TO TABLE u", Effect.MOVE)
OTHER = kind("ALTER TABLE {to} DROP PARTITION {p:d}", Effect.DELETE)
UNNUMBERED = kind("ALTER TABLE {table} UPDATE v = [] WHERE {where}", Effect.APPEND)
OPEN = kind("DROP TABLE {table", Effect.DELETE)
SPELLED = kind("ALTER TABLE {table} DROP PARTITION {p:q}", Effect.DELETE)
WORD = kind("TRUNCATE TABLE {table}", "delete")
UNDRAWN = kind("TRUNCATE TABLE {table}", Effect.DELETE, settings=(("mutations_sync", ()),))
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Yield while there is a module of a user's own statements."""
    (tmp_path / "own_statements.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_statements", None)


@pytest.mark.usefixtures("own")
def test_a_users_own_statement_is_drawn_like_any_other() -> None:
    names = "drop,own_statements:PURGE,own_statements:EVERYWHERE"
    calls = [*calls_of(StatementsOptions(statements=names), 300)]
    assert {call.f for call in calls} == {"insert-row", *names.split(",")}
    for call in calls:
        value = convert(call.value, StatementCall)
        if call.f == "own_statements:PURGE":
            assert (value.effect, value.one_in) == (Effect.DELETE, SELECTED)
            assert call.key is not None
        elif call.f == "own_statements:EVERYWHERE":
            assert (call.key, value.to) == (None, "u" if value.table == "t" else "t")


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("own_statements:PURGED", "has no PURGED; did you mean PURGE"),
        ("own_statement:PURGE", "there is no module own_statement; expected"),
        ("own_statements:kind", "is a function, expected a StatementKind"),
        ("own_statements:TWICE", "placeholder 'q' is unknown; expected one of table, to, staging"),
        ("own_statements:NOWHERE", "its effect is move and its text has no {to}"),
        ("own_statements:OTHER", "its effect is delete and its text has no {table}"),
        ("own_statements:UNNUMBERED", "its effect is append and its text has no {update}"),
        ("own_statements:OPEN", "expected '}' before end of string in 'DROP TABLE {table'"),
        ("own_statements:SPELLED", "Unknown format code 'q' for object of type 'int' in 'ALTER"),
        ("own_statements:WORD", "effect 'delete': expected an Effect"),
        ("own_statements:UNDRAWN", "setting mutations_sync has no values to draw from"),
    ],
)
def test_a_users_own_statement_that_cannot_be_drawn_is_refused(name: str, error: str) -> None:
    with pytest.raises(UsageError) as raised:
        StatementsOptions(statements=f"move,{name}").validate(Topology.of())
    assert error in str(raised.value)


def test_a_run_is_judged_without_the_module_of_its_statements() -> None:
    options = StatementsOptions(statements="gone:AWAY")
    workload = statements(options, Seed(1), Level.EVENTUAL, False)
    names = [checker.name for checker in workload.checkers()]
    assert names == ["stats", "statement-rows"]
    with pytest.raises(UsageError):
        options.validate(Topology.of())


def test_a_row_in_two_partitions_goes_to_one_that_others_use_too() -> None:
    calls = [*calls_of(StatementsOptions(statements="insert-spread"), 600)]
    spread = [call for call in calls if call.f == "insert-spread"]
    seen = {call.key for call in calls}
    also = {convert(call.value, StatementCall).also for call in spread} - {UNSET}
    assert len(also) > PARTITIONS
    assert also <= seen


def test_with_a_ttl_one_in_eight_rows_has_expired_and_one_in_eight_expires_later() -> None:
    options = StatementsOptions(ttl=True, statements="move,insert-retried")
    inserts = [convert(call.value, StatementCall) for call in calls_of(options, 2_000)]
    inserts = [call for call in inserts if isinstance(call.row, int)]
    at_once = [call for call in inserts if call.expires and not call.expires_s]
    later = [call for call in inserts if call.expires_s]
    assert 0.05 < len(at_once) / len(inserts) < 0.2
    assert {int(str(call.row)) % EXPIRED for call in at_once} == {0}
    assert {call.expires_s for call in later} == {*EXPIRES_S}
    assert all(call.expires and call.effect is Effect.INSERT for call in later)
    schema = TableShape(ttl=True).schema(())
    assert (schema.ttl, schema.columns.split(", ")[-1]) == ("e", "e DateTime")
    assert schema.settings["merge_with_ttl_timeout"] == 1


def test_with_a_ttl_partitions_are_merged_after_the_final_reads_and_read_again() -> None:
    options = StatementsOptions(ttl=True, view=True)
    workload = statements(options, Seed(1), Level.EVENTUAL, False)
    called = [op for op in play(workload.final([5], ["ch1", "ch2"])) if op.kind is Kind.INVOKE]
    calls = [(op.f, op.node) for op in called]
    assert {*calls[:2]} == {(FINAL_ROWS, "ch1"), (FINAL_ROWS, "ch2")}
    assert calls[2:5] == [(MERGE_EXPIRED, "ch1")] * 3
    assert {convert(op.value, StatementCall).table for op in called[2:5]} == {"t", "u", "v"}
    assert {*calls[5:]} == {(EXPIRED_ROWS, "ch1"), (EXPIRED_ROWS, "ch2")}
    assert {op.key for op in called} == {5}


def test_an_engine_that_replaces_rows_is_that_of_the_tables_and_of_the_calls() -> None:
    calls = calls_of(StatementsOptions(engine="replacing"), 50)
    rows = [call for call in calls if convert(call.value, StatementCall).row is not UNSET]
    assert all(convert(call.value, StatementCall).replacing for call in rows)
    assert "ReplacingMergeTree" in TableShape(engine="replacing").schema(()).engine


def test_a_projection_shows_the_rows_of_tables_that_merge_none_of_them() -> None:
    options = StatementsOptions(projection=True)
    options.validate(Topology.of())
    assert Mechanism.PROJECTIONS in options.needs
    schema = options.shape.schema(())
    assert schema.projection == "SELECT p, id, v, count() GROUP BY p, id, v"
    assert schema.settings["lightweight_mutation_projection_mode"] == "rebuild"
    assert TableShape().schema(()).projection == ""
    with pytest.raises(UsageError, match="projection with engine summing"):
        StatementsOptions(projection=True, engine="summing").validate(Topology.of())


def test_an_exchange_is_of_two_tables_that_are_known_by_their_paths() -> None:
    options = StatementsOptions(statements="exchange,drop")
    options.validate(Topology.of())
    assert options.shape.exchanged
    assert not StatementsOptions().shape.exchanged
    values = [convert(c.value, StatementCall) for c in calls_of(options, 600) if c.f == "exchange"]
    assert len(values) > 5
    assert {(value.table, value.to) for value in values} == {("t", "u"), ("u", "t")}
    assert not any(value.on_each for value in values)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"tables": 3}, "tables=3"),
        ({"view": True}, "view"),
        ({"reads": True}, "reads"),
        ({"statements": "exchange,drop-part"}, "drop-part"),
    ],
)
def test_an_exchange_is_refused_beside_what_it_makes_ambiguous(more: dict, named: str) -> None:
    with pytest.raises(UsageError, match=f"{named} beside tables that are exchanged: expected"):
        StatementsOptions(**{"statements": "exchange", **more}).validate(Topology.of())


def test_in_a_replicated_database_every_replica_makes_an_exchange() -> None:
    options = StatementsOptions(statements="exchange", replicated=True)
    options.validate(Topology.of())
    assert Mechanism.REPLICATED_DATABASES in options.needs
    assert options.shape.replicated
    calls = [call for call in calls_of(options, 600) if call.f == "exchange"]
    assert all(convert(call.value, StatementCall).on_each for call in calls)
    assert len(calls) > 5


@pytest.mark.parametrize("engine", ["summing", "aggregating"])
def test_an_engine_that_counts_rows_keeps_all_of_them(engine: str) -> None:
    rows = [convert(c.value, StatementCall) for c in calls_of(StatementsOptions(engine=engine), 50)]
    assert not any(call.replacing for call in rows)
    assert ENGINES[engine].columns == "p, id, v, n"
    assert ENGINES[engine].copies == "sum(n)"


def test_the_state_of_a_replica_is_that_of_all_its_tables() -> None:
    states = [{"rows": 3, "queue": 0, "to_check": 1}, {"rows": 4, "queue": 2}]
    assert sum_of(states) == {"rows": 7, "queue": 2, "to_check": 1}
    assert sum_of([*states, {"error": "gone"}]) == {"error": "gone"}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (StatementsOptions(statements="move,dorp"), "statements 'dorp' is unknown; did you mean"),
        (StatementsOptions(sees="all"), "sees 'all' is unknown; expected one of ack"),
        (StatementsOptions(engine="graphite"), "engine 'graphite' is unknown; expected one of"),
        (StatementsOptions(ops_per_s=0), "ops-per-s"),
        (StatementsOptions(tables=1), "tables 1: expected at least 2"),
    ],
)
def test_a_wrong_option_is_refused(options: StatementsOptions, error: str) -> None:
    with pytest.raises(UsageError) as raised:
        options.validate(Topology.of())
    assert error in str(raised.value)
