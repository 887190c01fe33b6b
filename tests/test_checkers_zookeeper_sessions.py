"""Ephemeral nodes and watches of ZooKeeper, by hand: what ends with a session, what it is told."""

import pytest
from checkers_cases import MS, fault, history, read, rest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_checkers_zookeeper import INVALID, UNKNOWN, VALID, call, kinds_of

from checkers.zookeeper.ephemeral import EphemeralNodes
from checkers.zookeeper.watches import MIN_FIRED, Watches

# --- ephemeral nodes ----------------------------------------------------------------------------


def born(process, value, begin, end, kind="ok"):
    return call(process, "create", value, value, begin, end, kind)


def touch(process, value, begin, end, there=1):
    return call(process, "touch", 0, (value, there), begin, end)


def ended(process, values, begin, end, f="close", kind="ok"):
    return call(process, f, 0, tuple(values), begin, end, kind)


LIFE = (born(0, 1, 0, 1), read(1, [1], 2, 3), touch(0, 1, 4, 5))
"""A node that a read shows while its session is alive."""
DEATH = (born(2, 2, 0, 1), ended(2, [2], 2, 3), read(1, [1], 6, 7))
"""A node that a read lacks after its session was closed."""


@pytest.mark.parametrize(
    ("calls", "status", "kinds"),
    [
        ([], VALID, []),
        ([read(3, [], 2, 3)], INVALID, ["gone-early"]),
        # Nothing proves that the session was still alive when this was read.
        ([born(4, 4, 7.2, 7.5), read(3, [1], 8, 9)], VALID, []),
        ([born(4, 4, 7.2, 7.5), read(3, [1], 8, 9), touch(4, 4, 9, 10)], VALID, []),
        ([born(4, 4, 7.2, 7.5), read(3, [1], 8, 9), touch(4, 4, 10, 11)], INVALID, ["gone-early"]),
        ([born(4, 4, 7.2, 9), read(3, [1], 8, 9), touch(4, 4, 10, 11)], VALID, []),
        ([touch(0, 1, 8, 9, there=0)], INVALID, ["gone-early"]),
        ([read(3, [1, 2], 8, 9)], INVALID, ["outlived"]),
        ([read(3, [1, 2], 2, 9)], VALID, []),
        # A session that was left alone lives on for its timeout, until the cluster is at rest.
        (
            [
                born(4, 4, 2, 3),
                ended(4, [4], 4, 5, f="expire"),
                read(3, [1, 4], 8, 9),
                rest(10),
                read(3, [1], 11, 12, f="final-read"),
            ],
            VALID,
            [],
        ),
        (
            [
                born(4, 4, 2, 3),
                ended(4, [4], 4, 5, f="expire"),
                rest(10),
                read(3, [1, 4], 11, 12, f="final-read"),
            ],
            INVALID,
            ["outlived"],
        ),
        (
            [
                born(4, 4, 2, 3, kind="info"),
                rest(10),
                read(3, [1, 4], 11, 12, f="final-read"),
            ],
            INVALID,
            ["outlived"],
        ),
        (
            [
                born(4, 4, 2, 3),
                ended(4, [4], 4, 5, kind="info"),
                rest(10, "sessions may expire for another 3 s"),
                read(3, [1, 4], 11, 12, f="final-read"),
            ],
            VALID,
            [],
        ),
        ([read(3, [1, 7], 8, 9)], INVALID, ["phantom"]),
        ([born(4, 7, 2, 3, kind="fail"), read(3, [1, 7], 8, 9)], INVALID, ["phantom"]),
        ([read(3, [1, 7], 8, 9), born(4, 7, 10, 11)], INVALID, ["phantom"]),
    ],
)
def test_an_ephemeral_node_lives_as_long_as_its_session(calls, status, kinds):
    checker = EphemeralNodes(synced=True)
    assert kinds_of(checker, *LIFE, *DEATH, *calls) == (status, kinds)


@pytest.mark.parametrize(
    ("alive", "gap_ms", "faults", "kinds"),
    [
        (1, 1_100, [], []),
        (0, 1_100, [], ["expired-early"]),
        (0, 3_000, [], []),
        (0, 1_100, [fault(28_000, 31_000)], []),
        (0, 1_100, [fault(1_000, 7_000)], ["expired-early"]),
        (0, 1_100, [fault(1_000, 9_000)], []),
    ],
)
def test_a_session_that_only_reads_stays_alive_without_a_fault(alive, gap_ms, faults, kinds):
    held = call(4, "hold", 4, (4, alive, gap_ms), 20_000, 29_500)
    status = INVALID if kinds else VALID
    checker = EphemeralNodes(synced=True)
    assert kinds_of(checker, *LIFE, *DEATH, held, *faults) == (status, kinds)


def test_without_a_sync_only_a_session_of_its_own_must_see_its_nodes():
    checker = EphemeralNodes(synced=False)
    at_rest = (rest(20), read(1, [1], 21, 22, f="final-read"))
    own = read(0, [1], 2, 3)
    assert kinds_of(checker, *LIFE, *DEATH, own, read(3, [2], 3, 4), *at_rest) == (VALID, [])
    lacks = read(0, [], 2, 3)
    assert kinds_of(checker, *LIFE, *DEATH, lacks, *at_rest) == (INVALID, ["gone-early"])


