//! Changes the members of an ensemble while it runs.
//!
//! A new configuration is an entry of the log. It is committed when a majority of the old members
//! and one of the new ones have it, and so is everything after it, until it is committed; then the
//! new members count alone. Who does not vote still gets the log.
//!
//! Source: Shraer, Reed, Malkhi, Junqueira, "Dynamic Reconfiguration of Primary/Backup Clusters"
//! (USENIX ATC 2012); Leader.java, QuorumPeer.java and FastLeaderElection.java of ZooKeeper 3.8.

use std::rc::Rc;

use crate::errors::{KeeperError, NEW_CONFIG_NO_QUORUM, RECONFIG_IN_PROGRESS};
use crate::keeper::configuration::{Configuration, MemberRole};
use crate::keeper::ensemble::Ensemble;
use crate::keeper::messages::{Disk, Txn};
use crate::keeper::server::{KeeperServer, Role, State};
use crate::keeper::tree::Tree;
use crate::network::Node;

/// The fewest voters of a new configuration.
const VOTERS_MIN: usize = 2;

/// The configurations that count for a server: the one that is known to be committed, then those
/// after it in its log, each with the number of entries up to it.
///
/// ZooKeeper knows the first and the last of them. One that lies between could have committed
/// entries that neither a majority of the first nor one of the last has, so all must agree here.
pub(super) struct Configurations(Vec<(usize, Rc<Configuration>)>);

impl Configurations {
    /// Returns the configurations of a log.
    pub(super) fn of(ensemble: &Ensemble, disk: &Disk) -> Configurations {
        let mut all = Configurations(vec![(0, ensemble.first.clone())]);
        if ensemble.reconfigured.get() {
            for (at, txn) in disk.log.iter().enumerate() {
                all.propose(at + 1, txn);
            }
            all.commit(disk.applied);
        }
        all
    }

    /// Takes an entry, the `count`-th of the log.
    #[inline]
    pub(super) fn propose(&mut self, count: usize, txn: &Txn) {
        if let Some(members) = &txn.members {
            self.0.push((count, members.clone()));
        }
    }

    /// Forgets what a committed configuration has replaced.
    fn commit(&mut self, committed: usize) {
        let replaced = |at: &usize| *at + 1 < self.0.len() && self.0[*at + 1].0 <= committed;
        let old = (0..self.0.len()).take_while(replaced).count();
        self.0.drain(..old);
        assert!(!self.0.is_empty(), "some configuration is in force");
    }

    /// Returns the configuration in force.
    pub(super) fn current(&self) -> &Rc<Configuration> {
        &self.0[0].1
    }

    /// Whether a configuration is not known to be committed.
    #[inline]
    pub(super) fn pending(&self) -> bool {
        self.0.len() > 1
    }

    /// Whether the server votes in some configuration that counts.
    pub(super) fn vote(&self, node: Node) -> bool {
        self.0.iter().any(|(_, members)| members.votes(node))
    }

    /// Whether these servers are a majority in every configuration that counts.
    pub(super) fn agree(&self, servers: &[Node]) -> bool {
        let mut all = self.0.iter();
        all.all(|(_, members)| members.is_quorum(servers))
    }
}

impl KeeperServer {
    /// Returns what a function finds in the server's tree.
    pub fn with_tree<T>(&self, find: impl FnOnce(&Tree) -> T) -> T {
        let state = self.state.borrow();
        let disk = state.disk.borrow();
        find(&disk.tree)
    }

    /// Returns the number of servers that follow this one and are no observers.
    pub fn followers(&self) -> usize {
        let state = self.state.borrow();
        let members = state.configurations.current();
        let observes = |peer: &&Node| members.role(**peer) == Some(MemberRole::Observer);
        state.ready.iter().filter(|peer| !observes(peer)).count()
    }

    /// Returns the configuration in force.
    pub fn members(&self) -> Rc<Configuration> {
        self.state.borrow().configurations.current().clone()
    }
}

impl State {
    /// Leading: returns whether enough servers are near, besides this one, to lead on.
    pub(super) fn keep_leading(&self, near: impl Iterator<Item = Node>) -> bool {
        if self.ensemble.bugs.minority_commits {
            return true;
        }
        let servers: Vec<_> = near.chain([self.node]).collect();
        self.configurations.agree(&servers)
    }

