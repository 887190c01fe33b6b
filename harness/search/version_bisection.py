"""Bisection over server versions: its tries, and what it concludes in words."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import floor

from harness.run.trial import Trial
from harness.search.bisection import Answer, Bisection, Boundary
from harness.search.version_tries import Player, VersionTries


def bisect_versions(
    player: Player, decision: Bisection, by_name: Mapping[str, VersionTries]
) -> None:
    """Play tries on the version that the bisection names next, until it has decided or a stop is
    requested."""

    def take(on: VersionTries, one: Trial) -> None:
        decision.take(on.name, one.result)
        player.on_try(on, one)

    counting, stop = replace(player, on_try=take), player.stop
    while not stop and (name := decision.next()) is not None:
        on = by_name[name]
        counting.play(on, partial(_asks_for, decision, name))
        if not stop and decision.next() == name:
            decision.refuse(name, on.missing or on.unbuilt or "its cluster crashes")


def _asks_for(decision: Bisection, name: str) -> bool:
    return decision.next() == name


def conclude(answer: Answer, by_name: Mapping[str, VersionTries]) -> list[str]:
    """Return the conclusion of all tries, a line for each boundary."""
    exact = {name: on.exact for name, on in by_name.items()}
    names = list(by_name)
    if answer.reference is None:
        return ["not reproduced on any version, so that there is nothing to bisect"]
    if not answer.boundaries:
        return [f"neither introduced nor fixed: {exact[names[0]]} and {exact[names[-1]]} are bad"]
    return [_describe(one, exact, answer.confidence) for one in answer.boundaries]


def _describe(one: Boundary, exact: Mapping[str, str], confidence: float) -> str:
    what, last = ("fixed", "last bad") if one.fixed else ("introduced", "last good")
    unknown = ", ".join(exact[name] for name in one.between)
    if one.good is None:
        way = "after" if one.fixed else "before"
        return f"undecided {way} {exact[one.bad]}, which is bad: {unknown} UNKNOWN"
    first, second = (one.good, one.bad) if one.fixed else (one.bad, one.good)
    sure = f"confidence {round_down(confidence)}"
    if one.between:
        old, new = second, first
        return (
            f"{what} between {exact[old]} and {exact[new]}, {sure}; undecided where: {unknown} "
            "UNKNOWN"
        )
    return f"{what} in {exact[first]} ({last} {exact[second]}), {sure}"


def round_down(confidence: float) -> str:
    """Return the confidence with two to six digits, without trailing zeros, rounded down."""
    digits = 3 if confidence < 0.999 else 6
    units = floor(confidence * 10**digits + 1e-6)
    whole, _, rest = f"{units / 10**digits:.{digits}f}".partition(".")
    return f"{whole}.{rest.rstrip('0'):0<2}"
