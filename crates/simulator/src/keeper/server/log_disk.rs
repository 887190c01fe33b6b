//! Writes a ZooKeeper server's log to a disk that may fail.
//!
//! Source: SyncRequestProcessor and QuorumPeer of 3.8. A server that cannot write its log gives its
//! role up and looks for a leader, without effect until it can write again (docs/lab/machine.md).
//! Its votes are left out here: a real one sends them, and its epoch cannot be written.

use crate::disk::{Fsync, Lost, Request};
use crate::keeper::server::{KeeperServer, State};
use crate::world::{Ns, SECOND};
use seed::Seed;

const UNSYNCED_NS: Ns = SECOND;

impl State {
    /// Writes and syncs the log's next entry. Returns how much longer the disk takes; `None` if it
    /// fails, and then the server has given its role up.
    #[inline(always)]
    pub(super) fn write_log(&mut self) -> Option<Ns> {
        if self.device.quiet() {
            return Some(0);
        }
        self.write_failing_log()
    }

    #[cold]
    fn write_failing_log(&mut self) -> Option<Ns> {
        let (wrote_ns, wrote) = self.device.serve(Request::Grow, 1);
        let (synced_ns, done) = match wrote {
            Ok(()) => self.device.serve(Request::Sync, 1),
            Err(trouble) => (0, Err(trouble)),
        };
        if done.is_ok() {
            return Some(wrote_ns + synced_ns);
        }
        if self.ensemble.bugs.ignored_writes {
            let disk = &mut *self.disk.borrow_mut();
            disk.unwritten.get_or_insert(disk.log.len());
            return Some(0);
        }
        let me = self.node;
        for peer in self.others() {
            self.tell(peer, move |peer| peer.on_peer_reset(me));
        }
        self.start_election();
        None
    }

    /// Whether the server can promise to follow a leader, which it must write.
    #[inline(always)]
    pub(super) fn can_promise(&self) -> bool {
        self.device.quiet() || self.ensemble.bugs.ignored_writes || self.device.writable()
    }

    /// Ends what a dead server knew and had not written.
    pub(super) fn forget_unwritten(&self) {
        let disk = &mut *self.disk.borrow_mut();
        if let Some(count) = disk.unwritten.take() {
            disk.forget_from(count);
        }
    }

    pub(super) fn forget_unsynced(&self, torn: Option<Seed>) -> (usize, usize) {
        assert!(!self.process.alive(), "only a dead server forgets");
        let now_ns = self.world.now_ns();
        let since_ns = match self.device.fsync.get() {
            Fsync::Never => self.device.durable_until_ns(now_ns),
            _ => now_ns - UNSYNCED_NS,
        };
        let disk = &mut *self.disk.borrow_mut();
        let durable = disk.log.partition_point(|txn| txn.time_ns <= since_ns);
        let cached = disk.log.len() - durable;
        let kept = torn.map_or(0, |seed| seed.below(0, cached as u64 + 1) as usize);
        disk.forget_from(durable + kept);
        (cached - kept, kept)
    }
}

impl KeeperServer {
    /// Takes from a dead server's disk what is not durable: no entry of its log, unless it answers
    /// before it syncs. With a seed the first of these entries survive.
    pub fn lose_cache(&self, torn: Option<Seed>, lost: &mut Lost) {
        let state = self.state.borrow();
        if state.ensemble.bugs.early_answers {
            let (entries, kept) = state.forget_unsynced(torn);
            lost.changes += entries as u64;
            lost.kept += kept as u64;
        }
    }

    /// Whether the server can load its log: it is readable, and no checksum is wrong.
    pub(super) fn loads(&self) -> bool {
        let state = self.state.borrow();
        let disk = state.disk.borrow();
        let rotten = disk
            .flipped
            .is_some_and(|zxid| disk.log.iter().any(|txn| txn.zxid == zxid));
        !rotten && (state.device.quiet() || state.device.serve(Request::Read, 1).1.is_ok())
    }
}
