//! Logs what replicas ask of ZooKeeper and of each other: when each message was sent, when and in
//! which state of ZooKeeper it took effect, and when it was answered. It is off unless asked for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::interpreter::lines::{number, text};
use crate::keeper::messages::{Ask, Write};
use crate::keeper::reading::Reading;
use crate::keeper::tree::{Data, Operation};
use crate::network::Node;
use crate::table::entries::TableData;
use crate::table::parts::Rows;
use crate::world::Ns;

/// A message of a replica, and what became of it.
struct Message {
    node: Node,
    /// "read" and "write" of ZooKeeper, "fetch" from a replica.
    kind: &'static str,
    /// Name, path and data of each operation.
    operations: Vec<(&'static str, Rc<str>, String)>,
    sent_ns: Ns,
    /// The time, and the number of transactions that had been applied.
    effect: Option<(Ns, usize)>,
    /// The time, and whether it succeeded.
    answered: Option<(Ns, bool)>,
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
                    operations: vec![("fetch", source.clone(), part.into())],
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

    /// Returns the messages as a JSON list of lists: the node, the kind, the times of sending, effect
    /// and answer, the number of transactions applied at the effect, whether it succeeded, and the
    /// operations. What did not happen is null. The world's clock is `ahead_ns` ahead of the output's.
    pub fn json(&self, names: &[Rc<str>], ahead_ns: Ns) -> Vec<u8> {
        let mut out = vec![b'['];
        for (at, message) in self.messages.borrow().iter().enumerate() {
            out.extend_from_slice(if at > 0 { b",\n[" } else { b"[" });
            text(&mut out, &names[message.node]);
            out.push(b',');
            text(&mut out, message.kind);
            let times = [
                Some(message.sent_ns),
                message.effect.map(|(ns, _)| ns),
                message.answered.map(|(ns, _)| ns),
            ];
            for time in times {
                optional(&mut out, time.map(|ns| ns - ahead_ns));
            }
            optional(&mut out, message.effect.map(|(_, applied)| applied as i64));
            out.extend_from_slice(match message.answered {
                None => b",null,[",
                Some((_, true)) => b",true,[",
                Some((_, false)) => b",false,[",
            });
            for (at, (name, path, data)) in message.operations.iter().enumerate() {
                out.extend_from_slice(if at > 0 { b",[" } else { b"[" });
                text(&mut out, name);
                for word in [path, &**data] {
                    out.push(b',');
                    text(&mut out, word);
                }
                out.push(b']');
            }
            out.extend_from_slice(b"]]");
        }
        out.push(b']');
        out
    }
}

fn optional(out: &mut Vec<u8>, value: Option<i64>) {
    out.push(b',');
    match value {
        Some(value) => number(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

fn read(reading: &Reading) -> (&'static str, Rc<str>, String) {
    let name = match reading {
        Reading::Get(_) => "get",
        Reading::Exists(_) | Reading::Stat(_) | Reading::Count(_) => "exists",
        _ => "list",
    };
    (name, reading.path().clone(), String::new())
}

fn written(operation: &Operation) -> (&'static str, Rc<str>, String) {
    let (name, data) = match operation {
        Operation::Create { data, .. } => ("create", data_text(data)),
        Operation::Remove { .. } => ("remove", String::new()),
        Operation::Put { data, .. } => ("set", data_text(data)),
        Operation::Check { .. } => ("check", String::new()),
        Operation::Absent { .. } => ("absent", String::new()),
    };
    (name, operation.path().clone(), data)
}

/// Returns a node's data as text; rows are left out.
fn data_text(data: &Data) -> String {
    match data.get::<Rows>() {
        Some(_) => String::new(),
        None => data.serialized(),
    }
}
