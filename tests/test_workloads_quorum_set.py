"""The calls of quorum-set, on virtual time: what is asked, of whom, how often."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from generators_play import run_virtual

from checkers.sets.hidden import PLAIN
from harness.clients.clickhouse import ClickHouse
from harness.clients.insert_modes import modes_of, settings_of
from harness.clients.set_calls import inserts, synced_reads
from harness.clients.table_client import TableClient
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.history import History
from harness.core.op import Done, Kind, Op
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.core.verdict import Status
from harness.generators.steps import nanoseconds
from harness.generators.timing import time_limit
from harness.native.generators import Scheduler
from harness.run.interpreter import workers_on
from workloads.quorum_set import (
    HANGING_S,
    PACED,
    REFUSED_PAUSE_S,
    QuorumSet,
    QuorumSetOptions,
)

MS = 1_000_000
NODES = ("ch1", "ch2", "ch3")


class Scripted:
    """Ends every call as it is told to."""

    def __init__(self, end: Callable[[Op], tuple[Kind, int]]) -> None:
        self._end = end

    def start(self, op: Op, now_ns: int) -> tuple[Done, int]:
        kind, took_ns = self._end(op)
        value = () if op.f != "insert" and kind is Kind.OK else None
        return Done(kind, value), now_ns + took_ns


def played(
    options: QuorumSetOptions, end: Callable[[Op], tuple[Kind, int]], seed: int = 1
) -> History:
    ops: list[Op] = []
    scheduler = Scheduler(workers_on(NODES, 6), ops.append)
    generator = time_limit(QuorumSet(options, Seed(seed)).generator(), 20)
    run_virtual(scheduler, generator, client=lambda _: Scripted(end))
    return History(ops)


def quick(op: Op) -> tuple[Kind, int]:
    return (Kind.OK, 40 * MS) if op.f == "insert" else (Kind.OK, 8 * MS)


def refused(_: Op) -> tuple[Kind, int]:
    return Kind.FAIL, MS


def test_every_value_is_new_and_every_process_writes_and_reads() -> None:
    history = played(QuorumSetOptions(), quick)
    values = [p.invoke.value for p in history.pairs if p.invoke.f == "insert"]
    assert values == list(range(len(values)))
    assert len(values) > 50
    for f in ("insert", "read"):
        assert {p.invoke.process for p in history.pairs if p.invoke.f == f} == set(range(6))


def test_nodes_insert_in_turns_and_no_more_than_writers_at_a_time() -> None:
    history = played(QuorumSetOptions(writers=1), quick)
    nodes = [p.invoke.node for p in history.pairs if p.invoke.f == "insert"]
    turns = [len(list(same)) for _, same in itertools.groupby(nodes)]
    assert min(turns[:-1]) >= PACED[0], "a node inserts until its turn is over"
    assert set(nodes) == set(NODES)
    for writers in (1, 2, 3):
        assert in_flight_at_most(played(QuorumSetOptions(writers=writers), quick)) == writers


def test_some_turns_insert_without_a_pause_and_some_with() -> None:
    inserts = [op for op in played(QuorumSetOptions(writers=1), quick) if op.f == "insert"]
    gaps = {
        begin.time_ns - end.time_ns
        for end, begin in itertools.pairwise(inserts)
        if begin.kind is Kind.INVOKE
    }
    assert min(gaps) < 10 * MS
    pause_ns = nanoseconds(PACED[1])
    assert any(pause_ns <= gap < pause_ns + 10 * MS for gap in gaps)


def in_flight_at_most(history: History) -> int:
    in_flight = most = 0
    for op in history:
        if op.f == "insert":
            in_flight += 1 if op.kind is Kind.INVOKE else -1
            most = max(most, in_flight)
    return most


def test_a_node_whose_insert_hangs_loses_its_turn_and_goes_on_reading() -> None:
    def hangs_on_ch3(op: Op) -> tuple[Kind, int]:
        return (Kind.INFO, 1_500 * MS) if (op.f, op.node) == ("insert", "ch3") else quick(op)

    history = played(QuorumSetOptions(writers=1), hangs_on_ch3)
    hung = next(p.invoke for p in history.pairs if (p.invoke.f, p.invoke.node) == ("insert", "ch3"))
    since_ns = hung.time_ns + nanoseconds(HANGING_S)
    after = [p.invoke for p in history.pairs if p.invoke.time_ns > since_ns]
    assert {op.node for op in after if op.f == "insert"} & {"ch1", "ch2"}
    assert "ch3" in {op.node for op in after if op.f == "read"}


def test_what_was_refused_is_tried_a_moment_later() -> None:
    last: dict[object, int] = {}
    history = played(QuorumSetOptions(), refused)
    for op in history:
        if op.kind is Kind.FAIL:
            last[op.process] = op.time_ns
        elif op.process in last:
            assert op.time_ns - last.pop(op.process) >= nanoseconds(REFUSED_PAUSE_S)
    assert len(history) > 1_000


def test_keys_are_left_after_so_many_calls_and_never_used_again() -> None:
    history = played(QuorumSetOptions(keys=2, ops_per_key=100), quick)
    keys = [p.invoke.key for p in history.pairs]
    rounds = [set(keys[i : i + 200]) for i in range(0, len(keys) - 200, 200)]
    assert rounds == [{2 * i, 2 * i + 1} for i in range(len(rounds))]
    assert len(rounds) > 3


def test_the_same_seed_makes_the_same_calls_and_another_seed_others() -> None:
    options = QuorumSetOptions(keys=3)
    assert list(played(options, quick, 1)) == list(played(options, quick, 1))
    assert list(played(options, quick, 1)) != list(played(options, quick, 2))


def test_final_reads_ask_every_replica_for_every_key_twice() -> None:
    ops: list[Op] = []
    scheduler = Scheduler(workers_on(NODES, 3), ops.append)
    workload = QuorumSet(QuorumSetOptions(), Seed(1))
    run_virtual(scheduler, workload.final((4, 7), NODES), client=lambda _: Scripted(quick))
    requested = [(op.key, op.node) for op in ops if op.kind is Kind.INVOKE]
    assert sorted(requested) == sorted([(k, n) for k in (4, 7) for n in NODES] * 2)
    assert set(requested[:6]) == set(requested[6:]), (
        "the second round begins when the first has ended"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (QuorumSetOptions(quorum=1), "--quorum 1: expected 2 to 3"),
        (QuorumSetOptions(insert="fast"), "--insert 'fast': expected one of quorum plain"),
        (QuorumSetOptions(read="dirty"), "--read 'dirty': expected one of sequential sync plain"),
        (QuorumSetOptions(insert="quorum,fast"), "--insert 'quorum,fast': expected one of quorum"),
        (QuorumSetOptions(insert="plain,parallel", quorum=4), "--quorum 4: expected 2 to 3"),
        (QuorumSetOptions(keys=0), "keys 0: expected a whole number from 1 to 10,000"),
        (QuorumSetOptions(writers=0), "writers 0: expected a whole number from 1 to 1,000"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: QuorumSetOptions, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.validate(Topology.of())
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("insert", "read", "promise"),
    [
        ("quorum", "sequential", "linearizable"),
        ("quorum", "sync", "linearizable"),
        ("quorum", "plain", "eventual"),
        ("plain", "plain", "eventual"),
        ("plain", "sequential", "eventual"),
        ("plain", "sync", "eventual"),
        ("plain", "server", "eventual"),
        ("plain", "thesis", "linearizable"),
        ("plain", "linearizable", "linearizable"),
        ("parallel", "sequential", "eventual"),
        ("async", "sequential", "eventual"),
        ("quorum,plain", "sequential", "eventual"),
        ("mixed", "sync", "eventual"),
        ("quorum", "synced", "eventual"),
    ],
)
def test_the_promise_follows_the_options(insert: str, read: str, promise: str) -> None:
    options = QuorumSetOptions(insert=insert, read=read)
    assert options.promise == promise
    workload = QuorumSet(options, Seed(1), options.promise)
    assert workload.live_anomalies is (promise == "linearizable" or read == "synced")


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        (QuorumSetOptions(), ()),
        (QuorumSetOptions(insert="plain", quorum="auto"), ()),
        (QuorumSetOptions(quorum="auto"), (Mechanism.QUORUM_AUTO,)),
        (QuorumSetOptions(insert="parallel"), (Mechanism.PARALLEL_QUORUM,)),
        (QuorumSetOptions(insert="plain,async-no-wait"), (Mechanism.ASYNC_INSERT,)),
        (QuorumSetOptions(insert="mixed"), (Mechanism.PARALLEL_QUORUM, Mechanism.ASYNC_INSERT)),
    ],
)
def test_the_modes_need_mechanisms(options: QuorumSetOptions, needs: tuple[Mechanism, ...]) -> None:
    options.validate(Topology.of())
    assert options.needs == needs


def test_a_majority_of_one_replica_is_no_quorum() -> None:
    with pytest.raises(UsageError, match="--quorum auto: expected 2 to 1"):
        QuorumSetOptions(quorum="auto").validate(Topology.of(replicas=1))


def test_every_insert_of_several_modes_draws_its_own_by_seed() -> None:
    modes = modes_of("quorum,plain,parallel")
    drawn = [settings_of(modes, "auto", 500, Seed(n)) for n in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    kinds = Counter(str(sorted(settings.items())) for settings in drawn[0])
    assert len(kinds) == 3
    assert min(kinds.values()) > len(drawn[0]) / 5
    assert {"insert_quorum": "auto", "insert_quorum_timeout": 500} in drawn[0]
    assert settings_of(modes_of("plain"), 2, 500, Seed(1)) == ({},)


class Acknowledges(ClickHouse):
    """A server that acknowledges every insert."""

    def __init__(self) -> None:
        pass

    def _execute(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("mode", "kind", "error"),
    [
        ("async", Kind.OK, None),
        ("async-no-wait", Kind.INFO, "-4 UNFLUSHED: acknowledged before it was written"),
    ],
)
def test_an_acknowledgement_that_promises_nothing_is_recorded_as_unknown(
    mode: str, kind: Kind, error: str | None
) -> None:
    call = inserts("t", *settings_of(modes_of(mode), 2, 500, Seed(1)))
    client = TableClient(Acknowledges(), writes={"insert": call}, reads={})
    op = Op(index=0, process=0, kind=Kind.INVOKE, f="insert", time_ns=0, value=1, key=0)
    done = client.invoke(op)
    assert (done.kind, done.error) == (kind, error)


def test_what_is_hidden_is_looked_for_where_modes_differ_in_their_quorum() -> None:
    for insert, hides in (("quorum", False), ("plain", False), ("quorum,plain", True)):
        workload = QuorumSet(QuorumSetOptions(insert=insert), Seed(1))
        assert ("hidden" in {checker.name for checker in workload.checkers()}) is hides
        ops: list[Op] = []
        final = workload.final((0,), NODES)
        scheduler = Scheduler(workers_on(NODES, 3), ops.append)
        run_virtual(scheduler, final, client=lambda _: Scripted(quick))
        assert [op.f for op in ops if op.kind is Kind.INVOKE][6:] == [PLAIN] * (3 * hides)


def test_a_synced_read_syncs_first_and_is_judged_by_what_was_acknowledged_before_it() -> None:
    requested: list[str] = []

    class Server(Acknowledges):
        def _execute(self, *words: Any, **shape: Any) -> Any:
            requested.append(words[0])
            return [(3, 4)]

    read = synced_reads("d.t", timeout_s=7)
    op = Op(index=0, process=0, kind=Kind.INVOKE, f="read", time_ns=0, key=5)
    assert read(Server(), op) == (3, 4)
    assert requested == ["SYSTEM SYNC REPLICA d.t", "SELECT value FROM d.t WHERE key = 5"]
    options = QuorumSetOptions(insert="plain", read="synced")
    assert options.unsimulated == "--read synced"
    workload = QuorumSet(options, Seed(1), options.promise)
    judge = next(checker for checker in workload.checkers() if checker.name == "set-full")
    stale = History(
        [
            Op(index=0, process=0, kind=Kind.INVOKE, f="insert", time_ns=0, value=1, key=0),
            Op(index=1, process=0, kind=Kind.OK, f="insert", time_ns=1, value=1, key=0),
            Op(index=2, process=1, kind=Kind.INVOKE, f="read", time_ns=2, key=0),
            Op(index=3, process=1, kind=Kind.OK, f="read", time_ns=3, value=(), key=0),
        ]
    )
    assert judge.check(stale).status is Status.INVALID


def test_a_share_of_the_calls_inserts_on_every_node() -> None:
    ops = played(QuorumSetOptions(share=0.5), lambda _: (Kind.OK, 10 * MS))
    calls = [op for op in ops if op.kind is Kind.INVOKE]
    inserts_ = [op for op in calls if op.f == "insert"]
    assert 0.4 < len(inserts_) / len(calls) < 0.6
    assert {op.node for op in inserts_} == set(NODES)
    with pytest.raises(UsageError, match=r"share.*expected a share from 0 to 0.99"):
        QuorumSetOptions(share=1.0).validate(Topology.of())
