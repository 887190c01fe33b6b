//! Planted bugs. Each changes one line of the correct protocol; harness/sim/bugs.py describes them.

use crate::keeper::ensemble::KeeperBugs;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    QuorumAba,
    LastPartLate,
    PhantomPart,
    QuorumUncounted,
    LastPartBack,
    EarlySnapshot,
    MergedAway,
    LostRetry,
    AckEarly,
    DedupPerReplica,
    DedupForgotten,
    FailedPartKept,
    FailedPartMissed,
    FailedPartFetched,
    BrokenPartFetched,
    LostPartUnreplaced,
    CloneUnwaited,
    StaleLeaderClaim,
    OptimizeUnwaited,
    TruncateMax,
    LogUncut,
    CloneLost,
    LostUnmarked,
    CloneNoParts,
    CloneUnfinished,
    MergeOrder,
    MergeDrops,
    MergeGap,
    MutationLate,
    FetchTorn,
    SessionImmortal,
    StaleLeaderMerges,
    WatchMissed,
    KeeperUnsynced,
    KeeperEarlyAck,
    KeeperMinority,
    NumberKept,
    PointerSkips,
    LockAfterSend,
    DeleteWithoutLockCheck,
    UnmarkedMerge,
    Downgrade,
    BothMove,
    CloneKeepsDropped,
    CloneUncounted,
    PendingMerged,
    FailedDuplicate,
    UndoneAlter,
    AttachOwnCopy,
    CopiedPart,
    DedupOwnClock,
    ShedQuorum,
    ShortageAsBroken,
    ClosedAsLost,
    UnresolvedAsDead,
    OldPartsByWall,
    AcknowledgedFailure,
    FsyncIgnored,
    FsyncErrorIgnored,
    TornUnchecked,
    FlipUnchecked,
    EioAsEmpty,
    ShortWrite,
    KeeperWriteIgnored,
    EmptyDiskForgets,
    OldDiskAdopted,
    ReplicaUnfilled,
    RemovedStale,
    RoleLosesWatches,
    StartUnfinished,
    AckRemembered,
    SnapshotWithoutLog,
    MovedAway,
    HiddenByMove,
    HalfMoved,
    StaleReplace,
    UnmutatedCopy,
    CopyKeepsVersion,
    DropLater,
}

/// Every bug with the name that users type.
pub const NAMES: &[(Bug, &str)] = &[
    (Bug::QuorumAba, "quorum-aba"),
    (Bug::LastPartLate, "last-part-late"),
    (Bug::PhantomPart, "phantom-part"),
    (Bug::QuorumUncounted, "quorum-uncounted"),
    (Bug::LastPartBack, "last-part-back"),
    (Bug::EarlySnapshot, "early-snapshot"),
    (Bug::MergedAway, "merged-away"),
    (Bug::LostRetry, "lost-retry"),
    (Bug::AckEarly, "ack-early"),
    (Bug::DedupPerReplica, "dedup-per-replica"),
    (Bug::DedupForgotten, "dedup-forgotten"),
    (Bug::FailedPartKept, "failed-part-kept"),
    (Bug::FailedPartMissed, "failed-part-missed"),
    (Bug::FailedPartFetched, "failed-part-fetched"),
    (Bug::BrokenPartFetched, "broken-part-fetched"),
    (Bug::LostPartUnreplaced, "lost-part-unreplaced"),
    (Bug::CloneUnwaited, "clone-unwaited"),
    (Bug::StaleLeaderClaim, "stale-leader-claim"),
    (Bug::OptimizeUnwaited, "optimize-unwaited"),
    (Bug::TruncateMax, "truncate-max"),
    (Bug::LogUncut, "log-uncut"),
    (Bug::CloneLost, "clone-lost"),
    (Bug::LostUnmarked, "lost-unmarked"),
    (Bug::CloneNoParts, "clone-no-parts"),
    (Bug::CloneUnfinished, "clone-unfinished"),
    (Bug::MergeOrder, "merge-order"),
    (Bug::MergeDrops, "merge-drops"),
    (Bug::MergeGap, "merge-gap"),
    (Bug::MutationLate, "mutation-late"),
    (Bug::FetchTorn, "fetch-torn"),
    (Bug::SessionImmortal, "session-immortal"),
    (Bug::StaleLeaderMerges, "stale-leader-merges"),
    (Bug::WatchMissed, "watch-missed"),
    (Bug::KeeperUnsynced, "keeper-unsynced"),
    (Bug::KeeperEarlyAck, "keeper-early-ack"),
    (Bug::KeeperMinority, "keeper-minority"),
    (Bug::NumberKept, "number-kept"),
    (Bug::PointerSkips, "pointer-skips"),
    (Bug::LockAfterSend, "lock-after-send"),
    (Bug::DeleteWithoutLockCheck, "delete-without-lock-check"),
    (Bug::UnmarkedMerge, "unmarked-merge"),
    (Bug::Downgrade, "downgrade"),
    (Bug::BothMove, "both-move"),
    (Bug::CloneKeepsDropped, "clone-keeps-dropped"),
    (Bug::CloneUncounted, "clone-uncounted"),
    (Bug::PendingMerged, "pending-merged"),
    (Bug::FailedDuplicate, "failed-duplicate"),
    (Bug::UndoneAlter, "undone-alter"),
    (Bug::AttachOwnCopy, "attach-own-copy"),
    (Bug::CopiedPart, "copied-part"),
    (Bug::DedupOwnClock, "dedup-own-clock"),
    (Bug::ShedQuorum, "shed-quorum"),
    (Bug::ShortageAsBroken, "shortage-as-broken"),
    (Bug::ClosedAsLost, "closed-as-lost"),
    (Bug::UnresolvedAsDead, "unresolved-as-dead"),
    (Bug::OldPartsByWall, "old-parts-by-wall"),
    (Bug::AcknowledgedFailure, "acknowledged-failure"),
    (Bug::FsyncIgnored, "fsync-ignored"),
    (Bug::FsyncErrorIgnored, "fsync-error-ignored"),
    (Bug::TornUnchecked, "torn-unchecked"),
    (Bug::FlipUnchecked, "flip-unchecked"),
    (Bug::EioAsEmpty, "eio-as-empty"),
    (Bug::ShortWrite, "short-write"),
    (Bug::KeeperWriteIgnored, "keeper-write-ignored"),
    (Bug::EmptyDiskForgets, "empty-disk-forgets"),
    (Bug::OldDiskAdopted, "old-disk-adopted"),
    (Bug::ReplicaUnfilled, "replica-unfilled"),
    (Bug::RemovedStale, "removed-stale"),
    (Bug::RoleLosesWatches, "role-loses-watches"),
    (Bug::StartUnfinished, "start-unfinished"),
    (Bug::AckRemembered, "ack-remembered"),
    (Bug::SnapshotWithoutLog, "snapshot-without-log"),
    (Bug::MovedAway, "moved-away"),
    (Bug::HiddenByMove, "hidden-by-move"),
    (Bug::HalfMoved, "half-moved"),
    (Bug::StaleReplace, "stale-replace"),
    (Bug::UnmutatedCopy, "unmutated-copy"),
    (Bug::CopyKeepsVersion, "copy-keeps-version"),
    (Bug::DropLater, "drop-later"),
];

