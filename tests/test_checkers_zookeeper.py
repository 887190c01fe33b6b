"""Multis and sequential nodes of ZooKeeper, by hand and against definitions by brute force."""

from itertools import pairwise

import pytest
from checkers_cases import MS, history, read
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.numbering import overtaken
from checkers.zookeeper.multi import ABSENT, Multi
from checkers.zookeeper.sequence import MIN_JUDGED, SequentialNumbers
from harness.core.history import History
from harness.core.verdict import Status

VALID, INVALID, UNKNOWN = Status.VALID, Status.INVALID, Status.UNKNOWN


def call(process, f, value, answer, begin, end, kind="ok"):
    """Return a call with a value, and its end with an answer."""
    events = read(process, None, begin, end, kind, f=f)
    events[0].op["value"] = value
    if end is not None:
        events[1].op["value"] = answer if kind == "ok" else value
    return events


def multi(process, value, version, begin, end, kind="ok", f="multi", nodes=2):
    return call(process, f, value, (value, *[version] * nodes), begin, end, kind)


def got(process, nodes, begin, end, f="read"):
    """Return a read of nodes, each a value and a version."""
    values, versions = [value for value, _ in nodes], [version for _, version in nodes]
    return call(process, f, None, {"values": values, "versions": versions}, begin, end)


def kinds_of(checker, *calls):
    verdict = checker.check(history(*calls))
    return verdict.status, sorted({one.kind for one in verdict.anomalies})


NONE = (ABSENT, ABSENT)


@pytest.mark.parametrize(
    ("calls", "status", "kinds"),
    [
        ([multi(0, 7, 0, 0, 1), got(1, [(7, 0), (7, 0)], 2, 3)], VALID, []),
        ([got(1, [NONE, NONE], 0, 1)], UNKNOWN, []),
        # A multi may come between the gets of one read, and may not be undone between them.
        ([multi(0, 7, 0, 0, 1), multi(0, 8, 1, 2, 5), got(1, [(7, 0), (8, 1)], 3, 4)], VALID, []),
        (
            [multi(0, 7, 0, 0, 1), multi(0, 8, 1, 2, 5), got(1, [(8, 1), (7, 0)], 3, 4)],
            INVALID,
            ["half"],
        ),
        ([multi(0, 7, 0, 0, 9), got(1, [(7, 0), NONE], 3, 4)], INVALID, ["half"]),
        # What has no known end may have happened.
        ([multi(0, 7, 0, 0, 1, kind="info"), got(1, [(7, 0), (7, 0)], 2, 3)], VALID, []),
        (
            [multi(0, 7, 0, 0, 1, kind="fail"), got(1, [(7, 0), (7, 0)], 2, 3)],
            INVALID,
            ["phantom"],
        ),
        (
            [
                multi(0, 7, 0, 0, 1),
                multi(0, 8, 1, 2, 3, kind="info", f="refused"),
                got(1, [(8, 1), (8, 1)], 4, 5),
            ],
            INVALID,
            ["phantom"],
        ),
        ([multi(0, 7, 0, 0, 1, f="refused")], INVALID, ["passed"]),
        ([got(1, [(7, 0), (7, 0)], 0, 1), multi(0, 7, 0, 2, 3)], INVALID, ["phantom"]),
        # One multi is at one place, and two are at two.
        ([multi(0, 7, 0, 0, 1), got(1, [(7, 0), (7, 1)], 2, 3)], INVALID, ["torn"]),
        (
            [multi(0, 7, 0, 0, 9), multi(1, 8, 0, 0, 9), got(2, [(7, 0), (7, 0)], 10, 11)],
            INVALID,
            ["forked"],
        ),
        # Versions increase with real time.
        (
            [multi(0, 7, 1, 0, 1), multi(1, 8, 0, 2, 3), got(2, [(7, 1), (7, 1)], 4, 5)],
            INVALID,
            ["not-increasing"],
        ),
        (
            [
                multi(0, 7, 1, 0, 9, kind="info"),
                got(2, [(7, 1), (7, 1)], 1, 2),
                multi(1, 8, 0, 3, 4),
                got(2, [(7, 1), (7, 1)], 5, 6),
            ],
            INVALID,
            ["not-increasing"],
        ),
        # A read after an acknowledgement, or after another read, is as fresh.
        (
            [multi(0, 7, 0, 0, 1), multi(0, 8, 1, 2, 3), got(1, [(7, 0), (8, 1)], 4, 5)],
            INVALID,
            ["stale"],
        ),
        (
            [
                multi(0, 7, 0, 0, 1),
                multi(0, 8, 1, 2, 9, kind="info"),
                got(1, [(8, 1), (8, 1)], 3, 4),
                got(2, [(7, 0), (7, 0)], 5, 6),
            ],
            INVALID,
            ["stale"],
        ),
    ],
)
def test_a_multi_is_seen_whole_and_in_the_order_of_its_versions(calls, status, kinds):
    assert kinds_of(Multi(synced=True), *calls) == (status, kinds)


