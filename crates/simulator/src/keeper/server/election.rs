//! Elects a leader: one round of votes, and a majority that promises to follow.

use std::rc::Rc;

use crate::keeper::messages::{Txn, Zxid, FSYNC_NS};
use crate::keeper::server::configuring::Configurations;
use crate::keeper::server::{Ack, Role, State};
use crate::keeper::tree::Tree;
use crate::network::Node;
use crate::world::{Ns, MS};

/// Time between two votes of a server that looks for a leader (finalizeWait).
const VOTE_NS: Ns = 200 * MS;
/// The vote of a leader, which always wins.
const LONGEST: Zxid = (1 << 62, 0);

impl State {
    pub(super) fn start_election(&mut self) {
        assert!(self.process.alive(), "a dead server starts no election");
        self.clients.close_all();
        self.role = Role::Looking;
        self.leader = None;
        self.serves = false;
        self.since_ns = self.world.now_ns();
        self.votes.fill(None);
        self.acked.clear();
        self.remembered.clear();
        self.ready.clear();
        self.syncs.clear();
        self.planned = None;
        let since_ns = self.since_ns;
        self.schedule(0, move |me| me.vote(since_ns));
    }

    /// Whether `peer` should lead rather than this server: it has the longer log.
    fn before(&self, last: Zxid, peer: Node) -> bool {
        let names = &self.ensemble.names;
        (self.disk.borrow().last(), &names[self.node]) > (last, &names[peer])
    }

    fn vote(&mut self, since_ns: Ns) {
        if self.role != Role::Looking || since_ns != self.since_ns {
            return;
        }
        if !self.can_promise() {
            return self.schedule(VOTE_NS, move |me| me.vote(since_ns));
        }
        self.assert_sound();
        let now_ns = self.world.now_ns();
        let me = self.node;
        let (last, mut accepted) = {
            let disk = self.disk.borrow();
            (disk.last(), disk.accepted)
        };
        for peer in self.others() {
            self.tell(peer, move |peer| peer.on_vote(me, last, accepted));
        }
        let (mut wins, mut voters) = (true, vec![me]);
        for (peer, vote) in self.votes.iter().enumerate() {
            let Some((at_ns, last, promised)) = *vote else {
                continue;
            };
            if now_ns - at_ns <= 2 * VOTE_NS {
                if self.configurations.vote(peer) {
                    voters.push(peer);
                    wins &= self.before(last, peer);
                }
                accepted = accepted.max(promised);
            }
        }
        let elected = wins && self.configurations.vote(me) && self.configurations.agree(&voters);
        if elected && now_ns - since_ns >= VOTE_NS {
            self.become_candidate(accepted + 1);
        } else {
            self.schedule(VOTE_NS, move |me| me.vote(since_ns));
        }
    }

    /// Handles a vote from a server that looks for a leader.
    fn on_vote(&mut self, peer: Node, last: Zxid, accepted: u64) {
        assert_ne!(peer, self.node, "a server does not send itself a vote");
        self.votes[peer] = Some((self.world.now_ns(), last, accepted));
        if self.role == Role::Leading {
            let (me, epoch) = (self.node, self.epoch);
            if accepted > epoch {
                self.start_election();
            } else {
                self.tell(peer, move |peer| peer.on_lead(me, epoch, LONGEST));
            }
        }
    }

    /// Begins to follow a leader, or to be one.
    fn join(&mut self, leader: Node, epoch: u64) {
        assert_eq!(
            self.role,
            Role::Looking,
            "a server promises an epoch before it joins it"
        );
        self.role = Role::Joining;
        self.leader = Some(leader);
        self.epoch = epoch;
        let promised = std::mem::replace(&mut self.disk.borrow_mut().accepted, epoch);
        assert!(
            promised <= epoch,
            "a server never joins an epoch below its promise"
        );
        self.since_ns = self.world.now_ns();
    }

    /// Becomes a candidate: asks the other servers for their promise.
    fn become_candidate(&mut self, epoch: u64) {
        let me = self.node;
        assert!(
            epoch > self.disk.borrow().accepted,
            "a candidate's epoch is its own"
        );
        self.join(me, epoch);
        let (last, count) = {
            let disk = self.disk.borrow();
            (disk.last(), disk.log.len())
        };
        self.acked.clear();
        self.acked.set(me, count);
        self.heard_ns.fill(0);
        self.joined.clear();
        for peer in self.others() {
            self.tell(peer, move |peer| peer.on_lead(me, epoch, last));
        }
        self.lead_if_joined();
    }

