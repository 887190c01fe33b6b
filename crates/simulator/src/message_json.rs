//! Writes the log of replicas' messages.

use std::rc::Rc;

use histories::journal::{number, text};

use crate::keeper::message_log::Message;
use crate::keeper::tree::Data;
use crate::table::entries::TableData;
use crate::table::parts::Rows;
use crate::world::Ns;

/// Returns the messages as a JSON list of lists: the node, the kind, the times of sending, effect
/// and end, the number of transactions applied at the effect, how it ended, and the operations.
/// What did not happen is null. The world's clock is `ahead_ns` ahead of the output's.
pub fn message_json(messages: &[Message], names: &[Rc<str>], ahead_ns: Ns) -> Vec<u8> {
    let mut out = vec![b'['];
    for (at, message) in messages.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b",\n[" } else { b"[" });
        text(&mut out, &names[message.node]);
        out.push(b',');
        text(&mut out, message.kind);
        let times = [
            Some(message.sent_ns),
            message.effect.map(|(ns, _)| ns),
            message.ended.map(|(ns, _)| ns),
        ];
        for time in times {
            optional(&mut out, time.map(|ns| ns - ahead_ns));
        }
        optional(&mut out, message.effect.map(|(_, applied)| applied as i64));
        out.push(b',');
        match message.ended {
            Some((_, end)) => text(&mut out, end.name()),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",[");
        for (at, (name, path, data)) in message.operations.iter().enumerate() {
            out.extend_from_slice(if at > 0 { b",[" } else { b"[" });
            text(&mut out, name);
            let data = data.as_ref().map(data_text).unwrap_or_default();
            for word in [path, &*data] {
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

fn optional(out: &mut Vec<u8>, value: Option<i64>) {
    out.push(b',');
    match value {
        Some(value) => number(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

/// Returns a node's data as text; rows are left out.
fn data_text(data: &Data) -> String {
    match data.get::<Rows>() {
        Some(_) => String::new(),
        None => data.serialized(),
    }
}
