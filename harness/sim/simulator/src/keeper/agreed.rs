//! What the servers of one ensemble agree on, asserted as they act. No server reads it.

use rustc_hash::FxHashMap;

use crate::keeper::messages::Zxid;
use crate::network::Node;

/// What the servers of one ensemble have agreed on, over all their restarts.
#[derive(Default)]
pub struct Agreed {
    /// Who has led each epoch.
    leaders: FxHashMap<u64, Node>,
    /// Every entry that some server has applied, in the order of the log.
    applied: Vec<Zxid>,
}

impl Agreed {
    /// A server begins to lead: it is the first to lead this epoch, and no later epoch has begun
    /// to commit.
    pub fn leads(&mut self, epoch: u64, leader: Node) {
        let before = self.leaders.insert(epoch, leader);
        assert_eq!(before, None, "epoch {epoch} has one leader");
        let last = self.applied.last().map_or(0, |(epoch, _)| *epoch);
        assert!(last < epoch, "epoch {last} has committed before {epoch}");
    }

    /// A server applies the entry at that place: the same that others have applied there.
    #[inline]
    pub fn applies(&mut self, at: usize, zxid: Zxid) {
        if let Some(known) = self.applied.get(at) {
            assert_eq!(*known, zxid, "all servers apply the same entry at {at}");
            return;
        }
        assert_eq!(at, self.applied.len(), "no entry is left out");
        let ascends = self.applied.last().is_none_or(|last| *last < zxid);
        assert!(ascends, "entry {at} has a higher zxid than those before");
        self.applied.push(zxid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_may_be_behind_each_other() {
        let mut agreed = Agreed::default();
        agreed.leads(1, 0);
        for (at, zxid) in [
            (0, (1, 0)),
            (1, (1, 1)),
            (0, (1, 0)),
            (2, (1, 2)),
            (1, (1, 1)),
        ] {
            agreed.applies(at, zxid);
        }
        agreed.leads(2, 0);
        agreed.applies(3, (2, 3));
    }

    #[test]
    #[should_panic(expected = "epoch 1 has one leader")]
    fn an_epoch_has_one_leader() {
        let mut agreed = Agreed::default();
        agreed.leads(1, 0);
        agreed.leads(1, 2);
    }

    #[test]
    #[should_panic(expected = "epoch 2 has committed before 1")]
    fn a_deposed_leader_does_not_begin_to_lead() {
        let mut agreed = Agreed::default();
        agreed.leads(2, 0);
        agreed.applies(0, (2, 0));
        agreed.leads(1, 1);
    }

    #[test]
    #[should_panic(expected = "all servers apply the same entry at 0")]
    fn servers_do_not_differ() {
        let mut agreed = Agreed::default();
        agreed.applies(0, (1, 0));
        agreed.applies(0, (2, 0));
    }
}
