//! Formats facts as JSON lists: name, time, then the other fields.

use histories::journal::{number, text};

use super::fact::{Fact, ReplicaPosition};
use crate::world::Ns;

/// Return the facts as JSON. The world's clock is `ahead_ns` ahead of the one in the output.
pub fn trace_json(facts: &[Fact], ahead_ns: Ns) -> Vec<u8> {
    let mut list = List::open(Vec::with_capacity(48 * facts.len()));
    for fact in facts {
        list.comma();
        list.out = fact_json(fact, ahead_ns, std::mem::take(&mut list.out));
    }
    list.close()
}

fn fact_json(fact: &Fact, ahead_ns: Ns, out: Vec<u8>) -> Vec<u8> {
    let list = List::open(out);
    let list = match fact {
        Fact::QuorumReached {
            now_ns,
            part,
            needed,
            holders,
            parallel,
        } => {
            let name = if *parallel { "parallel" } else { "ended" };
            let mut list = list.text(name).int(now_ns - ahead_ns).text(part);
            list = list.int(*needed as i64);
            list.comma();
            let names = List::open(std::mem::take(&mut list.out));
            list.out = holders
                .iter()
                .fold(names, |names, name| names.text(name))
                .close();
            list
        }
        Fact::LastPart {
            now_ns,
            partition,
            number,
        } => list
            .text("last")
            .int(now_ns - ahead_ns)
            .text(partition)
            .int(*number),
        Fact::Positions {
            now_ns,
            first,
            replicas,
        } => list
            .text("places")
            .int(now_ns - ahead_ns)
            .int(*first)
            .places(replicas),
        Fact::PointerMoved {
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
        Fact::PartAnnounced {
            now_ns,
            replica,
            name,
            hash,
        } => {
            let list = list.text("part").int(now_ns - ahead_ns).text(replica);
            list.text(name).int(i64::from(*hash))
        }
        Fact::PartLost {
            now_ns,
            replica,
            name,
        } => {
            let list = list.text("lost").int(now_ns - ahead_ns).text(replica);
            list.text(name)
        }
        Fact::MergeChosen {
            now_ns,
            name,
            by,
            leader,
        } => {
            let list = list.text("merge").int(now_ns - ahead_ns).text(name);
            list.text(by).text(leader)
        }
        Fact::SessionExpired {
            now_ns,
            silent_ms,
            allowed_ms,
        } => list
            .text("session")
            .int(now_ns - ahead_ns)
            .int(*silent_ms)
            .int(*allowed_ms),
    };
    list.close()
}

/// A JSON list under construction.
struct List {
    out: Vec<u8>,
    empty: bool,
}

impl List {
    fn open(mut out: Vec<u8>) -> List {
        out.push(b'[');
        List { out, empty: true }
    }

    fn comma(&mut self) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
    }

    fn text(mut self, value: &str) -> List {
        self.comma();
        text(&mut self.out, value);
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

    /// Append an object that maps each replica to a list.
    fn places(mut self, places: &[ReplicaPosition]) -> List {
        self.comma();
        self.out.push(b'{');
        for (at, place) in places.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            text(&mut self.out, &place.replica);
            self.out.push(b':');
            let list = List::open(std::mem::take(&mut self.out));
            self.out = list
                .int(place.pointer)
                .flag(place.active)
                .flag(place.lost)
                .close();
        }
        self.out.push(b'}');
        self
    }

    fn close(mut self) -> Vec<u8> {
        self.out.push(b']');
        self.out
    }
}
