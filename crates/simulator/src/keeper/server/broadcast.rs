//! Replicates the log: the leader proposes, a majority has the entry on disk, every server applies
//! it.

use std::rc::Rc;

use crate::errors::{KeeperError, SESSION_EXPIRED};
use crate::keeper::configuration::{Configuration, CONFIG};
use crate::keeper::messages::{session_path, Answered, Request, Txn, Write, FSYNC_NS, SESSIONS};
use crate::keeper::server::gaps::applies;
use crate::keeper::server::{Ack, Role, State};
use crate::keeper::tree::{Change, Data, Effect, Operation, Path, Tree};
use crate::network::Node;
use crate::world::Ns;

impl State {
    /// Handles a request from a follower or from this leader's own clients.
    pub(super) fn on_request(&mut self, request: Request) {
        if self.role != Role::Leading || !self.serves {
            return;
        }
        if !matches!(request.write, Write::Sync) {
            return self.propose(request);
        }
        let count = self.disk.borrow().log.len();
        if self.committed < count {
            self.syncs.push((count, request));
        } else {
            self.synced(&request);
        }
    }

    pub(super) fn propose(&mut self, request: Request) {
        assert_eq!(self.role, Role::Leading, "only a leader proposes");
        let Some(delay_ns) = self.write_log() else {
            return;
        };
        let mut members = None;
        if let Write::Reconfig(node, role) = request.write {
            members = Some(self.next_configuration(node, role));
        }
        let (changes, answer) = match self.changes(&request, members.as_ref()) {
            Ok((changes, answered)) => (changes, Ok(answered)),
            Err(error) => (Vec::new(), Err(error)),
        };
        let mut disk = self.disk.borrow_mut();
        let zxid = (self.epoch, disk.log.len() as u64);
        assert!(disk.last() < zxid, "zxids increase along the log");
        let txn = Rc::new(Txn {
            zxid,
            origin: request.origin,
            session: request.session,
            xid: request.xid,
            changes,
            answer,
            time_ns: self.world.now_ns(),
            wall_ns: self.world.wall_ns(self.node),
            members: members.and_then(Result::ok),
        });
        disk.log.push(txn.clone());
        let count = disk.log.len();
        drop(disk);
        self.configurations.propose(count, &txn);
        let me = self.node;
        let informed = |peer: &Node| *peer != me && !self.is_left_behind(*peer);
        for peer in self.acked.peers().filter(informed) {
            let txn = txn.clone();
            self.tell(peer, move |peer| peer.on_propose(me, txn));
        }
        let took_ns = self.world.around(FSYNC_NS) + delay_ns;
        let ack = Ack::new(self.epoch, count);
        self.schedule(took_ns, move |leader| leader.on_ack(me, ack));
    }

    fn changes(
        &mut self,
        request: &Request,
        members: Option<&Result<Rc<Configuration>, KeeperError>>,
    ) -> Result<(Vec<Change>, Answered), KeeperError> {
        let session = request.session;
        let path = self.session_paths.of(session);
        let tree = self.planned.as_mut();
        let tree = tree.expect("a serving leader has a planned tree");
        match &request.write {
            Write::Open(timeout_ns) => {
                self.seen.insert(session, self.world.now_ns());
                opened(tree, &path.path, *timeout_ns, session)
            }
            _ if tree.find(path.key()).is_none() => Err(KeeperError::new(SESSION_EXPIRED)),
            Write::Multi(operations) if operations.is_empty() => {
                Ok((Vec::new(), Answered::Nothing))
            }
            Write::Multi(operations) => planned(tree, operations, session),
            Write::Close => Ok((closed(tree, &path.path, session), Answered::Nothing)),
            Write::Reconfig(..) => {
                let members = members.expect("a new configuration was made");
                let text = members.clone()?.text(&self.ensemble.names);
                Ok((configured(tree, &text), Answered::Nothing))
            }
            Write::Sync => unreachable!("a sync has no changes"),
        }
    }

    /// Handles a proposal: appends it to the log and writes it to disk.
    fn on_propose(&mut self, leader: Node, txn: Rc<Txn>) {
        let (epoch, number) = txn.zxid;
        if self.follows(leader, epoch) {
            let Some(delay_ns) = self.write_log() else {
                return;
            };
            let mut disk = self.disk.borrow_mut();
            assert_eq!(number, disk.log.len() as u64, "proposals arrive in order");
            assert!(disk.last() < txn.zxid, "zxids increase along the log");
            self.configurations.propose(disk.log.len() + 1, &txn);
            disk.log.push(txn);
            let ack = Ack::new(epoch, disk.log.len());
            let took_ns = self.world.around(FSYNC_NS) + delay_ns;
            let me = self.node;
            self.tell_later(took_ns, leader, move |leader| leader.on_ack(me, ack));
        }
    }