def test_without_a_sync_a_read_may_lag_behind_others_and_not_behind_its_own_session():
    written = (multi(0, 7, 0, 0, 1), multi(0, 8, 1, 2, 3))
    lagging = got(1, [(7, 0), (7, 0)], 4, 5)
    assert kinds_of(Multi(synced=False), *written, lagging) == (VALID, [])
    own = got(0, [(7, 0), (7, 0)], 4, 5)
    assert kinds_of(Multi(synced=False), *written, own) == (INVALID, ["stale"])
    at_rest = got(1, [(7, 0), (7, 0)], 4, 5, f="final-read")
    assert kinds_of(Multi(synced=False), *written, at_rest) == (INVALID, ["stale"])


def test_the_verdict_on_a_half_seen_multi_says_what_was_got_and_by_whom():
    calls = (multi(0, 7, 0, 0, 1), multi(0, 8, 1, 2, 5), got(1, [(8, 1), (7, 0)], 3, 4))
    verdict = Multi(synced=True).check(history(*calls))
    (anomaly,) = verdict.anomalies
    assert anomaly.text == (
        "op #3 read of key 0 on ch1 got the nodes at versions 1, 0 at 0.004 s (op #4)"
    )
    assert verdict.figures["multis"] == 2


@st.composite
def multis(draw):
    """Draw multis with versions that are unique, and reads of two nodes, right and wrong."""
    calls, times = [], st.integers(0, 12)
    for value in range(draw(st.integers(0, 3))):
        begin, took = draw(times), draw(st.integers(1, 6))
        kind = draw(st.sampled_from(("ok", "ok", "info")))
        calls.append(multi(value, value, value, begin, begin + took, kind))
    for number in range(draw(st.integers(1, 3))):
        begin, took = draw(times), draw(st.integers(1, 6))
        versions = draw(st.tuples(st.integers(-1, 2), st.integers(-1, 2)))
        calls.append(got(10 + number, [(v, v) for v in versions], begin, begin + took))
    return history(*calls)


def explained(h: History) -> bool:
    """Return whether the gets and multis have an order that keeps real time, in which multis are in
    the order of their versions and each get has the last multi before it: whether what must come
    before what has no cycle."""
    steps, spans = [], {}
    for pair in h.pairs:
        end_ns = pair.end.time_ns if pair.end is not None and pair.kind == "ok" else 99 * MS
        if pair.invoke.f == "multi":
            steps.append(("multi", pair.invoke.value, pair.invoke.index, 0))
        else:
            for at, version in enumerate(pair.end.value["versions"]):
                steps.append(("get", version, pair.invoke.index, at))
        spans[pair.invoke.index] = pair.invoke.time_ns, end_ns
    written = {version for what, version, *_ in steps if what == "multi"}
    seen = {version for what, version, *_ in steps if what == "get" and version != ABSENT}
    if not seen <= written:
        return False
    # Nobody knows the version of a multi that has no known end and was never read.
    known = seen | {pair.invoke.value for pair in h.calls("multi", kinds=("ok",))}
    steps = [one for one in steps if one[0] == "get" or one[1] in known]

    def precedes(a, b):
        (what, version, op, at), (other, later, of, to) = a, b
        if spans[op][1] < spans[of][0] or (op == of and at < to):
            return True
        if (what, other) == ("multi", "multi"):
            return version < later
        if (what, other) == ("multi", "get"):
            return version <= later
        return (what, other) == ("get", "multi") and version < later

    left = list(steps)
    while left:
        free = [b for b in left if not any(precedes(a, b) for a in left if a != b)]
        if not free:
            return False
        left = [one for one in left if one not in free]
    return True


@settings(max_examples=400, deadline=None)
@given(multis())
def test_reads_of_multis_are_right_if_some_order_of_gets_and_multis_explains_them(h):
    status = Multi(synced=True).check(h).status
    assert (status is not INVALID) == explained(h)


# --- sequential nodes ---------------------------------------------------------------------------


def create(process, value, number, begin, end, kind="ok", f="create"):
    return call(process, f, value, (value, number), begin, end, kind)


def listed(process, nodes, begin, end, f="read"):
    """Return a read of sequential nodes, each a value and a number."""
    values, numbers = [value for value, _ in nodes], [number for _, number in nodes]
    return call(process, f, None, {"values": values, "numbers": numbers}, begin, end)


FIRST = [create(0, value, value, 2 * value, 2 * value + 1) for value in range(MIN_JUDGED)]
"""Creates of the values 0, 1, …, each with its own value as its number, up to 19 ms."""
THERE = [(value, value) for value in range(MIN_JUDGED)]
N = MIN_JUDGED


