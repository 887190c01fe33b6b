"""Planted bugs: each is one line away from the correct protocol, and off unless it is named."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from harness.core.errors import UsageError

BUGS: Mapping[str, str] = {
    "quorum-aba": "the end of a quorum compares versions only, so that it may end the next one; "
    "18.16.1 does so",
    "last-part-late": "`last_part` takes the number of the quorum that ended last, even if it "
    "is lower; 18.16.1 does so",
    "phantom-part": "an insert whose connection to ZooKeeper was lost keeps its part and shows it, "
    "though it may never be in the log; 18.16.1 does so",
    "broken-part-fetched": "a replica keeps a part that it fetched from one that could not read it "
    "any more and gave it up meanwhile, so that the others never get it; 18.16.1 does so",
    "lost-part-unreplaced": "a replica gives up a merged part that no replica has any more, and "
    "does not fetch the source parts that others still have; 18.16.1 does so",
    "clone-unwaited": "OPTIMIZE that is to wait for every replica does not wait for one that is "
    "being cloned; 18.16.1 does so",
    "stale-leader-claim": "a replica says that it leads until it looks at its session, which may "
    "have ended while it was paused; 18.16.1 does so",
    "optimize-unwaited": "OPTIMIZE that is to wait for every replica waits for the one that leads",
    "clone-keeps-dropped": "a lost replica keeps the parts of a partition that was dropped "
    "meanwhile; 18.16.1 does so",
    "clone-uncounted": "a part that a lost replica fetches since its source has it does not count "
    "for the part's pending quorum; 18.16.1 and 25.8 do so",
    "quorum-uncounted": "any replica that finds a quorum part on its disk ends the quorum, even "
    "its writer",
    "last-part-back": "`last_part` takes the smaller of two block numbers, so that it stays behind",
    "early-snapshot": "a select takes its parts before it looks which it must have, so that it "
    "misses one that came in between; 25.8 does so",
    "merged-away": "a merge may take the part that `last_part` names together with later ones, and "
    "reads leave out the whole; 25.8 does so",
    "lost-retry": "an insert whose max_execution_time ends while it looks up whether it was "
    "committed removes its part; 25.8 does so",
    "pending-merged": "a merge may take a part whose parallel quorum is pending, so that its rows "
    "stay when the quorum fails; 25.8 does so",
    "failed-duplicate": "a duplicate that waits for the quorum of the first insert is acknowledged "
    "when that quorum fails, too; 25.8 does so",
    "undone-alter": "an ALTER sets the columns to a list that is made from its replica's own, "
    "without checking whether they have changed; 18.16.1 does so",
    "ack-early": "a quorum insert is acknowledged when it is logged, not when a quorum has it",
    "dedup-per-replica": "a block id holds only for the replica that wrote it",
    "dedup-forgotten": "a replica that comes back forgets the blocks that were inserted before",
    "failed-part-kept": "a replica that comes back keeps the parts of failed quorums",
    "failed-part-missed": "a replica that comes back asks a ZooKeeper server that may lag which "
    "parts have failed, and before it is active, so that it may keep one; 18.16.1 does so",
    "failed-part-fetched": "a replica keeps a part that failed while the replica fetched it; "
    "18.16.1 does so",
    "truncate-max": "the log is cut at the largest pointer of the active replicas",
    "log-uncut": "the task that cuts the log asks only as it begins whether its replica leads, "
    "which is before the election",
    "clone-lost": "a lost replica may clone from a lost one",
    "lost-unmarked": "replicas that the log has left behind are not marked as lost",
    "clone-no-parts": "a clone copies the queue of its source and not its parts",
    "clone-unfinished": "a replica that clones is marked as not lost when it begins, so that a "
    "clone that is interrupted counts as done",
    "merge-order": "each replica keeps the rows of a merge in an order of its own",
    "merge-drops": "a merge forgets its last source part",
    "merge-gap": "a merge takes neighbours without asking what is being inserted between them",
    "mutation-late": "a mutation changes rows that were inserted after it",
    "fetch-torn": "a part becomes visible before all its rows have come",
    "session-immortal": "ZooKeeper never expires a session",
    "stale-leader-merges": "a replica that lost its leadership goes on choosing merges",
    "watch-missed": "one in eight ZooKeeper watches never fires",
    "keeper-unsynced": "a ZooKeeper server that is killed loses the last second of its log",
    "keeper-early-ack": "a ZooKeeper server acknowledges before its log is synced, so that a power "
    "cut takes the last second of it",
    "keeper-minority": "ZooKeeper commits what its leader alone has",
    "number-kept": "an insert that is tried again in a new session takes the block number that the "
    "old session had taken",
    "pointer-skips": "a replica's log pointer moves past an entry that it has not copied",
    "lock-after-send": "zero-copy: a fetch takes its first lock when it has the metadata and has "
    "seen the objects, which the source may have deleted by then; the first description did so",
    "delete-without-lock-check": "zero-copy: a replica deletes the objects of a part without "
    "asking who else has a lock",
    "unmarked-merge": "zero-copy: a merge takes no marker, so that each replica makes a copy",
    "downgrade": "zero-copy: a server that was restarted is of a version that does not know the "
    "locks",
    "attach-own-copy": "zero-copy: a replica makes the part of an ATTACH from its own detached "
    "copy, so that there are two; 25.8 does so",
    "copied-part": "zero-copy: a replica that cannot ask the store whether a part is there makes a "
    "copy of its own, so that there are two; 25.8 does so",
    "acknowledged-failure": "a quorum insert is acknowledged though its replica could not read the "
    "part and removed it, so that its quorum failed or lacks it; 18.16.1 and 25.8 do so",
    "fsync-ignored": "with --fsync inserts or all a server acknowledges parts that it has not "
    "synced",
    "fsync-error-ignored": "with --fsync inserts or all a server goes on when an fsync has failed, "
    "so that the part is never written",
    "torn-unchecked": "a part of which a power cut left some files is taken for whole, and has "
    "half of its rows",
    "flip-unchecked": "rows are read without their checksums, so that a flipped bit is another "
    "value",
    "eio-as-empty": "a select that cannot read its parts returns no rows",
    "short-write": "an insert whose part cannot be written, or not within half a second, commits "
    "it without its last row",
    "keeper-write-ignored": "a ZooKeeper server that cannot write its log acknowledges all the "
    "same, and has forgotten it when it is started again",
    "empty-disk-forgets": "a replica that starts without a part that it has registered removes the "
    "registration, and does not fetch the part",
    "old-disk-adopted": "a replica that starts registers the parts on its disk that ZooKeeper does "
    "not list, if they were visible when it ended, so that dropped rows come back",
    "replica-unfilled": "a new replica of a table that has rows begins at the end of the log, and "
    "clones no other",
    "removed-stale": "a ZooKeeper server that has left the ensemble gets nothing of the log any "
    "more, and still serves its clients",
    "role-loses-watches": "a ZooKeeper server that becomes an observer, or a participant again, "
    "keeps the connections of its clients and forgets their watches",
    "start-unfinished": "a replica that starts removes the registrations of its parts, and makes "
    "them again as it loads the parts, so that a start that is killed in between discards them",
    "ack-remembered": "ZooKeeper's leader sends a server that comes back only the entries after "
    "those that it once acknowledged, whatever is on its disk",
    "snapshot-without-log": "ZooKeeper's leader sends an empty server its last snapshot, and not "
    "the part of its log after that",
    "moved-away": "MOVE PARTITION TO TABLE copies the parts that its replica has, and drops those "
    "that it has not fetched yet as well; 25.8 does so",
    "hidden-by-move": "a replica that moves a partition hides the parts before it has logged that "
    "they are dropped, so that it alone lacks them if its session ends then; 25.8 does so",
    "half-moved": "MOVE PARTITION TO TABLE copies in one transaction and drops in another, so that "
    "the rows are in both tables between them, or for good; 25.8 does so",
    "stale-replace": "REPLACE and ATTACH PARTITION FROM copy the parts that their replica has, "
    "without what it has not executed yet; 25.8 does so",
    "unmutated-copy": "a part is copied to another table without the acknowledged mutations that "
    "it lacks; 25.8 does so",
    "copy-keeps-version": "a part that is copied from another table keeps the number of its last "
    "mutation there, and mutations of lower numbers skip it here",
    "drop-later": "a replica that executes a drop removes whatever the partition has by then",
    "crossed-copies": "REPLACE and ATTACH PARTITION FROM copy what they read before their first "
    "try, and do not check that the other table is still the same, so that two in opposite "
    "directions may exchange the rows; 25.8 does so",
    "replace-deduplicated": "REPLACE PARTITION leaves out parts whose rows an earlier ATTACH "
    "PARTITION FROM has brought, and which it is about to remove",
    "replace-keeps-range": "a replica that executes the REPLACE PARTITION of another one keeps "
    "what is replaced",
    "copy-skips-part": "a replica that executes the REPLACE, ATTACH FROM or MOVE of another one "
    "leaves out the first part",
    "inserts-uncancelled": "MOVE and REPLACE PARTITION do not cancel the inserts that have taken "
    "their numbers and not committed, so that these come and are removed with the rest",
    "partition-unversioned": "statements on whole partitions do not check that no other one has "
    "come in between",
    "move-drops-later": "MOVE PARTITION drops three more blocks than it has looked at",
    "doubled-view": "the table of a view takes the block of an insert that is sent again for new, "
    "unless the insert asks that it be deduplicated there; 25.8 does so",
    "view-forgets": "the table of a view takes the block of an insert that is sent again for new, "
    "also if the insert asks that it be deduplicated there",
    "view-skips-duplicate": "what an insert's table takes for a duplicate is not pushed to its "
    "views, so that a retry does not complete an insert that has reached the table alone",
    "ttl-whole-part": "a merge that finds a row which has expired removes all of its rows",
    "ttl-keeps": "merges keep the rows that have expired",
    "ttl-early": "merges remove rows an hour before they expire",
    "drop-unpaused": "a part is checked while a drop removes it, which queues a fetch of it when "
    "the drop has emptied the queue of its range",
    "forgotten-insert": "a block that is sent again is a duplicate although its rows were deleted "
    "by ALTER DELETE meanwhile, so that it adds nothing; 25.8 does so",
    "both-move": "zero-copy: a replica that moves a part to the store holds no marker, so that two "
    "may look and move; the first description did so",
    "dedup-own-clock": "the replica that removes old blocks takes its own clock for the present, "
    "not the newest block's date",
    "shed-quorum": "a server that is overloaded, so that a query has to wait before it begins, "
    "acknowledges a quorum insert when it is logged",
    "shortage-as-broken": "a replica that has no descriptor for a part's files takes the part for "
    "broken and removes it; 18.16.1 does so",
    "closed-as-lost": "a fetch whose source closes the connection, since it has too many, gives up "
    "the part",
    "unresolved-as-dead": "a fetch that cannot look up the name of its source gives up the part",
    "old-parts-by-wall": "the age of outdated parts is counted by the wall clock, so that they "
    "stay until one that was ahead shows that time again; 18.16.1 and 25.8 do so",
}
"""Description of each bug, by name."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """Protocol by which the replicas keep their table equal."""

    text: str
    version: str
    """Version whose settings, errors and statements the servers have."""
    defects: frozenset[str]
    """Bugs that belong to the protocol."""
    mechanisms: frozenset[str]
    """What its servers have and 18.16.1 lacks (`crates/simulator/src/protocol.rs`)."""
    reading: str
    """Meaning of `select_sequential_consistency` for queries that do not choose one."""


_OLD: Final = Protocol(
    "as 18.16.1, its defects included",
    "18.16.1",
    frozenset(
        {
            "quorum-aba",
            "last-part-late",
            "phantom-part",
            "failed-part-missed",
            "failed-part-fetched",
            "broken-part-fetched",
            "lost-part-unreplaced",
            "copied-part",
            "clone-unwaited",
            "clone-keeps-dropped",
            "clone-uncounted",
            "undone-alter",
            "stale-leader-claim",
            "shortage-as-broken",
            "old-parts-by-wall",
            "acknowledged-failure",
        }
    ),
    frozenset(),
    "server",
)
DEFAULT: Final = "18.16"
"""Protocol of servers whose reads do not need another."""
NEWEST: Final = "25.8"
"""Protocol of servers whose workload needs what those of `DEFAULT` lack."""
_TODAY: Final = replace(
    _OLD,
    text="as 25.8, its defects included",
    version="25.8.2",
    defects=_OLD.defects - {"clone-keeps-dropped", "undone-alter", "shortage-as-broken"}
    | {"early-snapshot", "merged-away", "lost-retry", "pending-merged", "failed-duplicate"}
    | {"attach-own-copy", "moved-away", "hidden-by-move", "half-moved", "stale-replace"}
    | {"unmutated-copy", "crossed-copies", "doubled-view", "forgotten-insert"},
    mechanisms=frozenset(
        {
            *("many-leaders", "own-wait", "insert-retries", "parallel-quorum"),
            *("duplicate-wait", "alter-in-log", "attach-entries", "atomic-databases"),
            *("copied-partitions", "empty-parts", "views", "row-ttl"),
        }
    ),
)


def _repaired(protocol: Protocol, version: str) -> Protocol:
    return replace(
        protocol,
        text=f"as {version} with linearizable reads, and none of those defects",
        defects=frozenset(),
        reading="linearizable",
    )


PROTOCOLS: Final[Mapping[str, Protocol]] = {
    DEFAULT: _OLD,
    NEWEST: _TODAY,
    "repaired": _repaired(_OLD, "18.16.1"),
    "repaired-25.8": _repaired(_TODAY, "25.8"),
}

OF_SERVERS: Final = frozenset[str]().union(*(one.defects for one in PROTOCOLS.values()))
"""Bugs that some real server has."""


def bugs(names: Iterable[str]) -> frozenset[str]:
    """Return the set of these bugs. Raises UsageError for an unknown name."""
    out = frozenset(names)
    for name in sorted(out):
        if name not in BUGS:
            raise UsageError(f"--bug {name!r}: expected some of {','.join(BUGS)}")
    return out