    /// Handles a message from a candidate, or from a leader that heard that this server looks for
    /// one.
    fn on_lead(&mut self, candidate: Node, epoch: u64, last: Zxid) {
        let accepted = self.disk.borrow().accepted;
        // A server that has promised this epoch may have promised it to another candidate, and with
        // a second promise both would lead. It may only join who leads already.
        let leads = last == LONGEST;
        if self.role != Role::Looking || epoch < accepted || (epoch == accepted && !leads) {
            return;
        }
        if self.before(last, candidate) || !self.can_promise() {
            return;
        }
        self.join(candidate, epoch);
        let me = self.node;
        self.tell_later(FSYNC_NS, candidate, move |peer| peer.on_join(me, epoch));
    }

    /// Handles a promise to follow.
    fn on_join(&mut self, peer: Node, epoch: u64) {
        if epoch != self.epoch || self.leader != Some(self.node) {
            return;
        }
        assert_ne!(peer, self.node, "a server does not send itself a promise");
        self.heard_ns[peer] = self.world.now_ns();
        if self.role == Role::Leading {
            self.sync(peer);
        } else {
            if !self.joined.contains(&peer) {
                self.joined.push(peer);
            }
            self.lead_if_joined();
        }
    }

    fn lead_if_joined(&mut self) {
        let mut promised = self.joined.clone();
        promised.push(self.node);
        if self.role == Role::Joining && self.configurations.agree(&promised) {
            self.role = Role::Leading;
            assert_eq!(
                self.leader,
                Some(self.node),
                "a candidate promises itself first"
            );
            if !self.ensemble.may_lose_commits() {
                let mut agreed = self.ensemble.agreed.borrow_mut();
                agreed.leads(self.epoch, self.node, &self.disk.borrow().log);
            }
            let disk = self.disk.borrow();
            self.committed = disk.applied;
            self.activated_at = disk.log.len();
            drop(disk);
            for peer in self.joined.clone() {
                self.sync(peer);
            }
            self.commit_acknowledged();
        }
    }

    /// Sends a follower the whole log; proposals follow on the same link.
    fn sync(&mut self, peer: Node) {
        assert_eq!(self.role, Role::Leading, "only a leader has followers");
        self.remember(peer);
        self.acked.set(peer, 0);
        self.ready.retain(|other| *other != peer);
        let (me, epoch) = (self.node, self.epoch);
        let log = self.disk.borrow().log.clone();
        let known = self.remembered.of(peer).copied().unwrap_or(0);
        self.tell(peer, move |peer| peer.on_sync(me, epoch, log, known));
    }

    /// Replaces this server's log by the leader's, which believes that it has `known` entries; the
    /// number is 0 unless a bug is planted.
    fn on_sync(&mut self, leader: Node, epoch: u64, mut log: Vec<Rc<Txn>>, known: usize) {
        if self.role == Role::Joining && self.leader == Some(leader) && epoch == self.epoch {
            let Some(delay_ns) = self.write_log() else {
                return;
            };
            if self.ensemble.bugs.leave_gaps() {
                self.empty_unsent(&mut log, known);
            }
            self.role = Role::Following;
            self.heard_ns.fill(0);
            self.heard_ns[leader] = self.world.now_ns();
            let (me, ack) = (self.node, Ack::new(epoch, log.len()));
            self.adopt(log);
            self.seen.clear();
            let took_ns = FSYNC_NS + delay_ns;
            self.tell_later(took_ns, leader, move |leader| leader.on_ack(me, ack));
        }
    }

    fn adopt(&mut self, log: Vec<Rc<Txn>>) {
        let disk = &mut *self.disk.borrow_mut();
        let at = disk.applied;
        if at > 0 && (at > log.len() || log[at - 1].zxid != disk.log[at - 1].zxid) {
            // Committed entries were lost: build the tree again.
            assert!(
                self.ensemble.may_lose_commits(),
                "a leader's log has every committed entry"
            );
            disk.tree = Tree::default();
            disk.applied = 0;
        }
        let ascends = log.windows(2).all(|pair| pair[0].zxid < pair[1].zxid);
        assert!(ascends, "zxids increase along the log");
        disk.log = log;
        self.configurations = Configurations::of(&self.ensemble, disk);
        self.committed = disk.applied;
        assert!(
            self.committed <= disk.log.len(),
            "committed entries are in the log"
        );
    }
}
