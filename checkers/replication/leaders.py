"""Checks that two replicas never believe at the same time that they lead a table.

A *claim* is a call "leads" to which a replica answered that it leads. Two claims of one replica of
which the second began at most `SANDWICH_NS` after the first had ended show that it led throughout:
to lose and win an election takes a new session, and longer.

Violated: between two such claims another replica claimed to lead, in a call that began after the
first had ended and ended before the second began ("both"); each first claim counts once. Doubtful:
fewer than two claims.

Two claims that overlap prove nothing, for the answer may be true at any moment of its call:
    p0 on ch1 begins     p1 on ch2 begins     p0 → true     ch1 loses     ch2 wins     p1 → true
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from sys import intern

import msgspec

from checkers.conclusion import Findings, anomaly
from checkers.look import decode
from checkers.phrasing import during, milliseconds, number, seconds
from harness.core.dialect import Mechanism
from harness.core.history import History
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict

LEADS = "leads"
SANDWICH_NS = 400_000_000
"""Maximum time between two claims of one replica to lead, within which it led throughout."""


class Claim(msgspec.Struct, frozen=True):
    """Answer to "leads"."""

    leads: bool = False
    """Whether the replica says that it leads."""


class Leaders:
    """Judges the calls "leads"."""

    name = "leaders"
    needs = (Mechanism.TABLE_LEADER,)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs at least two claims to lead."""
        claims = _claims(history)
        found = Findings(self.name, kinds=["both"])
        for sandwich in _sandwiches(claims):
            found.add_anomalies("both", _witness(history, claims, sandwich))
        nodes = sorted(set(claims.nodes))
        held = f"{number(len(claims.nodes), 'claim')} to lead, by {' '.join(nodes) or 'nobody'}"
        if len(claims.nodes) < 2:
            found.add_doubt(held)
        return found.verdict(
            checked=len(claims.nodes),
            held=held,
            figures={"claims": len(claims.nodes), "leaders": nodes},
        )


@dataclass(slots=True)
class _Claims:
    """Claims to lead, in the order in which they began."""

    places: "array[int]" = field(default_factory=lambda: array("I"))
    """Their places among all calls."""
    nodes: list[str] = field(default_factory=list)
    begins_ns: "array[int]" = field(default_factory=lambda: array("q"))
    ends_ns: "array[int]" = field(default_factory=lambda: array("q"))


def _claims(history: History) -> _Claims:
    out = _Claims()
    calls = history.calls(LEADS, kinds=(Kind.OK,))
    for place, pair in zip(calls.places, calls, strict=True):
        assert pair.end is not None, "an ok has an end"
        if decode(pair.end, Claim).leads:
            out.places.append(place)
            out.nodes.append(intern(str(pair.invoke.node)))
            out.begins_ns.append(pair.invoke.time_ns)
            out.ends_ns.append(pair.end.time_ns)
    return out


def _sandwiches(claims: _Claims) -> Iterator[tuple[int, int, int]]:
    """Yield two claims of one node with the first claim of another one between them, for each claim
    that has such, as (first, between, last)."""
    nodes, begins = claims.nodes, claims.begins_ns
    others = _next_others(nodes)
    of_node: dict[str, list[int]] = {}
    for at, node in enumerate(nodes):
        of_node.setdefault(node, []).append(at)
    for at, node in enumerate(nodes):
        end_ns = claims.ends_ns[at]
        near = bisect_right(begins, end_ns + SANDWICH_NS, at)
        own = of_node[node]
        last = own[bisect_left(own, near) - 1]
        between = bisect_right(begins, end_ns, at + 1)
        while between < last:
            if nodes[between] == node:
                between = others[between]
            elif claims.ends_ns[between] < begins[last]:
                yield at, between, last
                break
            else:
                between += 1


def _next_others(nodes: Sequence[str]) -> "array[int]":
    """Return, for each claim, the next one of another node, or the number of claims."""
    out = array("q", bytes(8 * len(nodes)))
    for at in range(len(nodes) - 1, -1, -1):
        after = at + 1
        same = after < len(nodes) and nodes[after] == nodes[at]
        out[at] = out[after] if same else after
    return out


def _witness(
    history: History, claims: _Claims, sandwich: tuple[int, int, int]
) -> Iterator[Anomaly]:
    first, other, last = (history.pairs[claims.places[at]] for at in sandwich)
    took_ns = last.invoke.time_ns - first.invoke.time_ns
    yield anomaly(
        "both",
        f"{first.invoke.node} and {other.invoke.node} both say at "
        f"{seconds(other.invoke.time_ns)} that they lead (within {milliseconds(took_ns)})"
        f"{during(history, other.invoke.time_ns)}",
        *(first, other, last),
        time_ns=other.invoke.time_ns,
    )
