"""Checks that no replica's position in the replication log goes back.

One process looks at the positions again and again, each time after a write of its own, so that each
look is no older than the one before.

Violated: from one look to the next a replica's pointer goes back, though the replica was not lost
and the version of its node "is_lost" is the same ("went-back"). That version changes when the
replica is marked lost and when it has cloned another. Doubtful: no pointer was seen to move.

A pointer goes back where a lost replica clones another, which may be behind its own old place:
    look: ch1 at 40, version 1     ch1 lost, clones ch2     look: ch1 at 35, version 3
Every pointer goes back where ZooKeeper is put back to an older copy, and no further than that copy,
which has what was there before it was asked for:
    look: ch1 at 40     copy     look: ch1 at 50     copy put back     look: ch1 at 40 or later
A pointer below 40 in the last look is a violation, and so is one below 50 before the copy is put
back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, UnsetType

from checkers.conclusion import Findings
from checkers.forgotten import rewinds
from checkers.look import decode
from checkers.phrasing import during, number, seconds
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Verdict

OBSERVE = "observe-log"


class LogPlace(msgspec.Struct, frozen=True):
    """ZooKeeper's record of one replica's position in the log."""

    pointer: int | None = None
    """Index of the next entry that it copies; None before its first."""
    lost: bool = False
    lost_version: int = -1
    """Version of the node "is_lost", which changes when the replica is marked lost and when it has
    cloned."""
    active: bool = False
    steady: bool | UnsetType = UNSET
    """Whether all of this was so at one moment after the first entry was read."""


class LogLook(msgspec.Struct, frozen=True):
    """Look at the log."""

    first: int | UnsetType | None = UNSET
    """Index of its first entry; None if it has none."""
    entries: int | UnsetType = UNSET
    """Number of entries, just before."""
    replicas: dict[str, LogPlace] = {}


@dataclass(frozen=True, slots=True)
class _Pointer:
    """A replica's pointer in one look."""

    at: int
    place: LogPlace
    op: Op


class LogPointers:
    """Judges the calls "observe-log"."""

    name = "log-pointers"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a pointer that moved."""
        seen: dict[str, list[_Pointer]] = {}
        found = Findings(self.name, kinds=["went-back"])
        moved = looks = forgotten = 0
        for _, end in history.answered(OBSERVE):
            looks += 1
            for node, place in decode(end, LogLook).replicas.items():
                if place.pointer is None:
                    continue
                earlier, now = seen.setdefault(node, []), _Pointer(place.pointer, place, end)
                if earlier:
                    before = earlier[-1]
                    moved += now.at > before.at
                    was = before.place
                    cloned = place.lost_version != was.lost_version or was.lost
                    if now.at < before.at and not cloned:
                        if _is_forgotten(history, earlier, now):
                            forgotten += 1
                        else:
                            _add(found, history, node, before, now)
                earlier.append(now)
        rewound = f" but {forgotten} that ZooKeeper had forgotten" if forgotten else ""
        return found.verdict(
            checked=moved,
            nothing="no pointer was seen to move",
            held=f"{number(moved, 'step')} of {number(len(seen), 'replica')}, none back{rewound}",
            figures={"looks": looks, "steps": moved, "forgotten": forgotten},
        )


def _is_forgotten(history: History, earlier: Sequence[_Pointer], now: _Pointer) -> bool:
    """Return whether ZooKeeper was put back since a replica's last look, to a copy in which its
    pointer was no further than it is now."""
    for rewind in rewinds(history):
        if earlier[-1].op.time_ns <= rewind.over_ns and rewind.end_ns <= now.op.time_ns:
            copied = [one.at for one in earlier if one.op.time_ns < rewind.asked_ns]
            if not copied or copied[-1] <= now.at:
                return True
    return False


def _add(found: Findings, history: History, node: str, before: _Pointer, now: _Pointer) -> None:
    text = (
        f"log_pointer of {node} went from {before.at} (op #{before.op.index}) to "
        f"{now.at} (op #{now.op.index} at {seconds(now.op.time_ns)}) and it had cloned "
        f"nobody{during(history, now.op.time_ns)}"
    )
    found.add_anomaly("went-back", text, before.op, now.op)
