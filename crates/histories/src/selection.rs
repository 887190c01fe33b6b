//! Selects calls by what their columns hold. A call is given by its place among all calls.

use crate::history::{History, NO_ROW};
use crate::lines::{Kind, Value};

/// Stands for the time at which a call ended that never did.
pub const NEVER_NS: i64 = i64::MAX;

/// Calls in groups, one after the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Groups {
    pub places: Vec<u32>,
    /// How many places there are up to the end of each group.
    pub ends: Vec<u32>,
}

impl History {
    /// Returns the calls with one of these names and, if any is given, one of these kinds.
    pub fn places(&self, fs: &[String], kinds: &[String]) -> Vec<u32> {
        let texts = self.fs.all();
        let wanted: Vec<bool> = texts.iter().map(|text| fs.contains(text)).collect();
        let is_kind = |kind: Kind| kinds.is_empty() || kinds.iter().any(|one| one == kind.name());
        let [ok, fail, info] = [Kind::Ok, Kind::Fail, Kind::Info].map(is_kind);
        let calls = self.pairs.iter().enumerate();
        calls
            .filter(|(_, call)| {
                wanted[self.f[call.invoke as usize] as usize]
                    && match call.kind {
                        Kind::Ok => ok,
                        Kind::Fail => fail,
                        _ => info,
                    }
            })
            .map(|(place, _)| place as u32)
            .collect()
    }

    /// Returns the times at which these calls began, and those at which they may have ended:
    /// `NEVER_NS` unless they are ok.
    pub fn spans(&self, places: &[u32]) -> (Vec<i64>, Vec<i64>) {
        let calls = places.iter().map(|&place| &self.pairs[place as usize]);
        calls
            .map(|call| {
                let ended = call.end != NO_ROW && call.kind == Kind::Ok;
                let end_ns = if ended {
                    self.time_ns[call.end as usize]
                } else {
                    NEVER_NS
                };
                (self.time_ns[call.invoke as usize], end_ns)
            })
            .unzip()
    }

    /// Returns those of these calls that name the same key and the same number as another of them,
    /// a group for each, in order of its first call.
    pub fn repeated(&self, mut places: Vec<u32>) -> Groups {
        let what = |place: u32| {
            let row = self.pairs[place as usize].invoke as usize;
            match self.value[row] {
                Value::Int(value) => Some((self.key[row], value)),
                _ => None,
            }
        };
        places.sort_unstable_by_key(|&place| (what(place), place));
        let mut groups: Vec<&[u32]> = places
            .chunk_by(|&a, &b| what(a).is_some() && what(a) == what(b))
            .filter(|group| group.len() > 1)
            .collect();
        groups.sort_unstable_by_key(|group| group[0]);
        let mut out = Groups::default();
        for group in groups {
            out.places.extend(group);
            out.ends.push(out.places.len() as u32);
        }
        out
    }
}
