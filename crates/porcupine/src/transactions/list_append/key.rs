//! Finds the versions of one list.

use rustc_hash::FxHashMap;

use super::{Lists, ODD, UNSEEN};
use crate::rows::BadRow;
use crate::transactions::findings::Findings;
use crate::transactions::history::{Outcome, NONE};
use crate::transactions::levels::Anomaly;

/// Memory that the keys use one after the other.
#[derive(Default)]
pub struct Scratch {
    /// By element: the version that shows it first, or [`UNSEEN`], and the append, or [`NONE`].
    elements: FxHashMap<i64, (u32, u32)>,
    /// By append of the key: whether the same transaction appended again.
    intermediate: FxHashMap<u32, ()>,
    /// By version: a transaction that read it and appended.
    updated: Vec<u32>,
    /// What a transaction appended since it read.
    pub own: Vec<i64>,
}

/// One list while it is being read.
pub struct Key<'a, 'b> {
    pub lists: &'a mut Lists<'b>,
    pub findings: &'a mut Findings,
    pub scratch: &'a mut Scratch,
    pub key: usize,
    ops: &'b [u32],
    /// The longest read, if there is one, its list, and as much of it as all reads agree on and is
    /// without duplicates.
    longest: Option<u32>,
    whole: &'b [i64],
    order: &'b [i64],
    /// Length of the shortest read; 0 if there is an odd one.
    shortest: usize,
}

impl<'a, 'b> Key<'a, 'b> {
    pub fn new(
        lists: &'a mut Lists<'b>,
        key: usize,
        findings: &'a mut Findings,
        scratch: &'a mut Scratch,
    ) -> Self {
        let history = lists.history;
        let ops = &history.keys[key];
        let mut longest = None;
        let mut whole: &[i64] = &[];
        for &op in ops.iter().filter(|&&op| history.is_committed_read(op)) {
            let list = history.contents.read(op as usize);
            if longest.is_none() || list.len() > whole.len() {
                (longest, whole) = (Some(op), list);
            }
        }
        Self {
            lists,
            findings,
            scratch,
            key,
            ops,
            longest,
            whole,
            order: whole,
            shortest: whole.len(),
        }
    }

    /// Finds the order of the elements, and the version that each append made.
    pub fn find_versions(&mut self) -> Result<(), BadRow> {
        self.compare_reads();
        self.number_elements();
        self.match_appends()?;
        self.scratch.updated.clear();
        self.scratch.updated.resize(self.order.len() + 1, NONE);
        Ok(())
    }

    /// Checks the versions and their writers, after all reads.
    pub fn check(&mut self) {
        self.check_versions();
        let history = self.lists.history;
        for ops in history.runs(self.ops) {
            if self.lists.happened[history.transaction[ops[0] as usize] as usize] {
                self.check_own_order(ops);
            }
        }
    }

    /// Compares each read with the longest one.
    fn compare_reads(&mut self) {
        let history = self.lists.history;
        for &op in self.ops.iter().filter(|&&op| history.is_committed_read(op)) {
            let list = history.contents.read(op as usize);
            let mut version = list.len() as u32;
            if self.whole[..list.len()] != *list {
                version = ODD;
                let same = list.iter().zip(self.order).take_while(|(a, b)| a == b);
                self.order = &self.order[..same.count()];
            }
            self.lists.version[op as usize] = version;
        }
    }

    /// Numbers the elements of the longest read, up to the first that is there twice.
    fn number_elements(&mut self) {
        let elements = &mut self.scratch.elements;
        elements.clear();
        for (version, &element) in (1u32..).zip(self.order) {
            if elements.insert(element, (version, NONE)).is_some() {
                self.order = &self.whole[..version as usize - 1];
                // The first place counts.
                let first = self.order.iter().position(|&e| e == element);
                let first = first.expect("it is there") as u32 + 1;
                elements.insert(element, (first, NONE));
                break;
            }
        }
        let from = self.lists.writers.len();
        self.lists.writers.resize(from + self.order.len(), NONE);
    }

