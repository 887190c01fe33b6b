"""Levels that were promised, levels that held, and verdicts that decide."""

import json

import pytest
from checkers_cases import final, histories, history, insert, read, rest, sound_histories
from hypothesis import given
from hypothesis import strategies as st

from checkers.consistency.session import SESSION_GUARANTEES
from checkers.health import Health
from checkers.judge import judge
from checkers.ladder import CHECKERS_OF, Level, Rung, decides, deciding, ladder_of, run_status
from checkers.suite import set_checkers
from harness.core.errors import UsageError
from harness.core.verdict import Anomaly, Status, Verdict

WITNESS = Anomaly(kind="cycle", text="x", ops=(0,))
SESSION = CHECKERS_OF[Level.SESSION]


def said(checker: str, letter: str, **figures) -> Verdict:
    status = {"v": Status.VALID, "u": Status.UNKNOWN, "i": Status.INVALID}[letter]
    anomalies = (WITNESS,) if letter == "i" else ()
    return Verdict(
        checker=checker,
        status=status,
        summary=f"{checker} says {status}",
        checked=1,
        anomalies=anomalies,
        figures=figures,
    )


def verdicts(letters: str) -> list[Verdict]:
    """Return the verdicts of linearizable, sequential, all session guarantees, convergence,
    set-full and stats."""
    lin, seq, session, conv, full, stats = letters
    return [
        said("linearizable", lin),
        said("sequential", seq),
        *(said(name, session) for name in SESSION),
        said("convergence", conv),
        said("set-full", full),
        said("stats", stats),
    ]


# What the checkers say (as in `verdicts`); then, for each promise from the strongest, the run's
# status; then the four rungs; then the strongest level that held.
CASES = [
    ("vvvvvv", "vvvv", "vvvv", "linearizable"),
    ("ivvvvv", "ivvv", "ivvv", "sequential"),
    ("iivvvv", "iivv", "iivv", "session"),
    ("iiivvv", "iiiv", "iiiv", "eventual"),
    ("iiiivv", "iiii", "iiii", None),
    ("vvvivv", "iiii", "vvvi", None),
    ("vvvviv", "iiii", "vvvi", None),
    ("vvvvvu", "uuuu", "vvvv", "linearizable"),
    ("vvvuvv", "uuuu", "vvvu", None),
    # A stronger level that held implies the weaker that could not tell; it decides nothing else.
    ("vuuvvv", "vvvv", "vvvv", "linearizable"),
    ("uvuvvv", "uvvv", "uvvv", "sequential"),
    ("uuuvvv", "uuuv", "uuuv", "eventual"),
    # A weaker level that was violated violates the stronger that could not tell.
    ("uivvvv", "iivv", "iivv", "session"),
    ("uuivvv", "iiiv", "iiiv", "eventual"),
]


@pytest.mark.parametrize(("letters", "runs", "rungs", "held"), CASES)
def test_what_decides(letters, runs, rungs, held):
    given_ = verdicts(letters)
    got = ""
    for level in Level:
        ladder = ladder_of(level, given_)
        got += run_status(ladder, given_).value[0].lower()
        assert "".join(rung.status.value[0].lower() for rung in ladder.rungs) == rungs
        assert ladder.held == held
        assert ladder.contradictions == ()
    assert got == runs


def test_a_rung_says_who_decided_it():
    ladder = ladder_of(Level.SEQUENTIAL, verdicts("uuivvv"))
    names = ", ".join(SESSION)
    texts = "; ".join(f"{name} says INVALID" for name in SESSION)
    assert ladder.rungs == (
        Rung(Level.LINEARIZABLE, Status.INVALID, False, names, f"session is violated: {texts}"),
        Rung(Level.SEQUENTIAL, Status.INVALID, True, names, f"session is violated: {texts}"),
        Rung(Level.SESSION, Status.INVALID, True, names, texts),
        Rung(
            Level.EVENTUAL,
            Status.VALID,
            True,
            "convergence, set-full",
            "convergence says VALID; set-full says VALID",
        ),
    )


def test_a_level_needs_all_of_its_checkers_and_one_without_any_is_left_out():
    ladder = ladder_of(Level.EVENTUAL, [said(SESSION[0], "v"), said("convergence", "v")])
    assert [(rung.level, rung.status, rung.text) for rung in ladder.rungs] == [
        (Level.SESSION, Status.UNKNOWN, f"not judged: {', '.join(SESSION[1:])}"),
        (Level.EVENTUAL, Status.UNKNOWN, "not judged: set-full"),
    ]
    assert ladder.held is None


