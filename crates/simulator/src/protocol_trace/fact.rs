//! Defines the facts of a protocol trace.

use std::rc::Rc;

use crate::world::Ns;

/// A fact, with the time of its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// The quorum of a part was reached: how many replicas it needed, which had the part or one that
    /// covers it, and whether other quorums might be pending beside it.
    QuorumReached {
        now_ns: Ns,
        part: String,
        needed: usize,
        holders: Vec<Rc<str>>,
        parallel: bool,
    },
    /// `last_part` of a partition became the part with this block number.
    LastPart {
        now_ns: Ns,
        partition: Rc<str>,
        number: i64,
    },
    /// The first entry of the log changed, or the state of a replica: the first entry's number, and
    /// the position of each replica.
    Positions {
        now_ns: Ns,
        first: i64,
        replicas: Vec<ReplicaPosition>,
    },
    /// A replica moved its log pointer: from and to, the number of entries that it copied to its
    /// queue, and whether it was lost.
    PointerMoved {
        now_ns: Ns,
        replica: String,
        from: i64,
        to: i64,
        copied: usize,
        lost: bool,
    },
    /// A replica announced a part, with a hash of its rows. The table's path is before the name
    /// unless it is the run's first table.
    PartAnnounced {
        now_ns: Ns,
        replica: String,
        name: String,
        hash: u32,
    },
    /// A replica announced an empty part in place of one that no replica had any more.
    PartLost {
        now_ns: Ns,
        replica: String,
        name: String,
    },
    /// A replica chose parts to merge into this part, while another or the same one was the leader.
    MergeChosen {
        now_ns: Ns,
        name: String,
        by: Rc<str>,
        leader: Rc<str>,
    },
    /// A session expired after a silence, with the timeout that it had.
    SessionExpired {
        now_ns: Ns,
        silent_ms: i64,
        allowed_ms: i64,
    },
}

impl Fact {
    /// Return the time at which it was committed.
    pub fn now_ns(&self) -> Ns {
        match self {
            Fact::QuorumReached { now_ns, .. }
            | Fact::LastPart { now_ns, .. }
            | Fact::Positions { now_ns, .. }
            | Fact::PointerMoved { now_ns, .. }
            | Fact::PartAnnounced { now_ns, .. }
            | Fact::PartLost { now_ns, .. }
            | Fact::MergeChosen { now_ns, .. }
            | Fact::SessionExpired { now_ns, .. } => *now_ns,
        }
    }
}

/// The position of a replica in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaPosition {
    pub replica: Rc<str>,
    pub pointer: i64,
    pub active: bool,
    pub lost: bool,
}