    /// Finds the version that each append made.
    fn match_appends(&mut self) -> Result<(), BadRow> {
        let history = self.lists.history;
        self.scratch.intermediate.clear();
        let mut last = NONE;
        for &op in self.ops.iter().filter(|&&op| !history.is_read[op as usize]) {
            let transaction = history.transaction[op as usize];
            if last != NONE && history.transaction[last as usize] == transaction {
                self.scratch.intermediate.insert(last, ());
            }
            last = op;
            let element = history.contents.value(op as usize);
            let known = self.scratch.elements.entry(element);
            let (version, known) = known.or_insert((UNSEEN, NONE));
            if *known != NONE {
                let text = format!(
                    "it appends {} to key {}, expected another element: row {} appends the same, \
                     and who appended what a read found must be known",
                    history.contents.value_text(element),
                    history.contents.key_text(self.key),
                    history.transaction[*known as usize],
                );
                let row = transaction as usize;
                return Err(BadRow { row, text });
            }
            *known = op;
            self.lists.version[op as usize] = *version;
            if *version != UNSEEN {
                let from = self.lists.starts[self.key];
                self.lists.writers[(from + *version) as usize - 1] = op;
            }
        }
        Ok(())
    }

    /// Checks a read of a committed transaction, and returns the version that it found.
    pub fn read_version(&mut self, op: u32) -> u32 {
        let list = self.lists.history.contents.read(op as usize);
        let version = match self.lists.version[op as usize] {
            version if version as usize > self.order.len() => ODD,
            version => version,
        };
        self.lists.version[op as usize] = version;
        if version == ODD {
            self.shortest = 0;
            self.check_odd(op, list);
        } else {
            self.shortest = self.shortest.min(list.len());
            if let Some(last) = version.checked_sub(1) {
                let from = self.lists.starts[self.key];
                self.check_last(op, self.lists.writers[(from + last) as usize]);
            }
        }
        version
    }

    /// Checks whether the last element that a read found was an intermediate one.
    fn check_last(&mut self, op: u32, writer: u32) {
        let history = self.lists.history;
        if writer == NONE || !self.scratch.intermediate.contains_key(&writer) {
            return;
        }
        let (reader, by) = (self.lists.transaction(op), self.lists.transaction(writer));
        if reader != by {
            self.findings.add(Anomaly::G1b, || {
                let text = format!(
                    "T{reader} read key {} up to {}, after which T{by}, which appended it, \
                     appended more",
                    history.contents.key_text(self.key),
                    history.written(writer),
                );
                (vec![reader, by], text)
            });
        }
    }

