//! Logs what replicas ask of ZooKeeper and of each other: when each message was sent, when and in
//! which state of ZooKeeper it took effect, and when it was answered or its connection was lost; and
//! when the sessions of replicas ended. It is off unless asked for.

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

/// How a message ended for its sender.
#[derive(Clone, Copy)]
pub enum End {
    Done,
    Refused,
    /// The connection was lost.
    Lost,
}

impl End {
    /// Returns the word that the log has for it.
    pub fn name(self) -> &'static str {
        match self {
            End::Done => "done",
            End::Refused => "refused",
            End::Lost => "lost",
        }
    }
}

/// A message of a replica, and what became of it.
pub struct Message {
    pub node: Node,
    /// "read" and "write" of ZooKeeper, "fetch" from a replica; "gone" is the end of a session.
    pub kind: &'static str,
    pub operations: Vec<Logged>,
    pub sent_ns: Ns,
    /// The time, and the number of transactions that had been applied.
    pub effect: Option<(Ns, usize)>,
    pub ended: Option<(Ns, End)>,
}

impl Message {
    fn new(node: Node, kind: &'static str, operations: Vec<Logged>, now_ns: Ns) -> Message {
        Message {
            node,
            kind,
            operations,
            sent_ns: now_ns,
            effect: None,
            ended: None,
        }
    }
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
            let asked = vec![("fetch", source.clone(), Some(Data::text(part)))];
            self.push(key, Message::new(node, "fetch", asked, now_ns));
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
            let end = if succeeded { End::Done } else { End::Refused };
            self.change(key, |message| message.ended = Some((now_ns, end)));
        }
    }

    /// Logs that the connection of an unanswered message is lost.
    #[cold]
    pub fn lost(&self, now_ns: Ns, key: Key) {
        if self.on.get() {
            self.change(key, |message| message.ended = Some((now_ns, End::Lost)));
        }
    }

    /// Logs the end of a session, unless its replica never sent a message.
    #[cold]
    pub fn gone(&self, now_ns: Ns, session: u64, applied: usize) {
        let of_session = |(key, _): &(&Key, &usize)| key.0 == session;
        let place = self
            .places
            .borrow()
            .iter()
            .find(of_session)
            .map(|(_, place)| *place);
        if let Some(place) = place {
            let node = self.messages.borrow()[place].node;
            let mut end = Message::new(node, "gone", Vec::new(), now_ns);
            end.effect = Some((now_ns, applied));
            self.push((session, i64::MAX), end);
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
        self.push(key, Message::new(node, kind, operations, now_ns));
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
