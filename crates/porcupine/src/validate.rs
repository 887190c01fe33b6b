//! Validates a history.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::clock::Clock;
use crate::order::{Timing, NEVER};
use crate::process::shown;
use crate::rows::{blocks, BadRow, Times};

/// Checks that every row's times are consistent and that each process has one call in flight; a
/// call that never returned stays in flight for good. `times` returns the times of adjacent rows.
/// O(n) if rows are in order of call, otherwise O(n log n).
pub fn validate(
    count: usize,
    clock: Clock,
    times: impl Fn(Range<usize>, &mut Times),
) -> Result<(), BadRow> {
    let mut before = i64::MIN;
    let mut flight = InFlight::default();
    let mut fits = true;
    let mut block = Times::default();
    for rows in blocks(count) {
        times(rows.clone(), &mut block);
        for (at, row) in rows.enumerate() {
            let t = block.timing(at, row);
            if t.ret < t.call {
                let (call, ret) = (clock.text(t.call), clock.text(t.ret));
                let text = format!("ret is {ret}, before its call at {call}");
                return Err(BadRow { row, text });
            }
            fits = fits && before <= t.call && flight.take(&t, clock).is_ok();
            before = t.call;
        }
    }
    if fits {
        return Ok(());
    }
    let mut timings: Vec<Timing> = Vec::with_capacity(count);
    for rows in blocks(count) {
        times(rows.clone(), &mut block);
        timings.extend(rows.enumerate().map(|(at, row)| block.timing(at, row)));
    }
    timings.sort_unstable_by_key(|t| (t.call, t.ret, t.row));
    let mut flight = InFlight::default();
    timings.iter().try_for_each(|t| flight.take(t, clock))
}

/// By process: the return time and the row of its last call.
#[derive(Default)]
struct InFlight {
    /// Processes with small numbers.
    small: Vec<(i64, u32)>,
    others: FxHashMap<i64, (i64, u32)>,
}

/// Processes below this are stored in an array.
const FEW: i64 = 1 << 12;
/// The last call of a process that had none.
const NOTHING: (i64, u32) = (i64::MIN, 0);

impl InFlight {
    /// Adds calls, in order of (call, ret).
    fn take(&mut self, t: &Timing, clock: Clock) -> Result<(), BadRow> {
        let now = (t.ret, t.row as u32);
        let before = match self.small.get_mut(t.process as usize) {
            Some(last) => std::mem::replace(last, now),
            None if (0..FEW).contains(&t.process) => {
                self.small.resize(t.process as usize + 1, NOTHING);
                std::mem::replace(&mut self.small[t.process as usize], now)
            }
            None => self.others.insert(t.process, now).unwrap_or(NOTHING),
        };
        match before {
            (ret, earlier) if t.call < ret => {
                let for_good = if ret == NEVER {
                    " for good (it never returned; give the process a new number or name after that)"
                } else {
                    ""
                };
                Err(BadRow {
                    row: t.row,
                    text: format!(
                        "call at {} while row {earlier} of the same process{} is in \
                         flight{for_good}",
                        clock.text(t.call),
                        shown(t.process)
                    ),
                })
            }
            _ => Ok(()),
        }
    }
}
