//! Asserts, as they act, what the servers of one ensemble must agree on. No server reads it.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::keeper::messages::{Txn, Zxid};
use crate::network::Node;

/// What the servers of one ensemble have agreed on, across restarts.
#[derive(Default)]
pub struct Agreed {
    /// The leader of each epoch.
    leaders: FxHashMap<u64, Node>,
    /// Every entry that some server has applied, in the order of the log.
    applied: Vec<Zxid>,
}

impl Agreed {
    /// Records that a server begins to lead. It must be the first to lead this epoch, no later
    /// epoch may have begun to commit, and its log must have everything that any server has
    /// applied.
    pub fn leads(&mut self, epoch: u64, leader: Node, log: &[Rc<Txn>]) {
        let before = self.leaders.insert(epoch, leader);
        assert_eq!(before, None, "epoch {epoch} has one leader");
        let last = self.applied.last().map_or(0, |(epoch, _)| *epoch);
        assert!(last < epoch, "epoch {last} has committed before {epoch}");
        if let Some(at) = self.applied.len().checked_sub(1) {
            let own = log.get(at).map(|txn| txn.zxid);
            assert_eq!(
                own.as_ref(),
                self.applied.last(),
                "a leader's log has every committed entry"
            );
        }
    }

    /// Records that a server applies the entry at an index. Other servers must have applied the
    /// same entry there.
    #[inline]
    pub fn applies(&mut self, at: usize, zxid: Zxid) {
        if let Some(known) = self.applied.get(at) {
            assert_eq!(*known, zxid, "all servers apply the same entry at {at}");
            return;
        }
        assert_eq!(at, self.applied.len(), "entries are applied without gaps");
        let ascends = self.applied.last().is_none_or(|last| *last < zxid);
        assert!(ascends, "entry {at} has a higher zxid than those before");
        self.applied.push(zxid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::messages::Answered;

    /// Returns a log of transactions that change nothing.
    fn log(zxids: &[Zxid]) -> Vec<Rc<Txn>> {
        let txn = |zxid: &Zxid| {
            Rc::new(Txn {
                zxid: *zxid,
                origin: 0,
                session: 1,
                xid: 1,
                changes: Vec::new(),
                answer: Ok(Answered::Nothing),
                time_ns: 0,
                wall_ns: 0,
                members: None,
            })
        };
        zxids.iter().map(txn).collect()
    }

    #[test]
    fn servers_may_lag_behind_each_other() {
        let mut agreed = Agreed::default();
        agreed.leads(1, 0, &[]);
        for (at, zxid) in [
            (0, (1, 0)),
            (1, (1, 1)),
            (0, (1, 0)),
            (2, (1, 2)),
            (1, (1, 1)),
        ] {
            agreed.applies(at, zxid);
        }
        agreed.leads(2, 0, &log(&[(1, 0), (1, 1), (1, 2), (1, 3)]));
        agreed.applies(3, (1, 3));
        agreed.applies(4, (2, 4));
    }

    #[test]
    #[should_panic(expected = "epoch 1 has one leader")]
    fn an_epoch_has_one_leader() {
        let mut agreed = Agreed::default();
        agreed.leads(1, 0, &[]);
        agreed.leads(1, 2, &[]);
    }

    #[test]
    #[should_panic(expected = "epoch 2 has committed before 1")]
    fn a_leader_of_an_old_epoch_does_not_lead() {
        let mut agreed = Agreed::default();
        agreed.leads(2, 0, &[]);
        agreed.applies(0, (2, 0));
        agreed.leads(1, 1, &log(&[(2, 0)]));
    }

    #[test]
    #[should_panic(expected = "a leader's log has every committed entry")]
    fn a_server_without_a_committed_entry_does_not_lead() {
        let mut agreed = Agreed::default();
        agreed.leads(1, 0, &[]);
        agreed.applies(0, (1, 0));
        agreed.applies(1, (1, 1));
        agreed.leads(2, 1, &log(&[(1, 0)]));
    }

    #[test]
    #[should_panic(expected = "all servers apply the same entry at 0")]
    fn servers_apply_the_same_entries() {
        let mut agreed = Agreed::default();
        agreed.applies(0, (1, 0));
        agreed.applies(0, (2, 0));
    }
}