/// The bugs that 18.16.1 or 25.8 has, and with it their protocols.
const DEFECTS: &[Bug] = &[
    Bug::QuorumAba,
    Bug::LastPartLate,
    Bug::PhantomPart,
    Bug::FailedPartMissed,
    Bug::FailedPartFetched,
    Bug::BrokenPartFetched,
    Bug::LostPartUnreplaced,
    Bug::CloneUnwaited,
    Bug::CloneKeepsDropped,
    Bug::CloneUncounted,
    Bug::StaleLeaderClaim,
    Bug::EarlySnapshot,
    Bug::MergedAway,
    Bug::LostRetry,
    Bug::PendingMerged,
    Bug::FailedDuplicate,
    Bug::UndoneAlter,
    Bug::StaleLeaderClaim,
    Bug::AttachOwnCopy,
    Bug::CopiedPart,
    Bug::ShortageAsBroken,
    Bug::OldPartsByWall,
    Bug::AcknowledgedFailure,
    Bug::MovedAway,
    Bug::HiddenByMove,
    Bug::HalfMoved,
    Bug::StaleReplace,
    Bug::UnmutatedCopy,
];

/// A set of bugs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bugs(u128);

impl Bugs {
    /// Returns the named bugs; `None` if a name is unknown.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Bugs> {
        let mut out = Bugs::default();
        for name in names {
            let (bug, _) = NAMES.iter().find(|(_, known)| *known == name)?;
            out.0 |= 1 << *bug as u128;
        }
        Some(out)
    }

    /// Whether a bug is planted that no server has. Assertions about what the protocol
    /// preserves are then switched off, and the checkers judge the run.
    pub fn any_planted(self) -> bool {
        let defects = DEFECTS.iter().fold(0, |set, bug| set | 1 << *bug as u128);
        self.0 & !defects != 0
    }

    /// Returns those of ZooKeeper.
    pub fn of_keeper(self) -> KeeperBugs {
        KeeperBugs {
            immortal_sessions: self.has(Bug::SessionImmortal),
            missed_watches: self.has(Bug::WatchMissed),
            unsynced_log: self.has(Bug::KeeperUnsynced),
            early_answers: self.has(Bug::KeeperEarlyAck),
            ignored_writes: self.has(Bug::KeeperWriteIgnored),
            minority_commits: self.has(Bug::KeeperMinority),
            removed_stale: self.has(Bug::RemovedStale),
            lost_watches: self.has(Bug::RoleLosesWatches),
            remembered_acks: self.has(Bug::AckRemembered),
            snapshots_alone: self.has(Bug::SnapshotWithoutLog),
        }
    }

    /// Whether the bug is planted.
    pub fn has(self, bug: Bug) -> bool {
        self.0 & (1 << bug as u128) != 0
    }
}
