//! Writes a simulated ZooKeeper server's log as ZooKeeper 3.8 stores it (FileTxnLog,
//! zookeeper.jute), so that what reads the logs of real servers also reads it.

use std::rc::Rc;

use crate::keeper::messages::{Txn, SESSIONS};
use crate::keeper::tree::{Change, Data, Effect};
use crate::network::Node;
use crate::simulation::{Host, Simulation};
use crate::table::entries::TableData;
use crate::table::parts::{rows_repr, Rows};
use crate::world::MS;

const MAGIC: i32 = 0x5a4b_4c47; // "ZKLG"
const VERSION: i32 = 2;
const CREATE: i32 = 1;
const DELETE: i32 = 2;
const SET_DATA: i32 = 5;
const MULTI: i32 = 14;
const CREATE_SESSION: i32 = -10;
const CLOSE_SESSION: i32 = -11;
const ERROR: i32 = -1;
const END: u8 = b'B';
/// The number of bits of a zxid's counter.
const COUNTER_BITS: u32 = 32;

impl Simulation {
    /// Returns the log of a ZooKeeper server, as a file of ZooKeeper's.
    pub fn transactions(&self, node: Node) -> Vec<u8> {
        match &self.hosts[node] {
            Host::Keeper { disk, .. } => transaction_log(&disk.borrow().log),
            _ => panic!("node {node} is not a ZooKeeper server"),
        }
    }
}

/// Returns the content of a log file. Counters begin at 1 in each epoch, as ZooKeeper's do; here
/// they are indices of the log.
fn transaction_log(log: &[Rc<Txn>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + 128 * log.len());
    out.extend(MAGIC.to_be_bytes());
    out.extend(VERSION.to_be_bytes());
    out.extend(0_i64.to_be_bytes());
    let mut began = (0, 0);
    for txn in log {
        let (epoch, index) = txn.zxid;
        if began.0 != epoch {
            began = (epoch, index);
        }
        let zxid = epoch << COUNTER_BITS | (index - began.1 + 1);
        let record = record_of(txn, zxid as i64);
        out.extend(i64::from(adler32(&record)).to_be_bytes());
        append_buffer(&mut out, &record);
        out.push(END);
    }
    out
}

fn record_of(txn: &Txn, zxid: i64) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend((txn.session as i64).to_be_bytes());
    out.extend((txn.xid as i32).to_be_bytes());
    out.extend(zxid.to_be_bytes());
    out.extend((txn.time_ns / MS).to_be_bytes());
    let session = txn.changes.iter().find(|change| is_session(change));
    let kind = match (session.map(|change| &change.effect), txn.answer.is_ok()) {
        (Some(Effect::Removed), _) => CLOSE_SESSION,
        (Some(_), _) => CREATE_SESSION,
        (None, true) => MULTI,
        (None, false) => ERROR,
    };
    out.extend(kind.to_be_bytes());
    if kind == MULTI {
        out.extend((txn.changes.len() as i32).to_be_bytes());
        for change in &txn.changes {
            let (kind, body) = body_of(change);
            out.extend(kind.to_be_bytes());
            append_buffer(&mut out, &body);
        }
    }
    out
}

/// Whether the change opens or ends a session.
fn is_session(change: &Change) -> bool {
    let name = change.path.strip_prefix(SESSIONS);
    name.is_some_and(|name| name.starts_with('/'))
}

fn body_of(change: &Change) -> (i32, Vec<u8>) {
    let mut out = Vec::new();
    append_buffer(&mut out, change.path.as_bytes());
    match &change.effect {
        Effect::Created(made) => {
            append_buffer(&mut out, text_of(made.data()).as_bytes());
            out.extend(0_i32.to_be_bytes()); // entries of the access control list
            out.push(made.is_ephemeral().into());
            out.extend(0_i32.to_be_bytes()); // the parent's version
            (CREATE, out)
        }
        Effect::Put(data) => {
            append_buffer(&mut out, text_of(data).as_bytes());
            out.extend(0_i32.to_be_bytes()); // the version
            (SET_DATA, out)
        }
        Effect::Removed => (DELETE, out),
    }
}

/// Returns a node's data as text; a hash stands for rows, as checksums do.
fn text_of(data: &Data) -> String {
    match data.get::<Rows>() {
        Some(rows) => format!(
            "{:08x}",
            crc32fast::hash(rows_repr(rows, '(', ')').as_bytes())
        ),
        None => data.serialized(),
    }
}

fn append_buffer(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (mut low, mut high) = (1, 0);
    for byte in bytes {
        low = (low + u32::from(*byte)) % MODULUS;
        high = (high + low) % MODULUS;
    }
    high << 16 | low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums() {
        assert_eq!(adler32(b""), 1);
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    }
}