    /// Leading: returns the number of entries that enough servers have.
    pub(super) fn acknowledged(&self) -> usize {
        let has = |members: &Configuration| {
            let voters = self.acked.counts().filter(|(peer, _)| members.votes(*peer));
            let mut counts: Vec<_> = voters.map(|(_, count)| count).collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let majority = match self.ensemble.bugs.minority_commits {
                true => 1,
                false => members.majority(),
            };
            counts.get(majority - 1).copied().unwrap_or(0)
        };
        let mut all = self.configurations.0.iter();
        let mut count = has(&all.next().expect("some configuration is in force").1);
        for (at, members) in all {
            if count < *at {
                break;
            }
            count = count.min(has(members).max(at - 1));
        }
        count
    }

    /// Leading: returns the configuration in which a server has this role. It is refused while
    /// another one is pending, or if no majority of its voters follows.
    #[cold]
    pub(super) fn next_configuration(
        &self,
        node: Node,
        role: Option<MemberRole>,
    ) -> Result<Rc<Configuration>, KeeperError> {
        if self.configurations.pending() {
            return Err(KeeperError::new(RECONFIG_IN_PROGRESS));
        }
        let next = self.configurations.current().with(node, role);
        let synced: Vec<_> = self.ready.iter().copied().chain([self.node]).collect();
        if next.voters() < VOTERS_MIN || !next.is_quorum(&synced) {
            return Err(KeeperError::new(NEW_CONFIG_NO_QUORUM));
        }
        self.ensemble.reconfigured.set(true);
        Ok(Rc::new(next))
    }

    /// Whether a follower gets nothing of the log, which only a planted bug withholds.
    #[inline]
    pub(super) fn is_left_behind(&self, peer: Node) -> bool {
        self.ensemble.bugs.removed_stale && self.configurations.current().role(peer).is_none()
    }

    /// Puts a configuration into force that has been committed. Who becomes an observer, or was
    /// one, joins the leader anew; so does everybody if the leader has lost its vote.
    #[cold]
    pub(super) fn activate_configuration(&mut self, committed: usize) {
        let before = self.configurations.current().clone();
        self.configurations.commit(committed);
        let now = self.configurations.current().clone();
        if now == before {
            return;
        }
        let observes =
            |members: &Configuration| members.role(self.node) == Some(MemberRole::Observer);
        let leads_on = self.leader.is_none_or(|leader| now.votes(leader));
        if self.ensemble.bugs.lost_watches && leads_on && observes(&before) != observes(&now) {
            return self.clients.forget_watches();
        }
        if !leads_on || observes(&before) != observes(&now) {
            let since_ns = self.since_ns;
            self.schedule(0, move |me| me.join_anew(since_ns));
        }
        if self.role == Role::Leading && self.ensemble.bugs.removed_stale {
            self.readmit(&before, &now);
        }
    }

    fn join_anew(&mut self, since_ns: i64) {
        if self.since_ns == since_ns && self.role != Role::Looking {
            self.start_election();
        }
    }

    /// Sends the whole log to servers that were no members, and got none of it.
    fn readmit(&mut self, before: &Configuration, now: &Configuration) {
        for (peer, _) in now.members() {
            if before.role(*peer).is_none() && *peer != self.node {
                self.acked.remove(*peer);
                self.ready.retain(|other| other != peer);
                self.tell(*peer, |peer| peer.join_anew(peer.since_ns));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::messages::Answered;

    fn txn(members: Option<Configuration>) -> Txn {
        Txn {
            zxid: (1, 0),
            origin: 0,
            session: 1,
            xid: 1,
            changes: Vec::new(),
            answer: Ok(Answered::Nothing),
            time_ns: 0,
            wall_ns: 0,
            members: members.map(Rc::new),
        }
    }

    #[test]
    fn old_and_new_members_agree_until_the_change_is_committed() {
        let all = Configuration::of(&[0, 1, 2]);
        let mut known = Configurations(vec![(0, Rc::new(all.clone()))]);
        known.propose(4, &txn(None));
        assert!(!known.pending() && known.agree(&[1, 2]));
        known.propose(5, &txn(Some(all.with(2, None))));
        assert!(known.pending() && known.vote(2));
        assert!(!known.agree(&[1, 2]), "no majority of the new members");
        assert!(!known.agree(&[0]) && known.agree(&[0, 1]));
        known.commit(4);
        assert!(known.pending());
        known.commit(5);
        assert!(!known.pending() && !known.vote(2));
        assert_eq!(**known.current(), all.with(2, None));
    }
}
