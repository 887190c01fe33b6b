"""A bisection finds where a bug of a known rate begins and ends, and never says more than its tries
do."""

from collections.abc import Callable, Mapping, Sequence
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.seed import Seed
from harness.run.rates import interval, lower_bound, misses_needed
from harness.run.trial import INCONCLUSIVE_MAX, TryCounts, TryResult
from harness.search.bisection import (
    SEARCH_TRIES,
    TRIES_MAX,
    Bisection,
    Boundary,
    Standing,
)

HIT, MISS, UNKNOWN, BROKE = (
    TryResult.REPRODUCED,
    TryResult.NOT_REPRODUCED,
    TryResult.UNKNOWN,
    TryResult.BROKE_OFF,
)
FOUR = ("18", "24", "25", "26")


@pytest.mark.parametrize(
    ("hits", "tries", "low", "high"),
    [  # of published tables of Clopper and Pearson's interval, 95 %
        (0, 10, 0.0, 0.3085),
        (1, 10, 0.0025, 0.4450),
        (5, 10, 0.1871, 0.8129),
        (10, 10, 0.6915, 1.0),
        (0, 3, 0.0, 0.7076),
        (0, 0, 0.0, 1.0),
        (7, 100, 0.0286, 0.1389),
    ],
)
def test_an_interval_is_that_of_clopper_and_pearson(
    hits: int, tries: int, low: float, high: float
) -> None:
    assert interval(hits, tries, 0.95) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.001, 0.4))
def test_a_bound_grows_with_the_hits_and_holds_their_share(n: int, k: int, alpha: float) -> None:
    hits = min(k, n)
    low = lower_bound(hits, n, alpha)
    assert low <= hits / n
    assert low >= lower_bound(hits - 1, n, alpha)
    if hits == n:
        assert low == pytest.approx(alpha ** (1 / n))


def test_the_tries_that_a_rate_asks_for() -> None:
    assert [misses_needed(rate, 0.01) for rate in (0, 1, 0.5, 0.995)] == [inf, 1, 7, 1]
    assert (
        (1 - 0.1) ** misses_needed(0.1, 0.01) <= 0.01 < (1 - 0.1) ** (misses_needed(0.1, 0.01) - 1)
    )


def played(decision: Bisection, server: Callable[[str, int], TryResult]) -> list[str]:
    """Return the versions in the order in which they were tried; the server knows the number of
    the try."""
    tried: list[str] = []
    while (version := decision.next()) is not None:
        decision.take(version, server(version, len(tried)))
        tried.append(version)
        assert len(tried) <= TRIES_MAX * len(decision.versions), "it asks for ever"
    return tried


def always(results: Mapping[str, TryResult]) -> Callable[[str, int], TryResult]:
    return lambda version, _: results[version]


def rated(rates: Mapping[str, float], seed: Seed) -> Callable[[str, int], TryResult]:
    return lambda version, number: HIT if seed.unit(number) < rates[version] else MISS


def fixed(bad: str, good: str | None, *between: str) -> Boundary:
    return Boundary(fixed=True, bad=bad, good=good, between=between)


def introduced(bad: str, good: str | None, *between: str) -> Boundary:
    return Boundary(fixed=False, bad=bad, good=good, between=between)


