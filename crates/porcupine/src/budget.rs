//! Divides the time and the memory of a check among its objects.
//!
//! The objects are decided first, in four fifths of the time. An object may take half of the time
//! that is left when it begins, so that a hard one leaves enough for the others. Once an object is
//! known to be invalid, so is the history. The other objects then get as much time again as has
//! passed, but at least a twentieth of the whole. The time that is left after that, up to a fifth
//! of the whole, goes to the search for smallest witnesses.
//!
//! The threads share the memory evenly. A thread stops when it holds half of its share, because a
//! growing table coexists with its copy of twice the size.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::allocated::held;

/// The limits that all objects of a check share.
#[derive(Debug)]
pub struct Budget {
    began: Instant,
    time: Option<Duration>,
    bytes: Option<usize>,
    /// Nanoseconds from the start until an object was known to be invalid; [`NEVER`] until then.
    invalid_after: AtomicU64,
}

const NEVER: u64 = u64::MAX;
/// Shares of the whole time: for decisions, the least that is left for them once an object is
/// invalid, and for witnesses.
const DECIDING: f64 = 0.8;
const AFTER_INVALID: f64 = 0.05;
const EXPLAINING: f64 = 0.2;

impl Budget {
    /// Starts the budget. `None` means no limit.
    pub fn new(time: Option<Duration>, bytes: Option<usize>) -> Self {
        Self {
            began: Instant::now(),
            time,
            bytes,
            invalid_after: AtomicU64::new(NEVER),
        }
    }

    pub fn unlimited() -> Self {
        Self::new(None, None)
    }

    /// Returns the limits for deciding an object that begins now; `left` objects are undecided,
    /// this one included.
    pub fn to_decide(&self, left: usize, threads: usize) -> Limits<'_> {
        let now = Instant::now();
        let end = self.time.map(|time| self.began + time.mul_f64(DECIDING));
        let until = end.map(|end| match left > threads {
            true => now + end.saturating_duration_since(now) / 2,
            false => end,
        });
        Limits {
            hurry: Some(self),
            ..self.limits(until, threads)
        }
    }

    /// Records that an object is invalid.
    pub fn found_invalid(&self) {
        let after = self.began.elapsed().as_nanos() as u64;
        self.invalid_after.fetch_min(after, Ordering::Relaxed);
    }

    /// Returns the deadline of the last witness, if the search for witnesses begins now.
    pub fn end_of_explaining(&self) -> Option<Instant> {
        let time = self.time?;
        Some((self.began + time).min(Instant::now() + time.mul_f64(EXPLAINING)))
    }

    /// Returns the limits for a search for a witness that begins now; `left` objects have none,
    /// this one included.
    pub fn to_explain(&self, end: Option<Instant>, left: usize, threads: usize) -> Limits<'_> {
        let now = Instant::now();
        let turns = left.div_ceil(threads.max(1)).max(1) as u32;
        let until = end.map(|end| now + end.saturating_duration_since(now) / turns);
        self.limits(until, threads)
    }

    fn limits(&self, until: Option<Instant>, threads: usize) -> Limits<'_> {
        Limits {
            until,
            hurry: None,
            bytes: self.bytes.map(|bytes| bytes / threads.max(1) / 2),
            held: held(),
        }
    }

    /// Whether another object is invalid and the time that this leaves to the others is over.
    fn is_over(&self, now: Instant) -> bool {
        let after = self.invalid_after.load(Ordering::Relaxed);
        let Some(time) = self.time.filter(|_| after != NEVER) else {
            return false;
        };
        let after = Duration::from_nanos(after);
        now >= self.began + after + after.max(time.mul_f64(AFTER_INVALID))
    }
}

/// The limits of one object's decision.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    until: Option<Instant>,
    hurry: Option<&'a Budget>,
    /// Allowed in addition to what the thread held before.
    bytes: Option<usize>,
    held: isize,
}

impl Limits<'_> {
    /// Returns the reason if there is no time left.
    pub fn out_of_time(&self) -> Option<&'static str> {
        let until = self.until?;
        let now = Instant::now();
        if now >= until {
            return Some("out of time");
        }
        let over = self.hurry.is_some_and(|budget| budget.is_over(now));
        over.then_some("given up, for another key is INVALID")
    }

    /// Returns the reason if there is no memory left. `elsewhere` is memory that other allocators
    /// gave to this thread.
    pub fn out_of_memory(&self, elsewhere: usize) -> Option<&'static str> {
        let own = held().wrapping_sub(self.held).max(0) as usize;
        let is_full = self.bytes.is_some_and(|most| own + elsewhere > most);
        is_full.then_some("out of memory")
    }
}

/// Returns the memory of the machine or of the container; `None` if it is unknown.
pub fn memory_of_machine() -> Option<usize> {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse().ok();
    let limits = [
        number("/sys/fs/cgroup/memory.max"),
        number("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        total(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default()),
    ];
    limits.into_iter().flatten().min()
}

/// Parses a line such as "MemTotal:       24604372 kB".
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kilobytes: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(1024 * kilobytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Duration = Duration::from_secs(1000);

    fn seconds(limits: &Limits, from: Instant) -> u64 {
        let until = limits.until.expect("a limit");
        (until - from).as_secs_f64().round() as u64
    }

    #[test]
    fn an_object_gets_half_of_what_is_left_and_the_last_one_all() {
        let budget = Budget::new(Some(WHOLE), Some(1200));
        assert_eq!(seconds(&budget.to_decide(3, 1), budget.began), 400);
        assert_eq!(seconds(&budget.to_decide(1, 1), budget.began), 800);
        assert_eq!(budget.to_decide(3, 3).bytes, Some(200));
    }

    #[test]
    fn witnesses_share_a_fifth() {
        let budget = Budget::new(Some(WHOLE), None);
        let end = budget.end_of_explaining();
        assert_eq!(seconds(&budget.to_explain(end, 1, 2), budget.began), 200);
        assert_eq!(seconds(&budget.to_explain(end, 8, 2), budget.began), 50);
    }

    #[test]
    fn an_invalid_object_ends_the_others_soon() {
        let budget = Budget::new(Some(WHOLE), None);
        let limits = budget.to_decide(2, 2);
        budget.found_invalid();
        let soon = Instant::now() + WHOLE.mul_f64(AFTER_INVALID);
        assert_eq!(limits.out_of_time(), None);
        assert!(!budget.is_over(soon - Duration::from_secs(1)));
        assert!(budget.is_over(soon + Duration::from_secs(1)));
    }

    #[test]
    fn what_the_thread_allocates_is_counted() {
        let budget = Budget::new(None, Some(4000));
        let limits = budget.to_decide(1, 1);
        assert_eq!(limits.out_of_memory(0), None);
        assert_eq!(limits.out_of_memory(2001), Some("out of memory"));
        let much = vec![0u8; 2001];
        assert_eq!(limits.out_of_memory(0), Some("out of memory"));
        drop(much);
        assert_eq!(limits.out_of_memory(0), None);
    }

    #[test]
    fn memory_is_given_in_kilobytes() {
        assert_eq!(total("MemFree: 1 kB\nMemTotal:  24 kB\n"), Some(24 * 1024));
        assert_eq!(total(""), None);
    }
}
