//! Ends the sessions of clients that the servers have not heard of for too long.

use crate::keeper::messages::{Request, Write};
use crate::keeper::server::{Role, State};
use crate::world::Ns;

impl State {
    /// Closes the sessions whose silence exceeded their limit.
    pub(super) fn expire(&mut self, now_ns: Ns) {
        if !self.serves || self.ensemble.bugs.immortal_sessions {
            return;
        }
        let tree = self.planned.as_ref();
        let tree = tree.expect("a serving leader has a planned tree");
        // A paused leader cannot expire a session, so the pause does not count.
        let stood_ns = (now_ns - self.ticked_ns - self.tick_ns).max(0);
        for (session, allowed_ns) in self.session_paths.open(tree) {
            let silent_ns = now_ns - *self.seen.entry(session).or_insert(now_ns);
            assert!(silent_ns >= 0, "sessions were heard of in the past");
            if silent_ns > allowed_ns && self.role == Role::Leading {
                let mut observer = self.ensemble.observer.borrow_mut();
                observer.session_expired(now_ns, silent_ns - stood_ns, allowed_ns);
                drop(observer);
                self.propose(Request {
                    origin: self.node,
                    session,
                    xid: -1,
                    write: Write::Close,
                });
            }
        }
    }

    /// Returns of each open session the silence and its limit.
    pub(super) fn sessions(&mut self) -> Vec<(Ns, Ns)> {
        let now_ns = self.world.now_ns();
        let silent = |(session, allowed_ns): (u64, Ns)| {
            let seen_ns = self.seen.get(&session).copied().unwrap_or(now_ns);
            (now_ns - seen_ns, allowed_ns)
        };
        let open = self.session_paths.open(&self.disk.borrow().tree);
        open.into_iter().map(silent).collect()
    }
}
