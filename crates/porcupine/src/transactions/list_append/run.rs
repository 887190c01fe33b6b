//! Checks what one transaction did with one list.

use super::key::Key;
use super::{ODD, UNSEEN};
use crate::transactions::levels::Anomaly;

/// Reads the operations of a committed transaction on a key.
pub fn read(key: &mut Key, ops: &[u32]) {
    let history = key.lists.history;
    let transaction = history.transaction[ops[0] as usize];
    key.scratch.own.clear();
    let mut last_read: Option<&[i64]> = None;
    let (mut newest, mut appends) = (UNSEEN, false);
    for (at, &op) in ops.iter().enumerate() {
        if !history.is_read[op as usize] {
            let version = key.lists.version[op as usize];
            if (version != UNSEEN && version <= newest) || is_in_odd_read(key, &ops[..at], op) {
                find_future_read(key, transaction, op);
            }
            key.scratch.own.push(history.contents.value(op as usize));
            appends = true;
            continue;
        }
        let version = key.read_version(op);
        if version != ODD {
            newest = newest.max(version);
        }
        let list = history.contents.read(op as usize);
        if !continues(last_read, &key.scratch.own, list) {
            find_internal(key, transaction, last_read, list);
        }
        last_read = Some(list);
        key.scratch.own.clear();
    }
    let first = key.lists.version[ops[0] as usize];
    if appends && history.is_read[ops[0] as usize] && first != ODD {
        key.update(first, transaction);
    }
}

/// Whether a list is the one before with the transaction's own elements at its end.
fn continues(before: Option<&[i64]>, own: &[i64], list: &[i64]) -> bool {
    let Some(rest) = list.strip_suffix(own) else {
        return false;
    };
    before.is_none_or(|before| before == rest)
}

/// Whether one of the transaction's odd reads found what an append appends.
fn is_in_odd_read(key: &Key, before: &[u32], append: u32) -> bool {
    if key.lists.odd.is_empty() {
        return false;
    }
    let history = key.lists.history;
    let element = history.contents.value(append as usize);
    before.iter().any(|&op| {
        history.is_read[op as usize]
            && key.lists.version[op as usize] == ODD
            && history.contents.read(op as usize).contains(&element)
    })
}

fn find_future_read(key: &mut Key, transaction: u32, append: u32) {
    let (contents, at) = (key.lists.history.contents, key.key);
    key.findings.add(Anomaly::FutureRead, || {
        let element = contents.value_text(contents.value(append as usize));
        let text = format!(
            "T{transaction} read {element} in key {} before it appended it",
            contents.key_text(at)
        );
        (vec![transaction], text)
    });
}

fn find_internal(key: &mut Key, transaction: u32, before: Option<&[i64]>, list: &[i64]) {
    let (contents, at) = (key.lists.history.contents, key.key);
    let own = &key.scratch.own;
    key.findings.add(Anomaly::Internal, || {
        let texts = |list: &[i64]| {
            let texts: Vec<String> = list.iter().map(|&e| contents.value_text(e)).collect();
            texts.join(" ")
        };
        let expected = match before {
            Some(before) => [before, own].concat(),
            None => own.clone(),
        };
        let beginning = if before.is_none() { "… " } else { "" };
        let text = format!(
            "T{transaction} read [{}] in key {}; by what it had read and appended before, that \
             had to be [{beginning}{}]",
            texts(list),
            contents.key_text(at),
            texts(&expected),
        );
        (vec![transaction], text)
    });
}
