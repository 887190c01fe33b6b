//! Measures each check in a process of its own.

use std::fs;
use std::process::Command;

use crate::made::{Made, Shape};
use crate::{by_adya, judge, Verdict};

const LEVEL: &str = "strict-serializable";
/// Shares of transactions with a stale read.
const STALE: [f64; 3] = [0.0, 0.0001, 0.01];

/// Prints a row for each size, history and checker.
pub fn table(counts: impl Iterator<Item = usize>) {
    println!("transactions   stale  checker       CPU        memory  verdict");
    let own = std::env::current_exe().expect("the path of this program");
    for count in counts {
        for stale in STALE {
            for checker in ["adya", "pyporcupine"] {
                let arguments = [checker, &count.to_string(), &stale.to_string()];
                let done = Command::new(&own).arg("one").args(arguments).status();
                let done = done.expect("this program can be run");
                if !done.success() {
                    println!("{count:>12} {stale:>7}  {checker:11}  ended: {done}");
                }
            }
        }
    }
}

/// Checks one history by one checker, and prints a row.
pub fn row(checker: &str, count: usize, stale: f64) {
    let made = Made::new(1, Shape::large(count, stale));
    let (verdict, cpu_s, grown_mb) = match checker {
        "adya" => {
            let history = made.for_adya();
            drop(made);
            measure(|| by_adya(&history, LEVEL))
        }
        _ => {
            let columns = made.columns();
            drop(made);
            let history = columns.history();
            measure(|| judge(&history, LEVEL))
        }
    };
    let anomalies = verdict.anomalies.join(", ");
    println!(
        "{count:>12} {stale:>7}  {checker:11} {cpu_s:7.2} s {grown_mb:>8.0} MB  {} {anomalies}",
        verdict.status
    );
}

/// Returns a verdict, the seconds of CPU, and the megabytes by which the peak rose.
fn measure(check: impl FnOnce() -> Verdict) -> (Verdict, f64, f64) {
    // What the making of the history left free goes back, and the peak becomes what is held now.
    // SAFETY: glibc may be asked to do so at any time.
    unsafe { malloc_trim(0) };
    fs::write("/proc/self/clear_refs", "5").expect("the kernel lets a process reset its peak");
    let before = (peak_mb(), cpu_s());
    let verdict = check();
    (verdict, cpu_s() - before.1, peak_mb() - before.0)
}

extern "C" {
    fn malloc_trim(pad: usize) -> i32;
}

fn peak_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("the kernel describes processes");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.expect("a number of kilobytes") / 1000.0
}

/// Returns the time of user and system, in hundredths of a second.
fn cpu_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("the kernel describes processes");
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after.split_whitespace().skip(11).take(2);
    ticks
        .map(|field| field.parse::<f64>().expect("a number"))
        .sum::<f64>()
        / 100.0
}
