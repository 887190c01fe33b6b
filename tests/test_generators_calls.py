"""Generators that make calls: sequences, functions of a number, each call once on each node."""

import pytest
from generators_play import NODES, Scripted, calls, context, invocations, play, read, write

from harness.core.errors import UsageError
from harness.core.op import Call, Kind
from harness.core.protocols import Exhausted, Pending, Ready
from harness.generators import each_node, limit, numbered, once, repeat, sequence, until_ok


def test_a_sequence_is_each_call_once_in_order() -> None:
    assert calls(play(sequence([write(1), write(2), read()]))) == [write(1), write(2), read()]


def test_once_is_one_call() -> None:
    assert calls(play(once(read()))) == [read()]


def test_numbered_calls_are_a_function_of_their_number_without_end() -> None:
    history = play(limit(numbered(lambda n: write(n * n)), 4))
    assert calls(history) == [write(0), write(1), write(4), write(9)]


def test_repeat_is_the_same_call() -> None:
    assert calls(play(limit(repeat(read()), 3))) == [read()] * 3


def test_a_call_goes_to_the_preferred_worker() -> None:
    ctx = context()
    step, _ = once(read()).op(ctx)
    assert step == Ready(read(), ctx.free[0])


def test_a_call_for_a_node_goes_to_a_worker_of_that_node() -> None:
    step, _ = once(Call(f="read", node="ch3")).op(context())
    assert isinstance(step, Ready)
    assert step.worker.node == "ch3"


def test_a_call_waits_while_every_worker_that_suits_is_busy() -> None:
    ch3_busy = context(free=2, busy=1)
    generator = once(Call(f="read", node="ch3"))
    step, after = generator.op(ch3_busy)
    assert step == Pending()
    assert isinstance(after.op(context())[0], Ready), "the call is still to be made"


def test_a_fault_goes_to_the_nemesis() -> None:
    step, _ = once(Call(f="kill", nemesis=True)).op(context())
    assert isinstance(step, Ready)
    assert step.worker.number == -1


def test_a_call_that_no_worker_can_ever_take_is_refused() -> None:
    with pytest.raises(UsageError, match="call read: wants a worker on ch9"):
        once(Call(f="read", node="ch9")).op(context())


def test_what_is_exhausted_stays_so() -> None:
    step, after = sequence([]).op(context())
    assert isinstance(step, Exhausted)
    assert after.op(context())[0] == step


def test_each_node_makes_every_call_once_on_every_node() -> None:
    history = play(each_node(sequence([read(key=0), read(key=1)])), workers=7)
    requested = [(op.node, op.key) for op in invocations(history)]
    assert sorted(requested) == [(node, key) for node in NODES for key in (0, 1)]
    assert len({op.time_ns for op in invocations(history)[:3]}) == 1, "all nodes at a time"


def test_each_node_takes_the_nodes_that_are_named() -> None:
    history = play(each_node(once(read()), nodes=["ch2"]))
    assert [op.node for op in invocations(history)] == ["ch2"]


def test_each_node_refuses_a_node_without_a_worker() -> None:
    with pytest.raises(UsageError, match="no such worker takes part"):
        play(each_node(once(read()), nodes=NODES), workers=2)


def test_until_ok_repeats_each_call_until_it_is_ok() -> None:
    kinds = [Kind.FAIL, Kind.INFO, Kind.OK]
    client = Scripted(script={("read", "ch1"): kinds})
    history = play(until_ok([read(key=7)], tries=9, pause_s=0.5), workers=1, client=client)
    assert [pair.kind for pair in history.pairs] == [Kind.FAIL, Kind.INFO, Kind.OK]
    assert {pair.invoke.key for pair in history.pairs} == {7}
    ends = [pair.end.time_ns for pair in history.pairs if pair.end]
    begins = [pair.invoke.time_ns for pair in history.pairs]
    assert begins[1:] == [end + 500_000_000 for end in ends[:-1]]


def test_until_ok_gives_up_after_its_tries() -> None:
    client = Scripted(script={("read", "ch1"): [Kind.FAIL] * 10})
    history = play(until_ok([read()], tries=4), workers=1, client=client)
    assert [pair.kind for pair in history.pairs] == [Kind.FAIL] * 4


def test_final_reads_one_stubborn_node_does_not_hold_up_the_others() -> None:
    client = Scripted(script={("read", "ch2"): [Kind.FAIL] * 5 + [Kind.OK] * 2})
    reads = until_ok([read(key=0), read(key=1)], tries=9, pause_s=1)
    history = play(each_node(reads), client=client)
    oks = [(p.invoke.node, p.invoke.key) for p in history.pairs if p.kind is Kind.OK]
    assert oks[:4] == [("ch1", 0), ("ch3", 0), ("ch1", 1), ("ch3", 1)]
    assert sorted(oks[4:]) == [("ch2", 0), ("ch2", 1)]
    assert sum(p.kind is Kind.FAIL for p in history.pairs) == 5


def test_until_ok_needs_a_try() -> None:
    with pytest.raises(UsageError, match="0 tries given, at least 1 expected"):
        until_ok([read()], tries=0)
