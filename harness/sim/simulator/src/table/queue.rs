//! A replica's queue: what the log tells it to do, and the doing.
//!
//! Source: ReplicatedMergeTreeQueue and StorageReplicatedMergeTree::executeLogEntry of 18.16.1.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::bugs::Bug;
use crate::errors::{KeeperError, Trouble};
use crate::keeper::session::{Found, KeeperSession, Reading};
use crate::keeper::tree::{child, Operation};
use crate::table::cover::Cover;
use crate::table::entries::{Data, Entry, EntryKind};
use crate::table::fetch::{fetch, update_quorum};
use crate::table::merge::{merge, mutate};
use crate::table::parts::{Info, Ordered};
use crate::table::replica::{Mutations, Table};
use crate::world::{Ns, Promise, World, SECOND};

/// What 18.16.1's pool sleeps after an attempt that failed, unless something new comes, and up to a
/// second more.
const ERROR_SLEEP_NS: Ns = 10 * SECOND;
const PULL_ERROR_SLEEP_NS: Ns = SECOND;

/// At one entry.
pub struct Attempts {
    pub entry: Rc<Entry>,
    pub tries: u64,
    pub executing: bool,
    pub failure: String,
    /// Tells it from another of the same name: one that was given up may come again.
    number: u64,
}

/// One that goes on.
struct Attempt {
    name: Rc<str>,
    entry: Rc<Entry>,
    number: u64,
}

/// Of one table of one replica, in memory; ZooKeeper has the same.
pub struct Queue {
    world: Rc<World>,
    /// By the name of the node, in the order of execution.
    pub entries: RefCell<Ordered<Rc<str>, Attempts>>,
    /// The parts that there will be when the queue is empty.
    pub virtual_parts: RefCell<Cover<()>>,
    pub pointer: Cell<i64>,
    added: Cell<u64>,
    wakes: RefCell<Vec<Promise<()>>>,
}

impl Queue {
    pub fn new(world: &Rc<World>) -> Queue {
        Queue {
            world: world.clone(),
            entries: RefCell::default(),
            virtual_parts: RefCell::default(),
            pointer: Cell::new(0),
            added: Cell::new(0),
            wakes: RefCell::default(),
        }
    }

    /// A new entry, last.
    fn add(&self, name: Rc<str>, entry: &Rc<Entry>) {
        self.added.set(self.added.get() + 1);
        let attempts = Attempts {
            entry: entry.clone(),
            tries: 0,
            executing: false,
            failure: String::new(),
            number: self.added.get(),
        };
        let other = self.entries.borrow_mut().insert(name, attempts);
        assert!(other.is_none(), "an entry is queued once");
        self.virtual_parts.borrow_mut().add(&entry.new, ());
    }

    /// Something may be done now.
    pub fn wake(&self) {
        for wake in self.wakes.take() {
            wake.set(&self.world, ());
        }
    }

    /// Until something may be done, or the time is over.
    async fn sleep(&self, ns: Option<Ns>) {
        let wake = Promise::new();
        self.wakes.borrow_mut().push(wake.clone());
        match ns {
            None => self.world.wait(&wake).await,
            Some(ns) => {
                if self.world.wait_for(&wake, ns).await.is_err() {
                    self.wakes.borrow_mut().retain(|other| !other.is(&wake));
                }
            }
        }
    }
}

/// A part that ZooKeeper lists and that is not here.
pub async fn fetch_again(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Info,
) -> Result<(), KeeperError> {
    let entry = Rc::new(Entry::get(part.clone()));
    let operations = vec![
        queued(table, Data::Entry(entry.clone())),
        Operation::remove(child(&table.own.parts, &part.name())),
    ];
    let made = zk.multi(operations).await?;
    table.queue.add(last_word(made[0].path()), &entry);
    table.queue.wake();
    Ok(())
}