def test_a_history_in_which_no_session_ends_says_too_little():
    verdict = EphemeralNodes(synced=True).check(history(*LIFE))
    assert (verdict.status, verdict.summary) == (
        UNKNOWN,
        "1 look at nodes of live sessions, 0 at those of ended ones: both expected",
    )


def test_the_witness_of_a_node_that_outlived_its_session_names_the_close_and_the_read():
    verdict = EphemeralNodes(synced=True).check(history(*LIFE, *DEATH, read(3, [1, 2], 8, 9)))
    assert verdict.summary == (
        "node 2 is in op #12 read on ch1, begun at 0.008 s, though its session was closed at "
        "0.003 s (op #7) on ch1"
    )


# --- watches ------------------------------------------------------------------------------------


def watched(seen, versions, events, begin):
    look = {"seen": seen, "versions": versions, "events": events}
    return call(9, "await-change", 0, look, begin, begin + 1)


FIRED = [watched(-1, [0], [0], 2 * at) for at in range(MIN_FIRED)]


@pytest.mark.parametrize(
    ("look", "kinds"),
    [
        ((3, [3, 3, 4, 5], [2]), []),
        ((3, [3, 3, 3], []), []),
        ((3, [3, 3, 3], [3]), []),
        ((3, [5, 7], [0]), []),
        ((3, [3, 4, 4], []), ["lost-event"]),
        ((3, [3, 4, 4], [2]), ["late"]),
        ((3, [3, 4, 5], [1, 2]), ["twice"]),
        ((3, [3, 3, 4], [1]), ["unfounded"]),
        ((3, [4, 3], [0]), ["backwards", "unfounded"]),
        ((-1, [-1, 0, 1], [1]), []),
    ],
)
def test_a_watch_fires_once_and_before_its_client_sees_the_change(look, kinds):
    status = INVALID if kinds else VALID
    assert kinds_of(Watches(), *FIRED, watched(*look, 100)) == (status, kinds)


def test_watches_that_did_not_fire_say_nothing():
    verdict = Watches().check(history(*FIRED[1:], watched(3, [3, 3], [], 100)))
    assert (verdict.status, verdict.summary) == (UNKNOWN, "9 watches fired, at least 10 expected")


def test_the_witness_of_a_late_watch_has_the_answers_and_the_event():
    verdict = Watches().check(history(*FIRED, watched(3, [3, 4, 4], [2], 100)))
    assert verdict.summary == (
        "op #20 await-change of key 0 on ch1: set at version 3, answers with versions 3, 4, 4, "
        "event after 2 answers, up to 0.101 s"
    )


@st.composite
def lives(draw):
    """Draw the life of one node, which is there from a moment to another, and reads of it that see
    what is there at a moment of theirs, or the contrary."""
    begin, took = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    made = begin + draw(st.integers(0, took))
    calls = [born(0, 1, begin, begin + took)]
    now = begin + took
    touches = []
    for _ in range(draw(st.integers(0, 3))):
        start = now + draw(st.integers(1, 3))
        now = start + draw(st.integers(1, 3))
        touches.append(start)
        calls.append(touch(0, 1, start, now))
    start = now + draw(st.integers(1, 3))
    end = start + draw(st.integers(1, 4))
    gone = draw(st.integers(start, end))
    calls.append(ended(0, [1], start, end))
    honest = True
    for reader in range(1, 1 + draw(st.integers(1, 4))):
        first, last = draw(st.integers(0, 12)), draw(st.integers(1, 6))
        last += first
        moment = draw(st.integers(first, last))
        there, lies = made <= moment < gone, draw(st.sampled_from((False, False, True)))
        honest = honest and not lies
        calls.append(read(reader, [1] if there != lies else [], first, last))
    return honest, history(*calls)


@settings(max_examples=300, deadline=None)
@given(lives())
def test_reads_of_what_is_there_at_a_moment_of_theirs_are_never_accused(life):
    honest, h = life
    if honest:
        assert EphemeralNodes(synced=True).check(h).status is not INVALID


@settings(max_examples=300, deadline=None)
@given(lives())
def test_a_read_is_accused_if_no_life_between_the_calls_explains_it(life):
    """The node is made and removed at some moment of create and close, each a half of a unit."""
    _, h = life
    create, *_, close = [pair for pair in h.pairs if pair.invoke.f in ("create", "close")]
    touches = [pair for pair in h.pairs if pair.invoke.f == "touch"]
    reads = [pair for pair in h.pairs if pair.invoke.f == "read"]
    half = MS // 2

    def explains(made, gone):
        spans = [(pair, range(pair.invoke.time_ns, pair.end.time_ns + 1, half)) for pair in reads]
        return all(
            any((made <= at < gone) == bool(pair.end.value) for at in span) for pair, span in spans
        )

    moments = [range(pair.invoke.time_ns, pair.end.time_ns + 1, half) for pair in (create, close)]
    explained = any(explains(made, gone) for made in moments[0] for gone in moments[1])
    accused = EphemeralNodes(synced=True).check(h).status is INVALID
    if explained:
        assert not accused
    if accused:
        assert not explained
    # What lies between the last touch and the close is not judged: the session may have ended.
    if not explained and touches:
        last = max(pair.invoke.time_ns for pair in touches)
        judged = [p for p in reads if p.end.time_ns < last or p.invoke.time_ns > close.end.time_ns]
        known = all(p.invoke.time_ns > create.end.time_ns for p in judged)
        if len(judged) == len(reads) and known:
            assert accused
