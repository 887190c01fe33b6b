//! Decides whether each read of a counter lies within bounds.
//!
//! An addition that returned before a read was called counts in any case; one that was called by
//! the time the read returned, whether it ever returns or not, may count. The least sum that a read
//! may find takes of the second kind only the negative additions, and the greatest only the
//! positive ones.

use super::answer::{counted, Answer, Finding, NAMED_MAX};
use super::pace::{Pace, Stop};
use super::Options;
use crate::datum::Datum;
use crate::order::{Timing, NEVER};
use crate::rows::{each, BadRow, Rows};

/// The sums of additions up to moments, ascending.
struct Sums {
    moments: Vec<i64>,
    /// Sums of positive and of negative additions up to each moment, after a pair of zeros.
    sums: Vec<(i128, i128)>,
}

impl Sums {
    fn new(mut additions: Vec<(i64, i64)>) -> Self {
        additions.sort_unstable();
        let mut sums = vec![(0, 0)];
        let mut sum = (0, 0);
        for &(_, value) in &additions {
            sum.0 += i128::from(value.max(0));
            sum.1 += i128::from(value.min(0));
            sums.push(sum);
        }
        let moments = additions.into_iter().map(|(moment, _)| moment).collect();
        Self { moments, sums }
    }

    fn before(&self, moment: i64) -> (i128, i128) {
        self.sums[self.moments.partition_point(|&at| at < moment)]
    }

    fn until(&self, moment: i64) -> (i128, i128) {
        self.sums[self.moments.partition_point(|&at| at <= moment)]
    }
}

/// An observation of the counter: what a read found, or the sum that an addition returned.
struct Seen {
    at: Timing,
    value: i64,
    /// What the observing addition itself added.
    own: i64,
}

/// Decides the reads, or the final ones alone, which were made once the counter had time to converge.
/// O(n log n).
pub fn decide(
    rows: &dyn Rows,
    object: &[u32],
    options: Options,
    only_final: bool,
    pace: &mut Pace,
) -> Result<Answer, Stop> {
    let (mut called, mut returned, mut reads) = (Vec::new(), Vec::new(), Vec::new());
    for row in each(rows, object) {
        pace.step(1)?;
        let at = rows.timing(row);
        let own = match rows.f(row) {
            "add" => int(row, "value", rows.value(row))?,
            "read" if only_final => continue,
            "read" => None,
            "final-read" if only_final => None,
            f if only_final => return Err(BadRow::f(row, f, FINAL).into()),
            f => return Err(BadRow::f(row, f, "\"add\" or \"read\"").into()),
        };
        if let Some(value) = own {
            called.push((at.call, value));
            if at.ret != NEVER {
                returned.push((at.ret, value));
            }
        } else if rows.f(row) == "add" {
            return Err(BadRow::field(row, "value", &Datum::Null, INT).into());
        }
        if at.ret != NEVER && !(only_final && own.is_some()) {
            if let Some(value) = int(row, "output", rows.output(row))? {
                let own = own.unwrap_or(0);
                reads.push(Seen { at, value, own });
            }
        }
    }
    let (called, returned) = (Sums::new(called), Sums::new(returned));
    let answer = judge(&called, &returned, &reads, options, pace)?;
    if only_final && reads.is_empty() {
        return Ok(Answer {
            counts: answer.counts,
            ..Answer::unknown("nothing was checked: no final read returned a value")
        });
    }
    Ok(answer)
}

const INT: &str = "an int of 64 bits";
const FINAL: &str = "\"add\", \"read\" or \"final-read\"";

fn int(row: usize, field: &str, value: Datum) -> Result<Option<i64>, BadRow> {
    match value {
        Datum::Int(int) => Ok(Some(int)),
        Datum::Null => Ok(None),
        other => Err(BadRow::field(row, field, &other, INT)),
    }
}

fn judge(
    called: &Sums,
    returned: &Sums,
    reads: &[Seen],
    options: Options,
    pace: &mut Pace,
) -> Result<Answer, Stop> {
    let initial = i128::from(options.initial.unwrap_or(0));
    let (mut errors, mut out) = (0, Vec::new());
    let mut first = String::new();
    // The initial values with which every read lies within its bounds.
    let (mut least, mut most) = (i128::MIN, i128::MAX);
    for read in reads {
        pace.step(1)?;
        let sure = returned.before(read.at.call);
        let possible = called.until(read.at.ret);
        let certain = sure.0 + sure.1;
        let lower = certain + (possible.1 - sure.1) + i128::from(read.own.max(0));
        let upper = certain + (possible.0 - sure.0) + i128::from(read.own.min(0));
        let value = i128::from(read.value);
        least = least.max(value - upper);
        most = most.min(value - lower);
        let (lower, upper) = (initial + lower, initial + upper);
        if value < lower || value > upper {
            errors += 1;
            if first.is_empty() {
                first = format!("found {value}, expected {}", span(lower, upper));
            }
            if out.len() < NAMED_MAX {
                out.push(read.at.row);
            }
        }
    }
    let counts = vec![("reads", reads.len() as u64), ("errors", errors as u64)];
    let finding = Finding {
        name: "out-of-bounds",
        forbidden: true,
        count: errors,
        rows: out,
        text: format!(
            "{} out of bounds: the first {first}",
            counted(errors, "read")
        ),
    };
    if errors > 0 && options.initial.is_none() && least <= most {
        let began = format!(
            "explained if the counter began with {}, and nothing says what it began with: give that \
             with initial={least}",
            span(least, most)
        );
        return Ok(Answer {
            counts,
            ..Answer::unknown(began)
        });
    }
    let open = reads
        .is_empty()
        .then(|| "nothing was checked: no read returned a value".to_owned());
    let valid = format!("{} within bounds", counted(reads.len(), "read"));
    Ok(Answer::of(counts, vec![finding], open, valid))
}

fn span(least: i128, most: i128) -> String {
    match least == most {
        true => least.to_string(),
        false => format!("{least} to {most}"),
    }
}