@pytest.mark.parametrize(
    ("calls", "status", "kinds"),
    [
        ([listed(1, THERE, 20, 21)], VALID, []),
        # Numbers may have gaps, and two creates at a time either order.
        ([create(0, N, 50, 22, 25), create(1, N + 1, 40, 23, 24)], VALID, []),
        ([create(0, N, 50, 22, 23), create(1, N + 1, 40, 24, 25)], INVALID, ["not-increasing"]),
        # The number of a node that is gone is not given again.
        (
            [create(0, N, 50, 22, 23, f="create-delete"), create(1, N + 1, 50, 24, 25)],
            INVALID,
            ["shared"],
        ),
        (
            [
                create(0, N, 50, 22, 23, kind="info"),
                create(1, N + 1, 60, 22, 23),
                listed(2, [*THERE, (N, 50), (N + 1, 60)], 24, 25),
            ],
            VALID,
            [],
        ),
        ([create(0, N, 50, 22, 23, kind="info"), listed(2, THERE, 24, 25)], VALID, []),
        # A late create of unknown outcome has a low number: it was given before others.
        (
            [
                create(1, N + 1, 60, 22, 23),
                create(0, N, 50, 24, 25, kind="info"),
                listed(2, [*THERE, (N, 50), (N + 1, 60)], 26, 27),
            ],
            INVALID,
            ["not-increasing"],
        ),
        ([listed(1, THERE[1:], 20, 21)], INVALID, ["lost-node"]),
        ([listed(1, THERE[1:], 20, 21, f="final-read")], INVALID, ["lost-node"]),
        ([create(0, N, 50, 22, 25), listed(1, THERE, 23, 26)], VALID, []),
        (
            [create(0, N, 50, 22, 23, f="create-delete"), listed(1, [*THERE, (N, 50)], 24, 25)],
            INVALID,
            ["undeleted"],
        ),
        ([listed(1, [*THERE, (0, 70)], 20, 21)], INVALID, ["renumbered"]),
        ([listed(1, [*THERE, (N, 70)], 20, 21)], INVALID, ["phantom"]),
        (
            [create(0, N, 70, 20, 21, kind="fail"), listed(1, [*THERE, (N, 70)], 22, 23)],
            INVALID,
            ["phantom"],
        ),
        (
            [listed(1, [*THERE, (N, 70)], 20, 21), create(0, N, 70, 22, 23)],
            INVALID,
            ["phantom"],
        ),
    ],
)
def test_sequential_nodes_have_unique_increasing_numbers_and_stay(calls, status, kinds):
    assert kinds_of(SequentialNumbers(synced=True), *FIRST, *calls) == (status, kinds)


def test_too_few_numbers_say_nothing():
    verdict = SequentialNumbers(synced=True).check(history(*FIRST[:3]))
    assert (verdict.status, verdict.summary) == (UNKNOWN, "3 numbers, at least 10 expected")


def test_without_a_sync_only_a_final_read_must_have_every_node():
    lagging = listed(1, THERE[1:], 20, 21)
    assert kinds_of(SequentialNumbers(synced=False), *FIRST, lagging) == (VALID, [])
    at_rest = listed(1, THERE[1:], 22, 23, f="final-read")
    assert kinds_of(SequentialNumbers(synced=False), *FIRST, at_rest) == (INVALID, ["lost-node"])


def test_the_witness_of_a_number_that_went_back_names_both_creates():
    calls = [*FIRST, create(1, N, 3, 20, 21)]
    verdict = SequentialNumbers(synced=True).check(history(*calls))
    text = next(one.text for one in verdict.anomalies if one.kind == "not-increasing")
    assert text == (
        "value 9 of key 0 (op #19), shown at 0.019 s, and value 10 of key 0 (op #21), begun at "
        "0.020 s on ch1, in this order have numbers 9 and 3"
    )


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.integers(0, 6),
            st.integers(0, 1),
            st.integers(0, 5),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_a_call_is_overtaken_if_one_before_it_has_a_greater_number(drawn):
    drawn.sort()
    begins = [begin for begin, *_ in drawn]
    acks = [begin + took if ok else 10**9 for begin, took, _, _, ok in drawn]
    groups, numbers = [one[2] for one in drawn], [one[3] for one in drawn]
    found = dict(map(reversed, overtaken(begins, acks, groups, numbers)))
    assert all(a < b for a, b in pairwise(found))
    for at in range(len(drawn)):
        before = [
            other
            for other in range(len(drawn))
            if acks[other] < begins[at] and groups[other] == groups[at]
        ]
        highest = max((numbers[other] for other in before), default=-1)
        assert (at in found) == (highest > numbers[at])
        if at in found:
            assert found[at] in before
            assert numbers[found[at]] == highest