    /// Records that a server has this many entries on disk.
    pub(super) fn on_ack(&mut self, peer: Node, ack: Ack) {
        if self.role != Role::Leading || u64::from(ack.epoch) != self.epoch {
            return;
        }
        let Some(acked) = self.acked.of(peer) else {
            return;
        };
        let count = ack.count as usize;
        assert!(
            count <= self.disk.borrow().log.len(),
            "a follower has no more entries than its leader"
        );
        *acked = count.max(*acked);
        self.heard_ns[peer] = self.world.now_ns();
        let late = count <= self.committed && self.serves;
        if !late || (peer != self.node && !self.ready.contains(&peer)) {
            self.commit_acknowledged();
        }
    }

    pub(super) fn commit_acknowledged(&mut self) {
        let waits = !self.serves || self.ready.len() + 1 < self.acked.len();
        let least = self.committed + usize::from(!waits);
        let committed = match self.ensemble.reconfigured.get() {
            false => self.acked.on(self.ensemble.majority(), least),
            true => self.acknowledged(),
        };
        if committed < self.activated_at || committed < self.committed {
            return;
        }
        let logged = self.disk.borrow().log.len();
        assert!(committed <= logged, "committed entries are in the log");
        let before = std::mem::replace(&mut self.committed, committed);
        if !self.serves || committed > before {
            self.commit(committed);
        }
        if waits {
            self.make_ready(committed);
        }
    }

    /// Commits entries that a majority has on disk.
    fn commit(&mut self, committed: usize) {
        assert_eq!(self.role, Role::Leading, "only a leader commits");
        if !self.serves {
            self.activate(committed);
        }
        let epoch = self.epoch;
        for peer in self
            .ready
            .iter()
            .filter(|peer| !self.is_left_behind(**peer))
        {
            self.tell(*peer, move |peer| peer.on_commit(epoch, committed));
        }
        self.apply(committed);
        if !self.syncs.is_empty() {
            self.end_syncs(committed);
        }
    }

    #[cold]
    fn end_syncs(&mut self, committed: usize) {
        assert_eq!(
            committed, self.committed,
            "a sync ends after the commits that it awaits"
        );
        for (count, request) in std::mem::take(&mut self.syncs) {
            if count <= committed {
                self.synced(&request);
            } else {
                self.syncs.push((count, request));
            }
        }
    }

    /// Tells followers that now have the log to serve.
    #[cold]
    fn make_ready(&mut self, committed: usize) {
        assert!(
            committed >= self.activated_at,
            "a serving follower has the leader's log"
        );
        let epoch = self.epoch;
        for peer in self.acked.from(self.activated_at) {
            if peer != self.node && !self.ready.contains(&peer) {
                self.ready.push(peer);
                self.tell(peer, move |peer| peer.on_commit(epoch, committed));
            }
        }
    }

    /// Lets a leader begin to serve.
    #[cold]
    fn activate(&mut self, committed: usize) {
        self.apply(committed);
        let disk = self.disk.borrow();
        let mut planned = disk.tree.clone();
        let changes = disk.log[committed..].iter().flat_map(|txn| &txn.changes);
        let gaps = self.ensemble.bugs.leave_gaps();
        for change in changes {
            if !gaps || applies(&planned, change) {
                planned.change(change);
            }
        }
        assert!(!self.serves, "a leader begins to serve once in an epoch");
        self.planned = Some(planned);
        self.seen.clear();
        self.serves = true;
    }

    /// Handles a commit from the leader. The first one tells the follower to serve.
    fn on_commit(&mut self, epoch: u64, committed: usize) {
        if self.role == Role::Following && epoch == self.epoch {
            let known = self.disk.borrow().log.len();
            assert!(committed <= known, "an entry arrives before its commit");
            assert!(committed >= self.committed, "commits are never withdrawn");
            self.serves = true;
            self.committed = committed;
            self.apply(committed);
        }
    }

    fn apply(&mut self, committed: usize) {
        let applied = self.disk.borrow().applied;
        assert!(applied <= committed, "applied entries stay committed");
        while let Some(txn) = self.apply_next(committed) {
            if txn.origin == self.node {
                self.answer(txn.session, txn.xid, &txn.answer);
            }
            if closes(&txn) {
                self.clients.close(txn.session);
            }
        }
        if self.configurations.pending() {
            self.activate_configuration(committed);
        }
    }

