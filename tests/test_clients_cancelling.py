"""Inserts that are cancelled: which, how, and what is recorded of them."""

from typing import Any

import pytest

from checkers.ladder import Level
from harness.clients.cancelling import WITHIN_MS, Cancel, Killed, hurried
from harness.clients.clickhouse import CAUTIOUS_OUTCOMES, ClickHouse, DatabaseError
from harness.clients.set_calls import inserts
from harness.clients.table_client import TableClient
from harness.core.clock import WallClock
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.op import Kind, Op
from harness.core.outcomes import write_outcome
from harness.core.seed import Seed
from harness.core.topology import Topology
from workloads.quorum_set import QuorumSet, QuorumSetOptions


class Server(ClickHouse):
    """Records what it is asked; an insert under a query id is cancelled."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def _execute(self, sql: str, _settings: Any, _rows: Any, query_id: str = "", **_: Any) -> Any:
        self.asked.append((sql, query_id))
        if query_id:
            raise DatabaseError(394, "Query was cancelled")
        return []


def insert_of(value: int) -> Op:
    return Op(
        index=10 + value, process=0, kind=Kind.INVOKE, f="insert", time_ns=0, value=value, key=0
    )


def test_one_insert_in_so_many_is_killed_by_its_query_id_from_another_connection() -> None:
    server, killer = Server(), Server()
    killed = Killed(inserts("d.t"), killer, WallClock(), Seed(1), one_in=3)
    client = TableClient(server, writes={"insert": killed}, reads={})
    ends = [client.invoke(insert_of(value)) for value in range(60)]
    ids = [query_id for _, query_id in server.asked if query_id]
    assert 10 < len(ids) < 30
    assert len(set(ids)) == len(ids), "no other query is killed"
    assert [sql for sql, _ in killer.asked] == [
        f"KILL QUERY WHERE query_id = '{one}' ASYNC" for one in ids
    ]
    infos = [end for end in ends if end.kind is Kind.INFO]
    assert {end.error for end in infos} == {"394 QUERY_WAS_CANCELLED: Query was cancelled"}
    assert len(infos) == len(ids)


def test_one_insert_in_so_many_has_too_little_time() -> None:
    limits = [
        float(settings["max_execution_time"]) if "max_execution_time" in settings else None
        for settings in hurried(({"insert_quorum": 2},), Seed(1), one_in=4)
    ]
    given = [limit for limit in limits if limit is not None]
    assert len(limits) / 6 < len(given) < len(limits) / 3
    assert 0 < min(given) < max(given) <= WITHIN_MS / 1e3


@pytest.mark.parametrize("code", [159, 394])
def test_what_became_of_a_cancelled_insert_is_unknown(code: int) -> None:
    assert write_outcome(code, "cancelled", CAUTIOUS_OUTCOMES).kind is Kind.INFO


@pytest.mark.parametrize(
    ("cancel", "needs"),
    [
        (Cancel.NEVER, ()),
        (Cancel.KILL, ()),
        (Cancel.TIME, (Mechanism.SUBSECOND_LIMITS,)),
        (Cancel.BOTH, (Mechanism.SUBSECOND_LIMITS,)),
    ],
)
def test_who_cancels_needs_what(cancel: Cancel, needs: tuple[Mechanism, ...]) -> None:
    options = QuorumSetOptions(cancel=cancel)
    options.validate(Topology.of())
    assert options.needs == needs
    assert options.unsimulated == ("" if cancel is Cancel.NEVER else f"-o cancel={cancel}")
    checkers = {one.name for one in QuorumSet(options, Seed(1), Level.EVENTUAL).checkers()}
    assert ("answers" in checkers) is (cancel is not Cancel.NEVER)


def test_another_way_to_cancel_is_refused() -> None:
    with pytest.raises(UsageError, match="cancel 'soon': expected one of never kill time both"):
        QuorumSetOptions(cancel="soon").validate(Topology.of())
