//! Decides whether all generated identifiers differ.

use super::answer::{counted, listed, Answer, Finding, Known, NAMED_MAX};
use super::pace::{Pace, Stop};
use crate::datum::Datum;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Rows};

/// Decides the identifiers that `generate` returned. O(n).
pub fn decide(rows: &dyn Rows, object: &[u32], pace: &mut Pace) -> Result<Answer, Stop> {
    let mut known = Known::default();
    // By identifier: how often it was returned, and by which row first.
    let mut seen: Vec<(usize, usize)> = Vec::new();
    let mut repeats: Vec<usize> = Vec::new();
    let mut returned = 0;
    for row in each(rows, object) {
        pace.step(1)?;
        if rows.f(row) != "generate" {
            return Err(BadRow::f(row, rows.f(row), "\"generate\"").into());
        }
        if rows.timing(row).ret == NEVER {
            continue;
        }
        let id = rows.output(row);
        if id == Datum::Null {
            return Err(BadRow::field(row, "output", &id, "the identifier").into());
        }
        returned += 1;
        let number = known.number(id);
        if number == seen.len() {
            seen.push((0, row));
        }
        seen[number].0 += 1;
        if seen[number].0 > 1 && repeats.len() < NAMED_MAX {
            repeats.extend([seen[number].1, row]);
        }
    }
    let twice = || (0..seen.len()).filter(|&id| seen[id].0 > 1);
    let duplicated = twice().count();
    let texts = twice().map(|id| format!("{} {} times", known.text(id), seen[id].0));
    repeats.sort_unstable();
    repeats.dedup();
    let finding = Finding {
        name: "duplicated",
        forbidden: true,
        count: duplicated,
        text: format!(
            "{} returned more than once: {}",
            counted(duplicated, "identifier"),
            listed(duplicated, texts)
        ),
        rows: repeats,
    };
    let counts = vec![
        ("attempted", object.len() as u64),
        ("acknowledged", returned as u64),
        ("duplicated", duplicated as u64),
    ];
    let few = "nothing was checked: fewer than two identifiers were returned".to_owned();
    let open = (returned < 2).then_some(few);
    let span = known
        .range()
        .map(|(least, most)| format!(", from {least} to {most}"));
    let valid = format!(
        "{} differ{}",
        counted(returned, "identifier"),
        span.unwrap_or_default()
    );
    Ok(Answer::of(counts, vec![finding], open, valid))
}
