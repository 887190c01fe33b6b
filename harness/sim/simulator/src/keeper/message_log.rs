//! Logs what replicas ask of ZooKeeper and of each other: when each message was sent, when and in
//! which state of ZooKeeper it took effect, and when it was answered. It is off unless asked for.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::keeper::messages::{Ask, Write};
use crate::keeper::reading::Reading;
use crate::keeper::tree::{Data, Operation};
use crate::network::Node;
use crate::world::Ns;

/// Name, path and data of an operation.
type Logged = (&'static str, Rc<str>, Option<Data>);

/// A message of a replica, and what became of it.
pub struct Message {
    pub node: Node,
    /// "read" and "write" of ZooKeeper, "fetch" from a replica.
    pub kind: &'static str,
    pub operations: Vec<Logged>,
    pub sent_ns: Ns,
    /// The time, and the number of transactions that had been applied.
    pub effect: Option<(Ns, usize)>,
    /// The time, and whether it succeeded.
    pub answered: Option<(Ns, bool)>,
}

/// Session and number of a request; fetches have session 0.
type Key = (u64, i64);

/// The messages of all replicas in the order in which they were sent.
#[derive(Default)]
pub struct MessageLog {
    on: Cell<bool>,
    messages: RefCell<Vec<Message>>,
    places: RefCell<FxHashMap<Key, usize>>,
}

impl MessageLog {
    /// Begins to log.
    pub fn start(&self) {
        self.on.set(true);
    }

    /// Logs a request to ZooKeeper that is sent now.
    #[inline]
    pub fn sent(&self, now_ns: Ns, node: Node, key: Key, ask: &Ask) {
        if self.on.get() {
            self.add(now_ns, node, key, ask);
        }
    }

    /// Logs a request for a part that is sent now; returns its key.
    pub fn fetch(&self, now_ns: Ns, node: Node, source: &Rc<str>, part: &str) -> Key {
        let key = (0, self.messages.borrow().len() as i64);
        if self.on.get() {
            self.push(
                key,
                Message {
                    node,
                    kind: "fetch",
                    operations: vec![("fetch", source.clone(), Some(Data::text(part)))],
                    sent_ns: now_ns,
                    effect: None,
                    answered: None,
                },
            );
        }
        key
    }

    /// Logs that a message has taken effect, when this many transactions had been applied.
    #[inline]
    pub fn took_effect(&self, now_ns: Ns, key: Key, applied: usize) {
        if self.on.get() {
            self.change(key, |message| message.effect = Some((now_ns, applied)));
        }
    }

    /// Logs an answer.
    #[inline]
    pub fn answered(&self, now_ns: Ns, key: Key, succeeded: bool) {
        if self.on.get() {
            self.change(key, |message| message.answered = Some((now_ns, succeeded)));
        }
    }

    fn add(&self, now_ns: Ns, node: Node, key: Key, ask: &Ask) {
        let (kind, operations) = match ask {
            Ask::Ping => return,
            Ask::Read(reading, _) => ("read", vec![read(reading)]),
            Ask::ReadAll(readings, _) => ("read", readings.iter().map(read).collect()),
            Ask::ReadAgain(readings) => ("read", readings.all().iter().map(read).collect()),
            Ask::Write(Write::Multi(operations)) => {
                ("write", operations.iter().map(written).collect())
            }
            Ask::Write(_) => return,
        };
        self.push(
            key,
            Message {
                node,
                kind,
                operations,
                sent_ns: now_ns,
                effect: None,
                answered: None,
            },
        );
    }

    fn push(&self, key: Key, message: Message) {
        let mut messages = self.messages.borrow_mut();
        let other = self.places.borrow_mut().insert(key, messages.len());
        assert!(other.is_none(), "each message has a key of its own");
        messages.push(message);
    }

    fn change(&self, key: Key, change: impl FnOnce(&mut Message)) {
        if let Some(place) = self.places.borrow().get(&key) {
            change(&mut self.messages.borrow_mut()[*place]);
        }
    }

    /// Returns the messages in the order in which they were sent.
    pub fn messages(&self) -> Ref<'_, [Message]> {
        Ref::map(self.messages.borrow(), Vec::as_slice)
    }
}

fn read(reading: &Reading) -> Logged {
    let name = match reading {
        Reading::Get(_) => "get",
        Reading::Exists(_) | Reading::Stat(_) | Reading::Count(_) => "exists",
        _ => "list",
    };
    (name, reading.path().clone(), None)
}

fn written(operation: &Operation) -> Logged {
    let (name, data) = match operation {
        Operation::Create { data, .. } => ("create", Some(data.clone())),
        Operation::Remove { .. } => ("remove", None),
        Operation::Put { data, .. } => ("set", Some(data.clone())),
        Operation::Check { .. } => ("check", None),
        Operation::Absent { .. } => ("absent", None),
    };
    (name, operation.path().clone(), data)
}