@pytest.mark.parametrize(
    ("results", "boundaries", "decided"),
    [
        ([HIT, MISS, MISS, MISS], [fixed("18", "24")], True),
        ([HIT, HIT, MISS, MISS], [fixed("24", "25")], True),
        ([HIT, HIT, HIT, MISS], [fixed("25", "26")], True),
        ([HIT, HIT, HIT, HIT], [], True),
        ([MISS, MISS, MISS, HIT], [introduced("26", "25")], True),
        ([MISS, HIT, HIT, HIT], [introduced("24", "18")], True),
        ([MISS, HIT, HIT, MISS], [fixed("25", "26"), introduced("24", "18")], True),
        ([MISS, MISS, MISS, MISS], None, False),
        # What says nothing is never taken for fixed.
        ([HIT, UNKNOWN, MISS, MISS], [fixed("18", "25", "24")], False),
        ([HIT, BROKE, BROKE, MISS], [fixed("18", "26", "24", "25")], False),
        ([HIT, UNKNOWN, BROKE, UNKNOWN], [fixed("18", None, "24", "25", "26")], False),
        ([HIT, HIT, MISS, UNKNOWN], [fixed("24", "25")], True),
        ([HIT, MISS, HIT, UNKNOWN], [fixed("25", None, "26")], False),
        ([UNKNOWN, HIT, MISS, MISS], [fixed("24", "25"), introduced("24", None, "18")], False),
        ([UNKNOWN, BROKE, UNKNOWN, BROKE], None, False),
    ],
)
def test_of_a_certain_bug_the_answer_is_exact(
    results: Sequence[TryResult], boundaries: Sequence[Boundary] | None, decided: bool
) -> None:
    decision = Bisection(FOUR)
    played(decision, always(dict(zip(FOUR, results, strict=True))))
    answer = decision.answer()
    assert (answer.reference is None) is (boundaries is None)
    assert list(answer.boundaries) == list(boundaries or [])
    assert answer.decided is decided


def test_it_halves() -> None:
    versions = [str(i) for i in range(64)]
    decision = Bisection(versions)
    tried = played(decision, always({v: HIT if int(v) < 21 else MISS for v in versions}))
    assert decision.answer().boundaries == (fixed("20", "21"),)
    assert len(set(tried)) <= 2 + 6


def test_the_tries_of_a_version_follow_each_other() -> None:
    """Each version then needs only one cluster."""
    tried = played(Bisection(FOUR), always(dict(zip(FOUR, (HIT, HIT, MISS, MISS), strict=True))))
    stretches = [v for before, v in zip(["", *tried], tried, strict=False) if before != v]
    assert stretches == ["18", "26", "25", "24"]


def test_a_version_that_is_refused_is_undecided() -> None:
    decision = Bisection(FOUR)
    decision.refuse("26", "needs leaders")
    played(decision, always({"18": HIT, "24": HIT, "25": MISS}))
    assert decision.answer().boundaries == (fixed("24", "25"),)
    decision = Bisection(FOUR)
    for version in FOUR:
        decision.refuse(version, "needs leaders")
    assert decision.next() is None
    assert not decision.answer().decided


def test_a_run_is_first_repeated_on_its_own_version() -> None:
    decision = Bisection(FOUR, suspect="25")
    tried = played(decision, always({"18": MISS, "24": MISS, "25": HIT, "26": MISS}))
    assert tried[0] == "25"
    assert decision.answer().boundaries == (fixed("25", "26"), introduced("25", "24"))


def test_a_few_tries_that_say_nothing_are_made_up_for() -> None:
    odd = {3: UNKNOWN, 5: BROKE}
    decision = Bisection(FOUR)
    played(decision, lambda v, number: odd.get(number, HIT if v == "18" else MISS))
    assert decision.answer().boundaries == (fixed("18", "24"),)
    assert TryCounts.of([UNKNOWN] * INCONCLUSIVE_MAX).stuck
    assert not TryCounts.of([UNKNOWN] * INCONCLUSIVE_MAX + [MISS] * INCONCLUSIVE_MAX).stuck


def test_with_too_few_tries_a_version_is_undecided_and_says_how_many_are_needed() -> None:
    decision = Bisection(FOUR, confidence=0.99, tries=5)
    played(decision, always({"18": HIT, "24": MISS, "25": MISS, "26": MISS}))
    assert decision.needed is not None
    assert decision.needed > 5
    assert {decision.standing(v) for v in FOUR[1:]} == {Standing.UNDECIDED}
    assert decision.answer().boundaries == (fixed("18", None, *FOUR[1:]),)


