//! Mechanisms that some versions of the server have and others lack; harness/sim/bugs.py says which
//! protocol has which.

/// A mechanism of servers that are newer than 18.16.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Every active replica assigns merges and mutations and cleans up the log.
    ManyLeaders,
    /// OPTIMIZE with `replication_alter_partitions_sync` 1 waits for its own replica only.
    OwnWait,
    /// An insert repeats requests to ZooKeeper whose connection was lost.
    InsertRetries,
    /// Inserts with `insert_quorum_parallel` have a node each below /quorum/parallel.
    ParallelQuorum,
    /// A duplicate waits for the quorum of the part that was inserted first.
    DuplicateWait,
    /// An ALTER of columns is an entry of the log.
    AlterInLog,
    /// ATTACH is an entry of its own, and a replica that has the same part detached uses it.
    AttachEntries,
    /// A table's files are below a directory named after its UUID.
    AtomicDatabases,
    /// MOVE PARTITION TO TABLE, REPLACE PARTITION and ATTACH PARTITION FROM.
    CopiedPartitions,
    /// A part that no replica has any more is replaced by an empty one.
    EmptyParts,
    /// Materialized views.
    Views,
    /// A TTL of rows.
    RowTtl,
}

/// Every mechanism with its name.
const NAMES: &[(Mechanism, &str)] = &[
    (Mechanism::ManyLeaders, "many-leaders"),
    (Mechanism::OwnWait, "own-wait"),
    (Mechanism::InsertRetries, "insert-retries"),
    (Mechanism::ParallelQuorum, "parallel-quorum"),
    (Mechanism::DuplicateWait, "duplicate-wait"),
    (Mechanism::AlterInLog, "alter-in-log"),
    (Mechanism::AttachEntries, "attach-entries"),
    (Mechanism::AtomicDatabases, "atomic-databases"),
    (Mechanism::CopiedPartitions, "copied-partitions"),
    (Mechanism::EmptyParts, "empty-parts"),
    (Mechanism::Views, "views"),
    (Mechanism::RowTtl, "row-ttl"),
];

/// A set of mechanisms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mechanisms(u16);

impl Mechanisms {
    /// Returns the named mechanisms; `None` if a name is unknown.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Mechanisms> {
        let mut out = Mechanisms::default();
        for name in names {
            let (mechanism, _) = NAMES.iter().find(|(_, known)| *known == name)?;
            out.0 |= 1 << *mechanism as u16;
        }
        Some(out)
    }

    /// Whether the servers have the mechanism.
    pub fn has(self, mechanism: Mechanism) -> bool {
        self.0 & (1 << mechanism as u16) != 0
    }
}
