"""The live counters end where set-full ends."""

from checkers_cases import fault, histories, history, insert, read, sound_histories
from hypothesis import given
from hypothesis import strategies as st

from checkers.sets.live import LiveAnomalies
from checkers.sets.set_full import SetFull


def fed(h):
    live = LiveAnomalies()
    counts = []
    for op in h:
        live.feed(op)
        counts.append((live.stale_reads, live.missed, live.duplicated))
    return counts


def test_a_miss_is_counted_when_the_read_ends():
    h = history(
        insert(0, 1, 0, 10),
        insert(1, 2, 0, 10),
        fault(15, 16),
        read(2, [], 20, 30),
        read(2, [1], 40, 50),
        read(3, [1, 2, 2], 60, 70),
    )
    assert fed(h) == [(0, 0, 0)] * 9 + [(1, 2, 0)] * 2 + [(2, 2, 0)] * 2 + [(2, 2, 1)]


def test_the_first_anomaly_is_that_of_the_first_read_that_shows_one():
    live = LiveAnomalies()
    good, twice, stale = read(1, [1], 20, 30), read(1, [1, 1], 40, 50), read(1, [], 60, 70)
    h = history(insert(0, 1, 0, 10), good, twice, stale)
    times = []
    for op in h:
        live.feed(op)
        times.append(live.first_ns)
    assert times == [None] * 5 + [50_000_000] * 3


def test_a_read_at_the_nanosecond_of_the_ack_is_concurrent():
    h = history(insert(0, 1, 0, 10), read(1, [], 10, 20), read(1, [], 21, 30))
    assert [stale for stale, _, _ in fed(h)] == [0, 0, 0, 0, 0, 1]


@given(st.one_of(histories(keys=2, calls=14, unique=False), sound_histories(lag=2)))
def test_it_agrees_with_set_full(h):
    live = LiveAnomalies()
    for op in h:
        live.feed(op)
    figures = SetFull(linearizable=True).check(h).figures
    assert (live.stale_reads, live.missed, live.duplicated) == (
        figures["stale_reads"],
        figures["missed"],
        figures["duplicated"],
    )