def test_a_number_of_tries_says_which_confidence_it_has() -> None:
    reached = []
    for tries in (1, 3, 10, 30):
        decision = Bisection(FOUR, confidence=None, tries=tries)
        tried = played(decision, always({"18": HIT, "24": MISS, "25": MISS, "26": MISS}))
        assert len(tried) == 4 * tries
        assert decision.answer().boundaries == (fixed("18", "24"),)
        reached.append(decision.answer().confidence)
    assert reached == sorted(reached)
    assert reached[0] < 0.2 < 0.9 < reached[2] < reached[3] < 1
    # The same tries are enough where that confidence is asked for, and are not for more.
    for confidence, enough in ((reached[2] - 1e-6, True), (reached[2] + 1e-6, False)):
        decision = Bisection(FOUR, confidence=confidence, tries=10)
        played(decision, always({"18": HIT, "24": MISS, "25": MISS, "26": MISS}))
        assert decision.answer().decided is enough


@pytest.mark.parametrize("rate", [1.0, 0.6, 0.25])
def test_an_answer_is_wrong_no_more_often_than_its_confidence_says(rate: float) -> None:
    """Each case has 300 simulated servers; the bug ends anywhere in the list, or nowhere."""
    wrong = undecided = 0
    rounds, confidence = 300, 0.9
    for number in range(rounds):
        seed = Seed(1).child("bisection", str(rate), number)
        first_good = 1 + seed.below(0, 4)
        decision = Bisection(FOUR, confidence=confidence, tries=200)
        rates = {v: rate if i < first_good else 0.0 for i, v in enumerate(FOUR)}
        played(decision, rated(rates, seed.child("tries")))
        answer = decision.answer()
        if answer.reference is None:  # the search gave up on a rare bug
            undecided += 1
            continue
        assert all(FOUR.index(one.bad) < first_good for one in answer.boundaries)
        goods = [FOUR.index(one.good) for one in answer.boundaries if one.good is not None]
        wrong += any(good < first_good for good in goods)
        undecided += not answer.decided
        if not any(good < first_good for good in goods) and answer.decided:
            expected = [] if first_good == 4 else [fixed(FOUR[first_good - 1], FOUR[first_good])]
            assert list(answer.boundaries) == expected
    assert wrong <= (1 - confidence) * rounds
    assert undecided <= 0.06 * rounds


@settings(max_examples=60)
@given(
    st.integers(2, 9),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(0, 2**32),
    st.sampled_from([0.0, 0.1, 0.4]),
)
def test_whatever_the_servers_do_it_ends_and_what_it_calls_bad_is(
    length: int, begins: int, ends: int, seed: int, noise: float
) -> None:
    versions = [str(i) for i in range(length)]
    draws = Seed(seed)

    def server(version: str, number: int) -> TryResult:
        if draws.child("noise").unit(number) < noise:
            return (UNKNOWN, BROKE)[draws.child("kind").below(number, 2)]
        return HIT if begins <= int(version) < ends and draws.unit(number) < 0.8 else MISS

    decision = Bisection(versions, tries=60)
    tried = played(decision, server)
    answer = decision.answer()
    assert (answer.reference is None) or begins <= int(answer.reference) < ends
    for one in answer.boundaries:
        assert begins <= int(one.bad) < ends
        assert one.good is None or decision.tally(one.good).hits == 0
        assert all(decision.standing(v) is not Standing.BAD for v in one.between)
    if answer.reference is None:
        assert all(
            decision.tally(v).misses >= SEARCH_TRIES or decision.tally(v).stuck for v in versions
        )
    assert tried


@given(st.integers(0, 40))
def test_what_is_known_in_the_middle_is_true(stop_after: int) -> None:
    """After Ctrl-C, versions that were not tried are between the bounds, never good."""
    decision = Bisection(FOUR)
    server = always({"18": HIT, "24": HIT, "25": MISS, "26": MISS})
    for number in range(stop_after):
        version = decision.next()
        if version is None:
            break
        decision.take(version, server(version, number))
    answer = decision.answer()
    finished = decision.next() is None
    assert answer.decided is finished
    for one in answer.boundaries:
        assert one.bad in ("18", "24")
        assert one.good in (None, "25", "26")
