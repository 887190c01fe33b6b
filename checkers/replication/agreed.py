"""Reads what replicas and ZooKeeper agreed on: facts from ZooKeeper's transaction log.

A call "transactions" at rest returns `AgreedFacts`. A fact is a list: its name, the transaction's
number (zxid), then the fields below. Facts are in ZooKeeper's order.

begin    the quorum insert of PART was committed, and needs REPLICAS
end      /quorum stopped naming PART, which is when its client is answered
fail     the quorum of PART failed
last     /quorum/last_part names PART for PARTITION from now on
hold     PART was registered on REPLICA, at wall-clock time MS
drop     PART was removed from REPLICA, at wall-clock time MS
number   in PARTITION block NUMBER was taken by SESSION
release  in PARTITION block NUMBER was given back by SESSION, by its commit or without one
commit   PART was put into the log by SESSION
expire   SESSION, which had taken a number, ended
assign   an entry of KIND, made by the replica SOURCE, makes PART while LEADER led; of a
         REPLACE_RANGE and a drop it is a part that covers what is removed
copy     a REPLACE_RANGE of the replica SOURCE makes PART of OTHER, a part in DATABASE
mutation the replica SOURCE made a mutation, which executes COMMANDS on the blocks below NUMBERS,
         one for each partition
query    a Replicated database below the table has the statement NAME in its log
executed REPLICA has executed the statement NAME of that database
leads    REPLICA leads from now on: "*" if all do, "" if nobody does
columns  the table's columns are NAMES
applied  those that REPLICA has are NAMES
active   REPLICA became active
inactive the session by which REPLICA was active has ended, or another one is
lost     REPLICA is marked lost, or with LOST false no longer
lock     REPLICA has a lock of PART, whose objects are those of BLOB; with EPHEMERAL true it goes
         with the session
unlock   REPLICA has no lock of PART with BLOB any more
claim    REPLICA alone merges or mutates into PART, on an object store
unclaim  it does so no more; EXPIRED says whether its session ended
barrier  an observer wrote its barrier, at wall-clock time MS
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from checkers.look import decode
from harness.core.history import History, memoize_per_history
from harness.core.op import Kind, Op

TRANSACTIONS: Final = "transactions"
Fact: TypeAlias = Sequence[Any]


class AgreedFacts(msgspec.Struct, frozen=True):
    """Look at ZooKeeper's transaction log."""

    gaps: list[str] | UnsetType = UNSET
    """What is missing from the log, a sentence each."""
    facts: list[Fact] | UnsetType = UNSET
    unavailable: str | UnsetType = UNSET
    """Why the cluster has no such log, in place of the others."""


class Agreed:
    """The facts of one history."""

    def __init__(self, op: Op | None) -> None:
        look = AgreedFacts() if op is None else decode(op, AgreedFacts)
        self.op = op
        """The op that says so; None if there is none."""
        self.every: Sequence[Fact] = look.facts or ()
        self.doubts: tuple[str, ...] = _doubts(op, look)
        """Reasons why nothing is concluded from the facts."""
        self._by_name: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.every:
            self._by_name[fact[0]].append(fact)

    def named(self, *names: str) -> Sequence[Fact]:
        """Return the facts with one of these names, in order."""
        if len(names) == 1:
            return self._by_name.get(names[0], ())
        return [fact for fact in self.every if fact[0] in names]


@memoize_per_history
def agreed_of(history: History) -> Agreed:
    """Return the facts of the last call "transactions" that was answered."""
    answered = history.calls(TRANSACTIONS, kinds=(Kind.OK,))
    return Agreed(answered[-1].end if answered else None)


def _doubts(op: Op | None, look: AgreedFacts) -> tuple[str, ...]:
    if op is None:
        return ("nobody read ZooKeeper's transaction log",)
    if look.unavailable is not UNSET:
        return (f"no transaction log of ZooKeeper: {look.unavailable}",)
    return tuple(f"ZooKeeper's transaction log has a gap: {gap}" for gap in look.gaps or ())
