//! Counts calls by f and node, with their outcomes, durations and errors.

use rustc_hash::FxHashMap;

use crate::history::{History, NO_ROW};
use crate::lines::Kind;
use crate::words::{Word, Words, NONE};

/// Numbers of calls that ended Ok, Fail and Info.
pub type Ends = [usize; 3];

/// The calls of one f.
pub struct FTally {
    pub f: Word,
    pub ends: Ends,
    /// Durations in ns of the calls that ended Ok, ascending.
    pub took: Vec<i64>,
    /// How often each error code occurred, in order of the calls. The code is the text before the
    /// first colon.
    pub errors: Vec<(String, usize)>,
}

/// The calls of one f on one node.
pub struct NodeTally {
    /// `NONE` if the calls have no node.
    pub node: Word,
    pub f: Word,
    pub ends: Ends,
}

pub fn tally(history: &History) -> (Vec<FTally>, Vec<NodeTally>) {
    let mut by_f: Vec<FTally> = Vec::new();
    let mut by_node: Vec<NodeTally> = Vec::new();
    let mut places: FxHashMap<(Word, Word), (usize, usize)> = FxHashMap::default();
    let mut indices: FxHashMap<(usize, Word), usize> = FxHashMap::default();
    for pair in &history.pairs {
        let row = pair.invoke as usize;
        let (f, node) = (history.f[row], history.node[row]);
        let &mut (of_f, of_node) = places.entry((f, node)).or_insert_with(|| {
            let known = by_f.iter().position(|one| one.f == f);
            let of_f = known.unwrap_or_else(|| {
                by_f.push(FTally {
                    f,
                    ends: [0; 3],
                    took: Vec::new(),
                    errors: Vec::new(),
                });
                by_f.len() - 1
            });
            by_node.push(NodeTally {
                node,
                f,
                ends: [0; 3],
            });
            (of_f, by_node.len() - 1)
        });
        let end = match pair.kind {
            Kind::Ok => 0,
            Kind::Fail => 1,
            _ => 2,
        };
        by_f[of_f].ends[end] += 1;
        by_node[of_node].ends[end] += 1;
        if pair.end == NO_ROW {
            continue;
        }
        if pair.kind == Kind::Ok {
            let took = history.time_ns[pair.end as usize] - history.time_ns[row];
            by_f[of_f].took.push(took);
        }
        let error = history.error[pair.end as usize];
        if error != NONE {
            let errors = &mut by_f[of_f].errors;
            let place = indices
                .entry((of_f, error))
                .or_insert_with(|| code_index(&history.errors, error, errors));
            errors[*place].1 += 1;
        }
    }
    for of_f in &mut by_f {
        of_f.took.sort_unstable();
    }
    (by_f, by_node)
}

/// Returns the index of an error's code, which is added if it is new.
fn code_index(texts: &Words, error: Word, errors: &mut Vec<(String, usize)>) -> usize {
    let text = texts.text(error).unwrap_or_default();
    let code = text.split(':').next().unwrap_or_default();
    errors
        .iter()
        .position(|one| one.0 == code)
        .unwrap_or_else(|| {
            errors.push((code.to_owned(), 0));
            errors.len() - 1
        })
}
