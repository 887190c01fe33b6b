"""The known defects of real servers, as docs/track-record.md has them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.core.dialect import FIRST, Version

_TODAY: Final = Version(24, 8)
"""The oldest version after 18.16.1 that was examined."""
_UNPROMISED: Final = frozenset({"half-moved", "missed-view", "stale-replace"})
"""Defects that break what nobody promises."""
OF_ZOOKEEPER: Final = "a defect of ZooKeeper"
"""Status of defects whose versions are not ClickHouse's."""
_PATCHES: Final = Version(25, 7)
"""The first version whose UPDATE writes patch parts."""


@dataclass(frozen=True, slots=True)
class KnownDefect:
    """A defect that was traced, and the versions that have it."""

    name: str
    """Name of its entry in the track record."""
    since: Version
    """The first version on which it was seen."""
    fixed: Version | None
    """The first version without it; None if there is none."""
    source: str
    """Upstream's report, or the function of the server whose code has it; "" if neither is
    known."""
    text: str
    setting: str = ""
    """The option that servers have it by, and the one that they do not, if it is no defect."""

    @property
    def status(self) -> str:
        """Return what else it is than the break of a promise; "" if it is one."""
        if self.source.startswith("ZOOKEEPER-"):
            return OF_ZOOKEEPER
        if "documented" in self.source:
            return "documented"
        return "nobody promises otherwise" if self.name in _UNPROMISED else ""

    def in_(self, version: Version) -> bool:
        """Return whether the version has the defect."""
        return version.within(self.since, self.fixed)

    @property
    def versions(self) -> str:
        """Return the versions that have it: "all", "since 24.8", "until 20.3"."""
        since = "" if self.since == FIRST else f"since {self.since.major}.{self.since.minor}"
        until = "" if self.fixed is None else f"until {self.fixed.major}.{self.fixed.minor}"
        return f"{since} {until}".strip() or "all"