def test_stale_reads_alone_leave_the_eventual_level_held():
    given_ = [said("convergence", "v"), said("set-full", "i", eventual="VALID")]
    (rung,) = ladder_of(Level.LINEARIZABLE, given_).rungs
    assert (rung.level, rung.status) == (Level.EVENTUAL, Status.VALID)
    assert rung.text.endswith("no acknowledged value is lost")


CONTRADICTIONS = {
    "viivvv": [
        "linearizable is VALID and sequential, which it implies, is INVALID",
        "linearizable is VALID and session, which it implies, is INVALID",
    ],
    "ivivvv": ["sequential is VALID and session, which it implies, is INVALID"],
}


@pytest.mark.parametrize(("letters", "expected"), CONTRADICTIONS.items())
def test_checkers_that_contradict_each_other_are_told(letters, expected):
    ladder = ladder_of(Level.EVENTUAL, verdicts(letters))
    assert list(ladder.contradictions) == expected
    assert run_status(ladder, verdicts(letters)) is Status.UNKNOWN


def test_set_full_and_linearizable_are_held_against_each_other():
    given_ = [said("linearizable", "v"), said("set-full", "v", stale_reads=2)]
    ladder = ladder_of(Level.EVENTUAL, given_)
    assert ladder.contradictions == ("linearizable is VALID and set-full counts stale_reads",)


def test_a_checker_of_no_level_decides_unless_it_only_reports():
    given_ = [*verdicts("vvvvvv"), said("durability", "i")]
    assert all(decides(level, Health(only_reports=False)) for level in Level)
    assert not any(decides(level, Health()) for level in Level)
    ladder = ladder_of(Level.EVENTUAL, given_)
    assert run_status(ladder, given_) is Status.INVALID
    names = {verdict.checker for verdict in deciding(ladder, given_)}
    assert names == {"convergence", "set-full", "stats", "durability"}


def test_a_level_that_is_none_is_refused():
    with pytest.raises(UsageError, match="consistency 'strong': expected one of linearizable, "):
        Level.named("strong")


ANY = st.one_of(
    histories(calls=9),
    histories(calls=12, keys=2, ties=False),
    histories(calls=9, unique=False),
    sound_histories(),
    sound_histories(lag=1),
    sound_histories(lag=3),
)


@given(ANY, st.sampled_from(Level))
def test_stronger_levels_imply_weaker_ones(h, promise):
    judged = judge(h, set_checkers(promise, faults_expected=False), 10.0, promise)
    status = {verdict.checker: verdict.status for verdict in judged.verdicts}
    assert judged.ladder.contradictions == ()
    if status["linearizable"] is Status.VALID:
        assert status["sequential"] is Status.VALID
    if status["sequential"] is Status.VALID:
        assert all(status[g.name] is not Status.INVALID for g in SESSION_GUARANTEES)
    chain = [rung.status for rung in judged.ladder.rungs[:3]]
    assert chain == sorted(chain, key=lambda s: -s.severity)
    if status["linearizable"] is Status.VALID:
        assert judged.ladder.rungs[3].status is not Status.INVALID


@given(ANY)
def test_a_weaker_promise_is_never_judged_harder(h):
    severities = [
        judge(h, set_checkers(level, faults_expected=False), 10.0, level).status.severity
        for level in Level
    ]
    assert severities == sorted(severities, reverse=True)


def test_a_run_whole():
    """One replica shows an acknowledged value late: sequential, not linearizable."""
    h = history(
        *(insert(0, v, 20 * v, 20 * v + 10) for v in range(12)),
        read(0, range(12), 300, 310),
        read(1, range(11), 300, 310, node="ch2"),
        *(read(1, range(12), 320 + 20 * i, 330 + 20 * i, node="ch2") for i in range(10)),
        insert(1, 12, 600, 610, node="ch2"),
        rest(700),
        final(0, range(13), 800, 810),
        final(1, range(13), 800, 810, node="ch2"),
    )
    expected = {"linearizable": "INVALID"}
    for promise in Level:
        judged = judge(h, set_checkers(promise, faults_expected=False), 10.0, promise)
        assert judged.status == expected.get(promise.value, "VALID")
        assert judged.ladder.held is Level.SEQUENTIAL
        told = json.loads(json.dumps(judged.results()))
        assert told["ladder"]["held"] == "sequential"
        assert [rung["promised"] for rung in told["ladder"]["rungs"]] == [
            promise.demands(level) for level in Level
        ]
        assert {v["checker"]: v["status"] for v in told["verdicts"]} == {
            "stats": "VALID",
            "set-full": "INVALID" if promise is Level.LINEARIZABLE else "VALID",
            "convergence": "VALID",
            "linearizable": "INVALID",
            "sequential": "VALID",
            **dict.fromkeys(SESSION, "VALID"),
        }
