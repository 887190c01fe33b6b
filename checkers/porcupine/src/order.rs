//! The order that operations have before anyone looks at their values.

use crate::verdict::Why;

/// Which order an explanation of the history must respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// Real-time order: an operation that returned before another was called comes first.
    Linearizable,
    /// Process order: of each process's operations, the earlier comes first.
    Sequential,
}

impl Consistency {
    /// Why one operation precedes another under this consistency.
    pub fn why(self) -> Why {
        match self {
            Consistency::Linearizable => Why::RealTime,
            Consistency::Sequential => Why::ProcessOrder,
        }
    }
}

/// `ret` of an operation that never returned.
pub const NEVER: i64 = i64::MAX;

/// An operation's place in the order: it precedes another of the same group exactly when its
/// `ret` is less than the other's `call`. Equal times are concurrent.
///
/// Real-time order is one group with the times as measured. Process order is a group a process,
/// with the place in the process as both times; an operation that never returned precedes
/// nothing in either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub group: u32,
    pub call: i64,
    pub ret: i64,
}

impl Interval {
    pub fn precedes(&self, other: &Interval) -> bool {
        self.group == other.group && self.ret < other.call
    }
}

/// When an operation happened, as measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Position in the history that was given.
    pub row: usize,
    pub process: i64,
    pub call: i64,
    /// [`NEVER`]: may take effect at any time after its call, or never.
    pub ret: i64,
}

/// Every operation's interval, and how many groups there are. O(n log n).
pub fn intervals(timings: &[Timing], consistency: Consistency) -> (Vec<Interval>, usize) {
    match consistency {
        Consistency::Linearizable => {
            let of = |t: &Timing| Interval {
                group: 0,
                call: t.call,
                ret: t.ret,
            };
            (timings.iter().map(of).collect(), 1)
        }
        Consistency::Sequential => by_process(timings),
    }
}

fn by_process(timings: &[Timing]) -> (Vec<Interval>, usize) {
    let mut order: Vec<usize> = (0..timings.len()).collect();
    order.sort_by_key(|&i| {
        let t = &timings[i];
        (t.process, t.call, t.ret, t.row)
    });
    let nowhere = Interval {
        group: 0,
        call: 0,
        ret: 0,
    };
    let mut out = vec![nowhere; timings.len()];
    let mut groups = 0;
    let mut last = None;
    for (place, &i) in order.iter().enumerate() {
        if last.is_some_and(|p| p != timings[i].process) {
            groups += 1;
        }
        last = Some(timings[i].process);
        let never = timings[i].ret == NEVER;
        out[i] = Interval {
            group: groups,
            call: place as i64,
            ret: if never { NEVER } else { place as i64 },
        };
    }
    (out, groups as usize + 1)
}

/// Sorts; O(n) where few items are few places from where they belong.
pub fn sort_nearly<T: Copy + Ord>(items: &mut [T]) {
    let mut moves = 16 * items.len();
    for i in 1..items.len() {
        let item = items[i];
        let mut to = i;
        while to > 0 && items[to - 1] > item {
            items[to] = items[to - 1];
            to -= 1;
        }
        items[to] = item;
        match moves.checked_sub(i - to) {
            Some(left) => moves = left,
            None => return items.sort_unstable(),
        }
    }
}