    /// Applies one entry, unless the tree has all `committed` ones.
    fn apply_next(&mut self, committed: usize) -> Option<Rc<Txn>> {
        let disk = &mut *self.disk.borrow_mut();
        if disk.applied >= committed {
            return None;
        }
        let txn = disk.log[disk.applied].clone();
        if !self.ensemble.may_lose_commits() {
            let mut agreed = self.ensemble.agreed.borrow_mut();
            agreed.applies(disk.applied, txn.zxid);
        }
        let session = self.session_paths.of(txn.session).key();
        let open = disk.tree.find(session).is_some();
        let gaps = self.ensemble.bugs.leave_gaps();
        assert!(
            open || txn.xid == 0 || txn.changes.is_empty() || gaps,
            "only open sessions write"
        );
        disk.applied += 1;
        disk.tree.zxid = disk.applied as i64;
        disk.tree.now_ns = txn.wall_ns;
        assert_eq!(
            disk.applied as u64,
            txn.zxid.1 + 1,
            "an entry's counter is its index in the log"
        );
        let (ensemble, now_ns) = (&*self.ensemble, self.world.now_ns());
        let first = self.role == Role::Leading && disk.applied > ensemble.observed.get();
        if first {
            let before = ensemble.observed.replace(disk.applied);
            let next = before + 1 == disk.applied || ensemble.may_lose_commits();
            assert!(next, "the observer sees every entry");
            let mut observer = ensemble.observer.borrow_mut();
            observer.committing(now_ns, &txn, &disk.tree);
        }
        for change in &txn.changes {
            if gaps && !applies(&disk.tree, change) {
                continue;
            }
            let listed = disk.tree.change(change);
            self.clients.changed(change, listed);
        }
        if first {
            let mut observer = ensemble.observer.borrow_mut();
            observer.committed(now_ns, &txn, &disk.tree);
            let key = (txn.session, txn.xid);
            ensemble.messages.took_effect(now_ns, key, disk.applied);
        }
        let closed = open && disk.tree.find(session).is_none();
        assert!(
            !closed || disk.tree.owned(txn.session).is_empty() || gaps,
            "ephemeral nodes end with their session"
        );
        if first && closed {
            let messages = &self.ensemble.messages;
            messages.gone(now_ns, txn.session, disk.applied);
        }
        Some(txn)
    }

    fn synced(&mut self, request: &Request) {
        // The preceding commits travel on the same link, ahead of this.
        let (session, xid, epoch) = (request.session, request.xid, self.epoch);
        if request.origin == self.node {
            self.answer(session, xid, &Ok(Answered::Nothing));
        } else {
            let act = move |peer: &mut State| peer.on_synced(epoch, session, xid);
            self.tell(request.origin, act);
        }
    }

    /// Handles the leader's answer to a sync. Everything that it had committed arrived before.
    fn on_synced(&mut self, epoch: u64, session: u64, xid: i64) {
        if self.role == Role::Following && epoch == self.epoch {
            self.answer(session, xid, &Ok(Answered::Nothing));
        }
    }
}

/// Returns the changes of a session's opening.
#[cold]
fn opened(
    tree: &mut Tree,
    path: &Path,
    timeout_ns: Ns,
    session: u64,
) -> Result<(Vec<Change>, Answered), KeeperError> {
    let missing = ["/zookeeper", SESSIONS].into_iter();
    let mut operations: Vec<Operation> = missing
        .filter(|path| !tree.has(path))
        .map(|path| Operation::create(path, Data::default()))
        .collect();
    operations.push(Operation::create(path.clone(), Data::Number(timeout_ns)));
    planned(tree, &operations, session)
}

/// Returns the changes of a session's end.
#[cold]
fn closed(tree: &mut Tree, path: &Path, session: u64) -> Vec<Change> {
    let removal = tree.owned(session).iter().cloned().chain([path.clone()]);
    let changes: Vec<Change> = removal.map(Change::removal).collect();
    for change in &changes {
        tree.change(change);
    }
    assert!(
        tree.owned(session).is_empty(),
        "ephemeral nodes end with their session"
    );
    changes
}

/// Returns the change of the node that shows the members.
#[cold]
fn configured(tree: &mut Tree, text: &str) -> Vec<Change> {
    let data = Data::text(text);
    let operation = match tree.has(CONFIG) {
        true => Operation::put(CONFIG, data),
        false => Operation::create(CONFIG, data),
    };
    let planned = tree.planned(&[operation], 0);
    planned.expect("sessions have made the node above").0
}

/// Returns the changes of a multi.
fn planned(
    tree: &mut Tree,
    operations: &[Operation],
    session: u64,
) -> Result<(Vec<Change>, Answered), KeeperError> {
    let (changes, done) = tree.planned(operations, session)?;
    Ok((changes, Answered::Done(done.into())))
}

/// Whether the transaction closes its session, whose own node is removed last.
fn closes(txn: &Txn) -> bool {
    let last = txn.changes.last();
    let last = last.filter(|change| matches!(change.effect, Effect::Removed));
    last.is_some_and(|Change { path, .. }| {
        path.starts_with(SESSIONS) && *path == session_path(txn.session)
    })
}
