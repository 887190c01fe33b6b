//! Defines the order of operations that does not depend on their values.

/// Which order a linearization must respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// Real-time order: an operation that returned before another was called comes first.
    Linearizable,
    /// Process order: the operations of each process keep their order.
    Sequential,
}

/// The `ret` of an operation that never returned.
pub const NEVER: i64 = i64::MAX;

/// An operation's interval in the order: it precedes another of the same group exactly if its `ret`
/// is less than the other's `call`. Equal times are concurrent.
///
/// Real-time order has one group, with the measured times. Process order has a group per process,
/// with the index in the process as both times. An operation that never returned precedes nothing
/// in either order.
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

/// The measured times of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Position in the given history.
    pub row: usize,
    pub process: i64,
    pub call: i64,
    /// [`NEVER`] if it never returned: it may take effect at any time after its call, or never.
    pub ret: i64,
}

/// Returns every operation's interval, and the number of groups. O(n log n).
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

/// Sorts; O(n) if few items are far from their final position.
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