/// A part that will never be.
pub async fn give_up(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Info,
) -> Result<(), KeeperError> {
    let queue = &table.queue;
    queue.virtual_parts.borrow_mut().remove(part);
    let name = {
        let mut entries = queue.entries.borrow_mut();
        let found = entries.values().position(|one| one.entry.new == *part);
        found
            .and_then(|at| entries.shift_remove_index(at))
            .map(|(name, _)| name)
    };
    if let Some(name) = name {
        queue.wake();
        zk.remove(child(&table.own.queue, &name)).await?;
    }
    Ok(())
}

/// The last part of a node's path.
fn last_word(path: &str) -> Rc<str> {
    let (_, name) = path.rsplit_once('/').expect("a path");
    name.into()
}

/// A node of the replica's queue.
pub fn queued(table: &Table, entry: Data) -> Operation {
    Operation::numbered(table.own.queue_entry.clone(), entry)
}

// --- the log ------------------------------------------------------------------------------------

/// Of an entry of the log, by its node's name.
pub fn log_number(name: &str) -> i64 {
    let number = name.strip_prefix("log-").unwrap_or(name);
    number
        .parse()
        .expect("a sequential node ends in its number")
}

/// What ZooKeeper has and memory has not.
pub async fn load(table: &Rc<Table>, zk: &Rc<KeeperSession>) -> Result<(), KeeperError> {
    let queue = &table.queue;
    let pointer = zk.data(table.own.log_pointer.clone()).await?;
    queue.pointer.set(pointer.as_number());
    let path = table.own.queue.clone();
    let found = zk.read_one(Reading::values(path), None).await?;
    for (name, entry) in found.values() {
        let known = queue.entries.borrow().contains_key(&name);
        if !known {
            queue.add(name, entry.as_entry());
        }
    }
    Ok(())
}

/// Copies the log's new entries to the queue, in one multi with the pointer; one pull at a time.
pub async fn pull(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    watch: Option<&Promise<()>>,
) -> Result<(), KeeperError> {
    let _guard = table.pulls.hold().await;
    let pointer = &table.own.log_pointer;
    let ahead = Reading::ahead(table.paths.log.clone(), pointer.clone());
    let logged = zk.read_one(ahead, watch).await?;
    let mutations = zk.read_one(mutations_listed(table), None).await?;
    table.mutations.replace(known(mutations));
    let mut copied = logged.values();
    let Some((newest, _)) = copied.last() else {
        return Ok(());
    };
    let end = log_number(newest) + 1;
    assert!(end > table.queue.pointer.get(), "a pointer moves on");
    if table.bugs.has(Bug::PointerSkips) && copied.len() > 2 {
        copied.remove(0);
    }
    let mut operations = Vec::with_capacity(copied.len() + 1);
    let entries = copied.iter().map(|(_, entry)| queued(table, entry.clone()));
    operations.extend(entries);
    operations.push(Operation::put(pointer.clone(), Data::Number(end)));
    let made = zk.multi(operations).await?;
    table.queue.pointer.set(end);
    for ((_, entry), done) in copied.iter().zip(made.iter()) {
        table.queue.add(last_word(done.path()), entry.as_entry());
    }
    table.queue.wake();
    Ok(())
}

/// Pulls whenever the log changes, as long as the session lives.
pub async fn follow(table: Rc<Table>, zk: Rc<KeeperSession>) {
    while table.uses(&zk) {
        let changed = Promise::new();
        if pull(&table, &zk, Some(&changed)).await.is_ok() {
            table.world.wait(&changed).await;
        } else {
            table.world.sleep(PULL_ERROR_SLEEP_NS).await;
        }
    }
}

fn mutations_listed(table: &Table) -> Reading {
    Reading::values(table.paths.mutations.clone())
}

fn known(listed: Found) -> Mutations {
    let listed = listed.values().into_iter();
    let mutations = listed.map(|(name, data)| (name, data.as_mutation().clone()));
    mutations.collect()
}

