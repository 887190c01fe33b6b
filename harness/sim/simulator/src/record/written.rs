//! Facts as JSON: each a list, its name, then its time, then the rest.

use super::{Fact, Place};
use crate::interpreter::lines::{number, text};
use crate::world::Ns;

/// The facts, on a clock that the world's is `ahead_ns` ahead of.
pub fn written(facts: &[Fact], ahead_ns: Ns) -> Vec<u8> {
    let mut list = List::begun(Vec::with_capacity(48 * facts.len()));
    for fact in facts {
        list.comma();
        list.out = written_one(fact, ahead_ns, std::mem::take(&mut list.out));
    }
    list.ended()
}

fn written_one(fact: &Fact, ahead_ns: Ns, out: Vec<u8>) -> Vec<u8> {
    let list = List::begun(out);
    let list = match fact {
        Fact::Ended {
            now_ns,
            part,
            needed,
            holders,
        } => {
            let mut list = list.text("ended").int(now_ns - ahead_ns).text(part);
            list = list.int(*needed as i64);
            list.comma();
            let names = List::begun(std::mem::take(&mut list.out));
            list.out = holders
                .iter()
                .fold(names, |names, name| names.text(name))
                .ended();
            list
        }
        Fact::Last {
            now_ns,
            partition,
            number,
        } => list
            .text("last")
            .int(now_ns - ahead_ns)
            .text(partition)
            .int(*number),
        Fact::Places {
            now_ns,
            first,
            replicas,
        } => list
            .text("places")
            .int(now_ns - ahead_ns)
            .int(*first)
            .places(replicas),
        Fact::Pointer {
            now_ns,
            replica,
            from,
            to,
            copied,
            lost,
        } => {
            let list = list.text("pointer").int(now_ns - ahead_ns).text(replica);
            list.int(*from).int(*to).int(*copied as i64).flag(*lost)
        }
        Fact::Part {
            now_ns,
            replica,
            name,
            hash,
        } => {
            let list = list.text("part").int(now_ns - ahead_ns).text(replica);
            list.text(name).int(i64::from(*hash))
        }
        Fact::Merge {
            now_ns,
            name,
            by,
            leader,
        } => {
            let list = list.text("merge").int(now_ns - ahead_ns).text(name);
            list.text(by).text(leader)
        }
        Fact::Session {
            now_ns,
            silent_ms,
            allowed_ms,
        } => list
            .text("session")
            .int(now_ns - ahead_ns)
            .int(*silent_ms)
            .int(*allowed_ms),
    };
    list.ended()
}

/// A JSON list that is being written.
struct List {
    out: Vec<u8>,
    empty: bool,
}

impl List {
    fn begun(mut out: Vec<u8>) -> List {
        out.push(b'[');
        List { out, empty: true }
    }

    fn comma(&mut self) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
    }

    fn text(mut self, said: &str) -> List {
        self.comma();
        text(&mut self.out, said);
        self
    }

    fn int(mut self, value: i64) -> List {
        self.comma();
        number(&mut self.out, value);
        self
    }

    fn flag(mut self, value: bool) -> List {
        self.comma();
        self.out
            .extend_from_slice(if value { b"true" } else { b"false" });
        self
    }

    /// An object of lists.
    fn places(mut self, places: &[Place]) -> List {
        self.comma();
        self.out.push(b'{');
        for (at, place) in places.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            text(&mut self.out, &place.replica);
            self.out.push(b':');
            let list = List::begun(std::mem::take(&mut self.out));
            self.out = list
                .int(place.pointer)
                .flag(place.active)
                .flag(place.lost)
                .ended();
        }
        self.out.push(b'}');
        self
    }

    fn ended(mut self) -> Vec<u8> {
        self.out.push(b']');
        self.out
    }
}
