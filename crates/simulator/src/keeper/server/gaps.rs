//! Plants bugs that leave gaps in the log of a server that a leader brings up to date.
//!
//! An entry that the leader does not send keeps its place in the log and changes nothing.

use std::rc::Rc;

use crate::keeper::messages::Txn;
use crate::keeper::server::State;
use crate::keeper::tree::{Change, Effect, Tree};
use crate::network::Node;

/// Number of entries between two snapshots of a leader.
const SNAPSHOT_EVERY: usize = 100;

impl State {
    /// Leading: remembers what a server has acknowledged whose connection ends.
    pub(super) fn remember(&mut self, peer: Node) {
        if !self.ensemble.bugs.remembered_acks {
            return;
        }
        if let Some(acked) = self.acked.of(peer).copied() {
            let before = self.remembered.of(peer).copied().unwrap_or(0);
            self.remembered.set(peer, acked.max(before));
        }
    }

    /// Takes the changes out of the entries that a leader's log has, this server lacks, and the
    /// leader does not send, since it believes that the server has `known` entries.
    #[cold]
    pub(super) fn empty_unsent(&self, log: &mut [Rc<Txn>], known: usize) {
        let own = self.disk.borrow().log.len();
        let snapshot = log.len() / SNAPSHOT_EVERY * SNAPSHOT_EVERY;
        let unsent = match own {
            0 if self.ensemble.bugs.snapshots_alone && snapshot > 0 => snapshot..log.len(),
            0 => 0..0,
            _ => own..known.min(log.len()).max(own),
        };
        for txn in log.get_mut(unsent).into_iter().flatten() {
            *txn = Rc::new(Txn {
                changes: Vec::new(),
                answer: txn.answer.clone(),
                members: txn.members.clone(),
                ..**txn
            });
        }
    }
}

/// Whether a change can be applied. On a tree that lacks earlier ones it may not, and as in
/// ZooKeeper it has no effect then (DataTree.processTxn).
#[cold]
pub(super) fn applies(tree: &Tree, change: &Change) -> bool {
    let node = tree.find(change.key());
    match &change.effect {
        Effect::Created(_) => node.is_none() && tree.find(change.above()).is_some(),
        Effect::Put(_) => node.is_some(),
        Effect::Removed => node.is_some_and(|node| node.children.is_empty()),
    }
}