    /// Checks a read that is not the beginning of the longest one.
    fn check_odd(&mut self, op: u32, list: &[i64]) {
        let history = self.lists.history;
        let reader = self.lists.transaction(op);
        let mut sorted = list.to_vec();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            self.findings.add(Anomaly::DuplicateElements, || {
                let element = history.contents.value_text(twice[0]);
                let key = history.contents.key_text(self.key);
                let text = format!("T{reader} read {element} twice in key {key}");
                (vec![reader], text)
            });
        }
        if self.whole.get(..list.len()) != Some(list) {
            let longest = self.longest.expect("there is a read");
            let other = self.lists.transaction(longest);
            let same = list.iter().zip(self.whole);
            let at = same.take_while(|(a, b)| a == b).count();
            self.findings.add(Anomaly::IncompatibleOrder, || {
                let value = |element| history.contents.value_text(element);
                let text = format!(
                    "T{reader} read {} as element {at} of key {}, and T{other} read {} there",
                    value(list[at]),
                    history.contents.key_text(self.key),
                    value(self.whole[at]),
                );
                (vec![reader, other], text)
            });
        }
        for &element in list {
            match self.scratch.elements.get(&element) {
                None => self.find_garbage(op, element),
                // What the longest read has is checked with its versions.
                Some((_, NONE)) => {}
                Some(&(_, append)) => self.see_odd(op, append),
            }
        }
        let last = list.last().and_then(|e| self.scratch.elements.get(e));
        if let Some(&(_, append)) = last.filter(|(_, append)| *append != NONE) {
            self.check_last(op, append);
            if history.outcome_of(append) != Outcome::Aborted {
                self.lists.odd.push((op, append));
            }
        }
    }

    /// Notes that an odd read found what an append appended.
    fn see_odd(&mut self, op: u32, append: u32) {
        let writer = self.lists.transaction(append);
        if self.lists.version[append as usize] == UNSEEN {
            self.lists.version[append as usize] = ODD;
        }
        match self.lists.history.outcome[writer as usize] {
            Outcome::Aborted => self.find_aborted(op, append),
            _ => self.lists.happened[writer as usize] = true,
        }
    }

    /// Goes through the versions in order, and forgets appends that failed.
    fn check_versions(&mut self) {
        let history = self.lists.history;
        let from = self.lists.starts[self.key] as usize;
        // What was there before the test is at the beginning of all reads.
        let writers = &self.lists.writers[from..];
        let leading = writers.iter().take_while(|&&append| append == NONE);
        let there_before = leading.count().min(self.shortest);
        let mut aborted = NONE;
        for at in there_before..self.order.len() {
            let append = self.lists.writers[from + at];
            if append == NONE {
                let read = self.first_read_of(at);
                self.find_garbage(read, self.order[at]);
                continue;
            }
            let writer = self.lists.transaction(append);
            match history.outcome[writer as usize] {
                Outcome::Aborted => {
                    let read = self.first_read_of(at);
                    self.find_aborted(read, append);
                    self.lists.writers[from + at] = NONE;
                    aborted = append;
                }
                Outcome::Unknown => self.lists.happened[writer as usize] = true,
                Outcome::Committed if aborted != NONE => {
                    self.find_dirty_update(aborted, append);
                    aborted = NONE;
                }
                Outcome::Committed => {}
            }
        }
    }

    /// Checks that the list has what a transaction appended in the order in which it did.
    fn check_own_order(&mut self, ops: &[u32]) {
        let history = self.lists.history;
        let version = |op: u32| match self.lists.version[op as usize] {
            UNSEEN => ODD - 1, // after all that were read
            version => version,
        };
        let known = |&&op: &&u32| !history.is_read[op as usize] && version(op) != ODD;
        let mut before = None;
        for &op in ops.iter().filter(known) {
            let earlier = before.replace(op);
            let Some(earlier) = earlier.filter(|&earlier| version(earlier) > version(op)) else {
                continue;
            };
            let writer = history.transaction[op as usize];
            let read = self.first_read_of(self.lists.version[op as usize] as usize - 1);
            let reader = self.lists.transaction(read);
            self.findings.add(Anomaly::IncompatibleOrder, || {
                let (first, second) = (history.written(earlier), history.written(op));
                let text = format!(
                    "T{writer} appended {first} to key {} and then {second}, and T{reader} read \
                     {second} without {first} before it",
                    history.contents.key_text(self.key),
                );
                (vec![writer, reader], text)
            });
            return;
        }
    }

    /// Returns the first read that shows the element at a place of the longest one.
    fn first_read_of(&self, at: usize) -> u32 {
        let history = self.lists.history;
        let shows = |op: u32| {
            let version = self.lists.version[op as usize];
            history.is_committed_read(op) && version != ODD && version as usize > at
        };
        let found = self.ops.iter().copied().find(|&op| shows(op));
        found.or(self.longest).expect("there is a read")
    }

    fn find_garbage(&mut self, read: u32, element: i64) {
        let history = self.lists.history;
        let reader = self.lists.transaction(read);
        self.findings.add(Anomaly::Garbage, || {
            let text = format!(
                "T{reader} read {} in key {}, which nobody appended",
                history.contents.value_text(element),
                history.contents.key_text(self.key),
            );
            (vec![reader], text)
        });
    }

    fn find_aborted(&mut self, read: u32, append: u32) {
        let history = self.lists.history;
        let (reader, writer) = (self.lists.transaction(read), self.lists.transaction(append));
        self.findings.add(Anomaly::G1a, || {
            let text = format!(
                "T{reader} read {} in key {}, which T{writer} appended, and T{writer} failed",
                history.written(append),
                history.contents.key_text(self.key),
            );
            (vec![reader, writer], text)
        });
    }

    fn find_dirty_update(&mut self, aborted: u32, append: u32) {
        let history = self.lists.history;
        let (failed, writer) = (
            self.lists.transaction(aborted),
            self.lists.transaction(append),
        );
        self.findings.add(Anomaly::DirtyUpdate, || {
            let text = format!(
                "T{writer} appended {} to key {} after T{failed} had appended {}, and T{failed} \
                 failed",
                history.written(append),
                history.contents.key_text(self.key),
                history.written(aborted),
            );
            (vec![failed, writer], text)
        });
    }

    /// Notes that a transaction read a version and appended.
    pub fn update(&mut self, version: u32, transaction: u32) {
        let history = self.lists.history;
        let first = &mut self.scratch.updated[version as usize];
        if *first == NONE {
            *first = transaction;
            return;
        }
        let first = *first;
        self.findings.add(Anomaly::LostUpdate, || {
            let found = match version {
                0 => "no elements".to_owned(),
                version => {
                    let last = history
                        .contents
                        .value_text(self.order[version as usize - 1]);
                    format!("elements up to {last}")
                }
            };
            let text = format!(
                "T{first} and T{transaction} both read {found} in key {} and appended to it",
                history.contents.key_text(self.key),
            );
            (vec![first, transaction], text)
        });
    }
}
