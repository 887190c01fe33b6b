//! Judges the same histories of transactions by `adya`, another port of Elle, and by `pyporcupine`:
//! compares the verdicts, and measures time and memory.
//!
//!     cargo run --release --manifest-path benches/adya/Cargo.toml -- verdicts 20000
//!     cargo run --release --manifest-path benches/adya/Cargo.toml -- times 100000 1000000
//!     cargo run --release --manifest-path benches/adya/Cargo.toml -- edn 100000 0.0001
//!     cargo run --release --manifest-path benches/adya/Cargo.toml -- small 1000
//!
//! `verdicts` judges so many small histories at each of eight levels, and prints how many verdicts
//! agree, and the first history of each kind of disagreement. `times` prints a row for each history
//! and checker, each from a process of its own: seconds of CPU of the check alone, of a history that
//! is in memory, and by how much it raised what the process holds. `edn` prints such a history, and
//! `small` so many small ones, one a line, as EDN for checkers that are not here, such as Elle.

mod made;
mod measured;

use std::collections::BTreeMap;

use adya::{Opts, Valid, Workload};
use made::{Made, Shape};
use pyporcupine::budget::Limits;
use pyporcupine::transactions::levels::Level;
use pyporcupine::transactions::{check, Model};
use pyporcupine::verdict::Status;

const LEVELS: [&str; 8] = [
    "read-uncommitted",
    "read-committed",
    "snapshot-isolation",
    "serializable",
    "strong-session-snapshot-isolation",
    "strong-session-serializable",
    "strong-snapshot-isolation",
    "strict-serializable",
];

/// The verdict of a checker, and the anomalies that it names.
struct Verdict {
    status: &'static str,
    anomalies: Vec<String>,
}

fn by_adya(history: &adya::History, level: &str) -> Verdict {
    let options = Opts {
        models: vec![level.to_owned()],
        ..Opts::default()
    };
    let report = adya::check(history, Workload::ListAppend, &options);
    Verdict {
        status: match report.valid {
            Valid::True => "VALID",
            Valid::False => "INVALID",
            Valid::Unknown => "UNKNOWN",
        },
        anomalies: report.anomaly_types,
    }
}

fn by_pyporcupine(made: &Made, level: &str) -> Verdict {
    let columns = made.columns();
    let history = columns.history();
    judge(&history, level)
}

fn judge(history: &pyporcupine::transactions::history::History, level: &str) -> Verdict {
    let level = Level::from_name(level).expect("a level");
    let answer = check(history, Model::ListAppend, level, &Limits::default()).expect("a history");
    let named = answer.findings.iter();
    Verdict {
        status: match answer.status {
            Status::Valid => "VALID",
            Status::Invalid => "INVALID",
            Status::Unknown => "UNKNOWN",
        },
        anomalies: named.map(|found| found.anomaly.name().to_owned()).collect(),
    }
}

/// Compares the verdicts on small histories.
fn verdicts(count: u64) {
    let mut pairs: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for seed in 0..count {
        let made = Made::new(seed, Shape::small(seed));
        let other = made.for_adya();
        for level in LEVELS {
            let (theirs, ours) = (by_adya(&other, level), by_pyporcupine(&made, level));
            let known = pairs
                .entry((level, theirs.status, ours.status))
                .or_default();
            *known += 1;
            if theirs.status != ours.status && *known == 1 {
                println!(
                    "seed {seed}, {level}: adya {} {:?}, pyporcupine {} {:?}\n{made}",
                    theirs.status, theirs.anomalies, ours.status, ours.anomalies
                );
            }
        }
    }
    println!("level                              adya     pyporcupine  histories");
    for ((level, theirs, ours), number) in pairs {
        println!("{level:34} {theirs:8} {ours:11} {number:>10}");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse().unwrap_or_else(|_| usage());
    match words[..] {
        ["verdicts", count] => verdicts(number(count)),
        ["times", ..] if words.len() > 1 => {
            measured::table(words[1..].iter().map(|word| number(word) as usize));
        }
        ["edn", count, stale] => {
            let stale = stale.parse().unwrap_or_else(|_| usage());
            let shape = Shape::large(number(count) as usize, stale);
            print!("{}", Made::new(1, shape).edn());
        }
        ["small", count] => {
            for seed in 0..number(count) {
                let events = Made::new(seed, Shape::small(seed)).edn();
                println!("[{}]", events.trim_end().replace('\n', " "));
            }
        }
        ["one", checker, count, stale] => {
            let stale = stale.parse().unwrap_or_else(|_| usage());
            measured::row(checker, number(count) as usize, stale);
        }
        _ => usage(),
    }
}

fn usage() -> ! {
    eprintln!("expected `verdicts COUNT`, `times COUNT…`, `edn COUNT STALE` or `small COUNT`");
    std::process::exit(254)
}