# fmt: off
_ROWS: Final[Sequence[tuple[str, Version, Version | None, str, str]]] = (
    ("stale-read", FIRST, None, "apache/zookeeper#1063",
     "a read's ZooKeeper server had not yet heard that the insert had its quorum"),
    ("early-snapshot", _TODAY, None, "IdentifierResolver",
     "a read chose its parts before it looked for the last quorum part"),
    ("skipped-part", FIRST, None, "StorageReplicatedMergeTree::read",
     "a later part arrived before an earlier one, and nothing asks"),
    ("lagging-writer", FIRST, None, "checkQuorumPrecondition",
     "a replica that lacks an insert answers after one of its own"),
    ("overtaken-insert", FIRST, None, "updateQuorum",
     "last_part went back, and hides the inserts above it"),
    ("merged-away", _TODAY, None, "canUsePartInMerges",
     "a merge made one part of blocks below and above last_part"),
    ("hidden-insert", FIRST, None, "MergeTreeDataSelectExecutor::readFromParts",
     "an insert without a quorum is above last_part"),
    ("unseen-write", FIRST, None, "documented",
     "a replica had not yet fetched an insert without a quorum"),
    ("dirty-read", FIRST, None, "commitPart",
     "a read showed an insert whose quorum failed later"),
    ("phantom-part", FIRST, None, "#9712, #66114",
     "a replica keeps a part that was never committed"),
    ("doubled-insert", FIRST, None, "#9712, #66114",
     "such a part, and the same block inserted again"),
    ("failed-part-missed", FIRST, None, "tryStartup",
     "a replica came back with a part whose quorum had failed"),
    ("uncounted-quorum", FIRST, None, "updateQuorum",
     "a replica ended the quorum of another insert"),
    ("pending-merged", _TODAY, None, "#43867",
     "a merge took a part whose quorum was pending, and then failed"),
    ("acknowledged-failure", FIRST, None, "#54543",
     "an insert was acknowledged whose replica had removed its unreadable part"),
    ("unreadable-part", FIRST, None, "ReplicatedMergeTreePartCheckThread",
     "a replica answers without a part that it could not read"),
    ("discarded-copy", _TODAY, None, "cloneReplica",
     "a replica that was lost removed the last copy of a part, because the one that it cloned "
     "could not read its own"),
    ("failed-duplicate", _TODAY, None, "#54543",
     "an insert was acknowledged as a duplicate of one whose quorum failed"),
    ("lost-retry", _TODAY, None, "#112149",
     "an insert was acknowledged as a duplicate of one that its replica had given up"),
    ("deaf-replica", FIRST, Version(19, 1), "#3891",
     "a replica follows no ALTER since its session ended"),
    ("undone-alter", FIRST, Version(20, 3), "StorageReplicatedMergeTree::alter",
     "an ALTER was made from a replica's old list of columns"),
    ("lost-distributed-insert", FIRST, Version(21, 1), "#11727",
     "a file was given up because its receiver was killed"),
    ("torn-insert", FIRST, None, "#9195, documented",
     "an insert commits the part of each partition by itself"),
    ("half-insert", FIRST, None, "#9195, documented",
     "a replica was killed between the parts of one insert"),
    ("returned-rows", FIRST, Version(19, 14), "#6522",
     "a lost replica kept the parts of a partition that was dropped"),
    ("missed-drop", _TODAY, None, "commitPart",
     "a replica dropped a partition while an insert of its own had yet to hear of its commit"),
    ("missing-table", FIRST, Version(20, 3), "#7180",
     "a server does not load a table that three ALTERs have changed meanwhile"),
    ("half-alter", _TODAY, None, "#26327, #115549",
     "a replica was killed after it had written an ALTER to ZooKeeper alone"),
    ("crashing-mutation", FIRST, Version(19, 11), "tryFinalizeMutations",
     "a mutation beside an insert kills servers"),
    ("two-leaders", FIRST, Version(20, 5), "getStatus",
     "a leader that was paused past its session claims to lead"),
    ("uncounted-clone", FIRST, None, "cloneReplica",
     "a part that a lost replica fetched does not count for its quorum, which stays pending"),
    ("unreadable-table", FIRST, Version(20, 5), "#2485",
     "the partition of the last quorum was dropped"),
    ("emptied-partition", _TODAY, None, "#38964, #44972",
     "a part that the last quorum named was mutated until it had no rows, and removed"),
    ("unwritable-table", FIRST, None, "#9946",
     "the partition of a pending quorum was dropped"),
    ("unwaited-clone", FIRST, None, "cloneReplica",
     "a replica took over a log pointer before it had the parts"),
    ("ddl-twice", FIRST, None, "DDLWorker::processTask",
     "a host was killed before it said that it had executed a statement"),
    ("orphaned-insert", _TODAY, None, "DiskObjectStorageTransaction",
     "a replica was killed while it wrote a part"),
    ("orphaned-drop", _TODAY, None, "DiskObjectStorageTransaction::commit",
     "the store refused to delete an object"),
    ("orphaned-fetch", _TODAY, None, "#36048",
     "a part was dropped while a replica fetched it that never had it"),
    ("orphaned-commit", _TODAY, None, "#72933",
     "a replica's session ended before it had registered a part that it had stored"),
    ("orphaned-unlock", _TODAY, None, "#72933",
     "a replica released the last lock of objects and was kept from removing them"),
    ("orphaned-move", _TODAY, None, "swapClonedPart",
     "a part was mutated while another replica took over its move"),
    ("restored-replica", Version(25, 8), None, "",
     "a replica that was restored deleted objects of another one"),
    ("moved-twice", _TODAY, Version(25, 8), "",
     "two replicas moved a part, for the first was paused past its session"),
    ("dropped-replica", _TODAY, None, "#117516",
     "a replica that was dropped keeps its locks"),
    ("copied-part", _TODAY, None, "",
     "a replica could not ask the store for a part, and copied it"),
    ("unsynced-parts", FIRST, None, "",
     "power was cut on every replica of a part before it was synced"),
    ("attach-own-copy", _TODAY, None, "",
     "a replica attached its own copy of a detached part"),
    ("moved-away", _TODAY, None, "movePartitionToTable",
     "a replica moved a partition of which it had yet to fetch a part"),
    ("half-moved", _TODAY, None, "movePartitionToTable",
     "a MOVE PARTITION failed, or its replica was killed, between its two transactions"),
    ("attached-nowhere", _TODAY, None, "#115746",
     "a replica that had staged nothing attached it for the whole shard"),
    ("replaced-by-nothing", _TODAY, None, "#115746",
     "a replica that had staged nothing replaced a partition by it for the whole shard"),
    ("copied-nothing", _TODAY, None, "IdentifierResolver",
     "an INSERT SELECT chose its parts before it looked for the last quorum part"),
    ("forgotten-insert", _TODAY, None, "#31005, documented",
     "an insert was acknowledged as a duplicate of rows that had been deleted"),
    ("doubled-view", _TODAY, None, "#76110, documented",
     "an insert that was sent again was pushed to a view"),
    ("retried-elsewhere", _TODAY, Version(25, 8), "buildPushingToViewsChain",
     "an insert was sent again to another replica, where its view has another UUID"),
    ("missed-view", _TODAY, None, "#114436",
     "a replica took an insert and had yet to execute the statement that created a view"),
    ("half-restored", _TODAY, None, "#111628",
     "a replica was killed while it was restored, and attached only some of its parts"),
    ("ignored-part", _TODAY, None, "tryLoadPartsToAttach",
     "an ATTACH left a part aside that its replica had renamed when it started, and said nothing"),
    ("restored-nothing", _TODAY, None, "restoreMetadataInZooKeeper",
     "a replica was killed before its restore had made the table, and the next ones found no "
     "part"),
    ("suspicious-clone", _TODAY, None, "checkPartsImpl, #111660",
     "a lost replica was killed when it had most of the rows in parts that it had yet to register"),
    ("rewound-insert", _TODAY, None, "#108566",
     "ZooKeeper was put back to an older copy, and the number of a part that it does not know was "
     "given to another insert"),
    ("rewound-restart", _TODAY, None, "checkPartsImpl, #28764, documented",
     "ZooKeeper was put back to an older copy, and replicas that were started set aside the part "
     "that it does not know"),
    ("set-aside", _TODAY, None, "recoverLostReplica, #111374",
     "a replica of a Replicated database took the definitions of its tables from ZooKeeper, and "
     "put one with rows aside"),
    ("dropped-view", _TODAY, None, "recoverLostReplica, #111935, #111957",
     "a replica of a Replicated database took the definitions of its tables from ZooKeeper, and "
     "dropped a view with its rows, or a KeeperMap table"),
    ("strayed-update", _PATCHES, None, "#107501, #111801, #111933",
     "an UPDATE changed two rows of the same block number and offset, of which one came from "
     "another table"),
    ("lost-update", _PATCHES, None, "#116982",
     "two UPDATEs overlapped whose update_parallel_mode took different locks"),
    ("overwritten-update", _PATCHES, None, "",
     "an UPDATE computed new values without an ALTER UPDATE that was acknowledged and pending"),
    ("forgotten-mutation", _TODAY, None, "#120902",
     "a part was detached that an acknowledged mutation had yet to change, and attached again"),
    ("mutated-twice", _TODAY, None, "tryExecuteQueryOnLeaderReplica",
     "a replica lost its session before it had written down that it had made an ALTER ON CLUSTER"),
    ("stranded-part", _TODAY, None, "tryLoadPartsToAttach",
     "an ATTACH left a part aside whose number a part spans that was detached later"),
    ("fetched-over", _TODAY, None, "tryLoadPartsToAttach",
     "an ATTACH left a part aside that has the number of one which FETCH brought"),
    ("forgotten-partition", _TODAY, None, "#58925, documented",
     "a partition was forgotten that a replica had yet to drop, which it did after the next "
     "insert, or of which it had yet to get a part, which a later drop left"),
    ("endless-mutation", _TODAY, None, "#97593",
     "a partition was forgotten in which a mutation had a number that was not done"),
    ("renamed-away", _TODAY, None, "",
     "a replica that had yet to execute a RENAME COLUMN inserted the first rows of a partition"),
    ("stuck-rename", _TODAY, None, "",
     "the same in a partition with parts, and another RENAME of the column looks for the name "
     "between"),
    ("refused-itself", Version(25, 8), None, "StorageKeeperMapSink::finalize",
     "a strict INSERT into a KeeperMap table was refused because its own first try had added the "
     "row"),
    ("repeated-insert", _TODAY, None, "StorageKeeperMapSink::finalize",
     "an INSERT into a KeeperMap table was under way while others read its row and overwrote it, "
     "and was made once more"),
    ("deleted-twice", _TODAY, None, "StorageKeeperMap::mutate",
     "a strict DELETE in a KeeperMap table was under way while another client inserted the row "
     "again, and was made once more"),
    ("unsynced-commit", _TODAY, None, "#111823, #60406",
     "power was cut before a server had synced that transactions were committed, which it had "
     "removed from ZooKeeper"),
    ("shared-transactions", _TODAY, None, "TransactionLog::removeOldEntries",
     "a server was killed, and another with the same transaction_log path committed meanwhile"),
    ("overlapped", _TODAY, None, "documented",
     "a statement read its source before another changed it, and committed after that"),
    ("handed-on-hole", FIRST, None, "ZOOKEEPER-4925, in ZooKeeper 3.9.3 alone",
     "a ZooKeeper server got its transactions from a leader that does not hand on what it got "
     "while it joined"),
    ("unwritten", FIRST, None, "ZOOKEEPER-4882",
     "a ZooKeeper server whose log could not be written followed again without what it lacks"),
    ("untruncated", FIRST, None, "ZOOKEEPER-4837",
     "a ZooKeeper server was told to truncate its log, and kept what a snapshot had of that"),
    ("unlogged-ack", FIRST, None, "ZOOKEEPER-4646, ZOOKEEPER-4785, in ZooKeeper before 3.8.5",
     "a ZooKeeper server acknowledged its leader before its log had what it got, and died"),
    ("stale-replace", _TODAY, None, "#73697",
     "a statement took a partition of which its replica had yet to fetch or to mutate a part"),
)
# fmt: on
_UNSYNCED: Final = "--fsync default; --fsync inserts makes acknowledged parts durable"
_SETTINGS: Final = {"unsynced-parts": _UNSYNCED}
DEFECTS: Final[Mapping[str, KnownDefect]] = {
    row[0]: KnownDefect(*row, setting=_SETTINGS.get(row[0], "")) for row in _ROWS
}
"""Known defects by name, in the order in which they are named."""


def title_of(name: str) -> str:
    """Return what a defect is called in prose: its name, or the setting that it is."""
    known = DEFECTS.get(name)
    return f"the setting {known.setting}" if known is not None and known.setting else name


def known_in(versions: Iterable[Version], names: Iterable[str] = DEFECTS) -> frozenset[str]:
    """Return those of the named defects that some of the versions have."""
    every = tuple(versions)
    return frozenset(name for name in names if any(DEFECTS[name].in_(version) for version in every))


def table() -> str:
    """Return a line for each defect, in Markdown, as docs/triage.md has them."""
    rows = (
        f"| `{one.name}` | {one.text} | {one.versions} | {one.source or '–'} |"
        for one in DEFECTS.values()
    )
    head = "| defect | what it explains | versions | source |\n|---|---|---|---|\n"
    return head + "\n".join(rows)
