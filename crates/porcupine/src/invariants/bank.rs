//! Decides whether the accounts of a bank have the same total in each read, and no balance below
//! zero. A read shows all accounts: their balances, or pairs of an account and its balance.

use rustc_hash::FxHashMap;

use super::answer::{counted, elements, Answer, Finding, NAMED_MAX};
use super::pace::{Pace, Stop};
use super::Options;
use crate::datum::Datum;
use crate::order::NEVER;
use crate::rows::{each, BadRow, Rows};

/// What one read found.
struct Read {
    row: usize,
    total: i128,
    least: i64,
    /// Number of accounts without a balance.
    nils: usize,
}

const BALANCES: &str = "balances: a list of ints, or of pairs [account, balance]";

/// Decides the reads. O(n + v), where v is the number of balances.
pub fn decide(
    rows: &dyn Rows,
    object: &[u32],
    options: Options,
    pace: &mut Pace,
) -> Result<Answer, Stop> {
    let mut reads = Vec::new();
    for row in each(rows, object) {
        pace.step(1)?;
        match rows.f(row) {
            "transfer" => continue,
            "read" if rows.timing(row).ret == NEVER => continue,
            "read" => {}
            f => return Err(BadRow::f(row, f, "\"read\" or \"transfer\"").into()),
        }
        let output = rows.output(row);
        if output == Datum::Null {
            continue;
        }
        let read =
            sum(row, &output).ok_or_else(|| BadRow::field(row, "output", &output, BALANCES))?;
        pace.step(1)?;
        reads.push(read);
    }
    Ok(judge(&reads, options))
}

/// Sums up the balances of one read; `None` if there are none.
fn sum(row: usize, output: &Datum) -> Option<Read> {
    let mut read = Read {
        row,
        total: 0,
        least: i64::MAX,
        nils: 0,
    };
    let accounts = elements(output.clone()).filter(|accounts| !accounts.is_empty())?;
    for account in accounts {
        let balance = match account {
            Datum::Int(_) | Datum::Null => account,
            pair => <[Datum; 2]>::try_from(elements(pair)?).ok()?[1].clone(),
        };
        match balance {
            Datum::Int(balance) => {
                read.total += i128::from(balance);
                read.least = read.least.min(balance);
            }
            Datum::Null => read.nils += 1,
            _ => return None,
        }
    }
    Some(read)
}

/// Returns the total that most reads found, the first of those in a tie.
fn usual(reads: &[Read]) -> Option<i128> {
    let mut counts: FxHashMap<i128, usize> = FxHashMap::default();
    for read in reads.iter().filter(|read| read.nils == 0) {
        *counts.entry(read.total).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    let whole = reads.iter().filter(|read| read.nils == 0);
    whole
        .map(|read| read.total)
        .find(|total| counts[total] == most)
}

fn judge(reads: &[Read], options: Options) -> Answer {
    let stated = options.initial.map(i128::from);
    let total = stated.or_else(|| usual(reads)).unwrap_or(0);
    let others = reads
        .iter()
        .filter(|read| read.nils == 0 && read.total == total);
    let source = match stated {
        Some(_) => "as was stated".to_owned(),
        None => format!("as in {}", counted(others.count(), "other read")),
    };
    let finding =
        |name, what: &str, broken: &dyn Fn(&Read) -> bool, found: &dyn Fn(&Read) -> String| {
            let all: Vec<&Read> = reads.iter().filter(|read| broken(read)).collect();
            let first = all.first().map_or(String::new(), |read| found(read));
            Finding {
                name,
                forbidden: true,
                count: all.len(),
                rows: all.iter().take(NAMED_MAX).map(|read| read.row).collect(),
                text: format!(
                    "{} {what}: the first has {first}",
                    counted(all.len(), "read")
                ),
            }
        };
    let findings = vec![
        finding(
            "nil-balance",
            "without a balance",
            &|read| read.nils > 0,
            &|read| counted(read.nils, "account") + " without one",
        ),
        finding(
            "wrong-total",
            "of another total",
            &|read| read.nils == 0 && read.total != total,
            &|read| format!("{}, expected {total}, {source}", read.total),
        ),
        finding(
            "negative-balance",
            "of a negative balance",
            &|read| !options.negative_balances && read.least < 0,
            &|read| read.least.to_string(),
        ),
    ];
    let errors: usize = findings.iter().map(|finding| finding.count).sum();
    let counts = vec![("reads", reads.len() as u64), ("errors", errors as u64)];
    let open = match (reads.len(), stated) {
        (0, _) => Some("nothing was checked: no read returned balances".to_owned()),
        (1, None) => Some(format!(
            "one read alone says nothing about the total: give the sum of all accounts with \
             initial={total}"
        )),
        _ => None,
    };
    let valid = format!("{} of a total of {total}", counted(reads.len(), "read"));
    Answer::of(counts, findings, open, valid)
}