/// Reads the mutations whenever their list changes, as long as the session lives.
pub async fn learn(table: Rc<Table>, zk: Rc<KeeperSession>) {
    while table.uses(&zk) {
        let changed = Promise::new();
        let read = zk.read_one(mutations_listed(&table), Some(&changed));
        let Ok(listed) = read.await else {
            return;
        };
        table.mutations.replace(known(listed));
        table.world.wait(&changed).await;
    }
}

// --- execution ----------------------------------------------------------------------------------

/// One thread of the pool, for ever.
pub async fn work(table: Rc<Table>) {
    loop {
        match select(&table) {
            None => table.queue.sleep(None).await,
            Some(attempt) => {
                if !process(&table, attempt).await {
                    let ns = ERROR_SLEEP_NS + table.world.below(SECOND as u64) as Ns;
                    table.queue.sleep(Some(ns)).await;
                }
            }
        }
    }
}

/// The first entry that may be executed, which is from now on.
fn select(table: &Table) -> Option<Attempt> {
    if table.readonly.get() {
        return None;
    }
    let mut entries = table.queue.entries.borrow_mut();
    let at = {
        let executing = entries.values().filter(|other| other.executing);
        let made: Vec<&Info> = executing.map(|other| &other.entry.new).collect();
        let mut candidates = entries.values();
        candidates.position(|one| !one.executing && may(table, &one.entry, &made))?
    };
    // To the end: others get their chance if this one fails.
    let last = entries.len() - 1;
    entries.move_index(at, last);
    let (name, attempts) = entries.get_index_mut(last).expect("it is the last");
    assert!(!attempts.executing, "an entry is executed by one thread");
    attempts.executing = true;
    attempts.tries += 1;
    Some(Attempt {
        name: name.clone(),
        entry: attempts.entry.clone(),
        number: attempts.number,
    })
}

/// Not while something is made that covers it, nor before what it needs is made.
fn may(table: &Table, entry: &Entry, made: &[&Info]) -> bool {
    if entry.kind == EntryKind::Get && table.fetches_stopped.get() && entry.source != table.me {
        return false;
    }
    let mut made = made.iter();
    !made.any(|new| new.contains(&entry.new) || entry.parts.contains(new))
}

async fn process(table: &Rc<Table>, attempt: Attempt) -> bool {
    let (done, failure) = match execute(table, &attempt.entry).await {
        Ok(done) => (done, String::new()),
        Err(error) => (false, error.to_string()),
    };
    if let Some(attempts) = table.queue.entries.borrow_mut().get_mut(&attempt.name) {
        if attempts.number == attempt.number {
            attempts.failure = failure;
            attempts.executing = false;
        }
    }
    if done {
        executed(table, &attempt.name).await;
    }
    done
}

async fn executed(table: &Rc<Table>, name: &str) {
    let zk = table.zk.borrow().clone();
    table.queue.entries.borrow_mut().shift_remove(name);
    table.queue.wake();
    if let Some(zk) = zk {
        // Where it fails, the entry is executed again after the restart, and found done.
        let _ = zk.remove(child(&table.own.queue, name)).await;
    }
}

/// False or an error: again later.
async fn execute(table: &Rc<Table>, entry: &Entry) -> Result<bool, Trouble> {
    let zk = table.connected()?;
    let existing = {
        let active = table.active.borrow();
        let covering = active.covering(&entry.new);
        covering.map(|(_, part)| child(&table.own.parts, &part.name))
    };
    if let Some(existing) = existing {
        if zk.exists(existing).await? {
            if table.bugs.has(Bug::QuorumUncounted) && entry.quorum > 0 {
                update_quorum(table, &zk, &entry.new, &entry.name).await?;
            }
            return Ok(true);
        }
    }
    if entry.quorum > 0 {
        let failed = child(&table.paths.failed_parts, &entry.name);
        if zk.exists(failed).await? {
            return Ok(true);
        }
    }
    let made = match entry.kind {
        EntryKind::Get => false,
        EntryKind::Merge => merge(table, &zk, entry).await?,
        EntryKind::Mutate => mutate(table, &zk, entry).await?,
    };
    if made {
        return Ok(true);
    }
    fetch(table, &zk, entry).await
}
