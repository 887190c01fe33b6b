"""Checkers that take one pass, against what they look for by its definition."""

from itertools import combinations

from checkers_cases import _call, fault, history, rest, told
from hypothesis import given
from hypothesis import strategies as st

from checkers.ddl.alter_waits import AlterWaits
from checkers.ddl.alters import ADD
from checkers.replication.leaders import SANDWICH_NS, Leaders
from checkers.replication.parts import Part, Parts
from harness.core.op import Kind

NODES = st.sampled_from(["ch1", "ch2", "ch3"])
SPANS = st.tuples(st.integers(0, 900), st.integers(1, 90))
"""Begin and duration in ms."""


@given(st.lists(st.tuples(SPANS, NODES), max_size=9))
def test_a_sandwich_is_a_claim_between_two_of_another_node(claims: list[tuple]) -> None:
    h = history(
        *(
            told("leads", {"leads": True}, begin, begin + took, process=at, node=node)
            for at, ((begin, took), node) in enumerate(claims)
        )
    )
    pairs = list(h.pairs)
    expected = set()
    for at, first in enumerate(pairs):
        near = [p for p in pairs[at + 1 :] if p.invoke.time_ns - first.end.time_ns <= SANDWICH_NS]
        own = [p for p in near if p.invoke.node == first.invoke.node]
        for other in near if own else ():
            between = first.end.time_ns < other.invoke.time_ns
            between = between and other.end.time_ns < own[-1].invoke.time_ns
            if between and other.invoke.node != first.invoke.node:
                expected.add((first.invoke.index, other.invoke.index, own[-1].invoke.index))
                break
    verdict = Leaders().check(h)
    found = {tuple(op for op in one.ops if h[op].kind is Kind.INVOKE) for one in verdict.anomalies}
    assert verdict.figures["anomalies"] == {"both": len(expected)}
    assert found <= {tuple(sorted(three)) for three in expected}
    assert len(found) == min(3, len(expected))


@given(
    st.lists(
        st.tuples(
            st.tuples(st.integers(0, 12), st.none() | st.integers(1, 5)),
            st.integers(7, 8),
            st.sampled_from(["ok", "fail", "info"]),
            st.booleans(),
        ),
        max_size=5,
    )
)
def test_an_alter_that_another_one_disturbs_is_not_judged(calls: list[tuple]) -> None:
    h = history(
        *(
            _call(
                at, ADD, begin, took and begin + took, kind, "ch1", None, column,
                {"has": {"ch2": False}, "waits": ["ch2"], "overlaps": overlaps}, None,
            )
            for at, ((begin, took), column, kind, overlaps) in enumerate(calls)
        )
    )  # fmt: skip
    expected = []
    for one in h.pairs:
        for other in h.pairs if one.kind is Kind.OK else ():
            if other is one or other.kind is Kind.FAIL or other.invoke.index > one.end.index:
                continue
            meets = other.end is None or other.end.index > one.invoke.index
            same = other.invoke.value == one.invoke.value
            early = one.end.value["overlaps"]
            if (meets and (early or same)) or (same and other.kind is Kind.INFO):
                break
        else:
            expected += [one] if one.kind is Kind.OK else []
    assert AlterWaits().check(h).checked == len(expected)


PARTS = st.tuples(st.integers(0, 1), st.integers(0, 6), st.integers(0, 3)).map(
    lambda part: f"{part[0]}_{part[1]}_{part[1] + part[2]}_0"
)


@given(st.sets(PARTS, max_size=6))
def test_two_parts_with_one_block_intersect(names: set[str]) -> None:
    expected = [
        f"ch1 has {a} and {b}, which share blocks"
        for a, b in combinations(sorted(names), 2)
        if Part.of(a).intersects(Part.of(b))
    ]
    verdict = Parts().check(history(rest(5, ch1={"active": {name: [1, "x"] for name in names}})))
    assert [one.text for one in verdict.anomalies] == expected[:3]


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(1, 5)), max_size=5))
def test_faults_are_in_force_from_their_begin_to_their_end(faults: list[tuple]) -> None:
    h = history(
        *(
            fault(begin, lasts and begin + lasts, number=number)
            for number, (begin, lasts) in enumerate(faults)
        )
    )
    for time_ns in {t + d for op in h for t in (op.time_ns,) for d in (-1, 0, 1)}:
        assert h.faults_at(time_ns) == tuple(
            f
            for f in h.faults
            if f.begin_ns <= time_ns and (f.end_ns is None or time_ns <= f.end_ns)
        )


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=5))
def test_a_fault_may_be_in_force_from_its_invocation_on(faults: list[tuple]) -> None:
    at, events = 0, []
    for number, (wait, injected) in enumerate(faults):
        at += wait + injected
        events.append(fault(at, None, number=number, invoked=at - injected))
    h = history(*events)
    for time_ns in {t + d for op in h for t in (op.time_ns,) for d in (-1, 0, 1)}:
        assert h.faults_unverified_at(time_ns) == tuple(
            f for f in h.faults if f.invoked_ns <= time_ns < f.begin_ns
        )
