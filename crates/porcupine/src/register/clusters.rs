//! Groups the operations on a register by value and decides from these groups' intervals.
//!
//! Gibbons & Korach, "Testing shared memories" (SIAM J. Comput. 1997), section 4: if every value is
//! written once, all reads of a value come after its write and before any other write. So the
//! operations on a value, its *cluster*, are contiguous in any linearization. Let f be the least
//! return in a cluster and s the greatest call; they bound its *zone*. Cluster A must come before B
//! exactly if f(A) < s(B). The history is linearizable if no read returns before the write of its
//! value is called, and no two clusters must each come before the other, because a longer cycle
//! contains a shorter one. (Take the cluster A of least f in a cycle, its predecessor P, and Q
//! before P. f(A) ≤ f(Q) < s(P), so A must come before P too.)
//!
//! The write of the initial value returned before everything. A write that never returned and that
//! no read saw did not happen.

use super::Value;
use crate::order::{sort_nearly, NEVER};

/// Earlier than all times.
const START: i64 = i64::MIN;

/// The operations on one value.
#[derive(Clone, Copy)]
pub struct Cluster {
    /// Least return and greatest call of the reads.
    ret: i64,
    call: i64,
    /// Call and return of the last write.
    write_call: i64,
    write_ret: i64,
    pub writes: u32,
}

/// Least return and greatest call of a value's operations, and the value.
pub type Zone = (i64, i64, Value);

impl Cluster {
    pub const EMPTY: Self = Self {
        ret: NEVER,
        call: START,
        write_call: NEVER,
        write_ret: NEVER,
        writes: 0,
    };

    /// Adds an operation without branching on whether it is a read. That is as good as random, so a
    /// branch would be mispredicted every other time.
    #[inline(always)]
    pub fn add(&mut self, read: bool, call: i64, ret: i64) {
        self.ret = self.ret.min(if read { ret } else { NEVER });
        self.call = self.call.max(if read { call } else { START });
        self.write_call = if read { self.write_call } else { call };
        self.write_ret = if read { self.write_ret } else { ret };
        self.writes += u32::from(!read);
    }

    /// Returns the least return and the greatest call; the inner `None` if nothing happened, the
    /// outer `None` if the reads do not fit the write or there are two writes.
    pub fn zone(&self) -> Option<Option<(i64, i64)>> {
        let read = self.call != START;
        let happened = read || self.write_ret != NEVER;
        let zone = (self.ret.min(self.write_ret), self.call.max(self.write_call));
        let fits = match self.writes {
            0 => !read,
            1 => self.ret >= self.write_call,
            _ => false,
        };
        fits.then_some(happened.then_some(zone))
    }

    /// Returns the same for the cluster of the initial value.
    pub fn initial_zone(&self) -> Option<Option<(i64, i64)>> {
        let read = self.call != START;
        (self.writes == 0).then_some(read.then_some((START, self.call)))
    }
}

/// The clusters of one register by the key of the value; the first one is the initial value's.
pub struct Clusters {
    /// Open addressing by hash: the index in `all`; 0 for an empty slot, because the initial
    /// value's cluster needs none.
    slots: Vec<u32>,
    /// Always has one empty cluster to spare.
    all: Vec<(u128, Cluster)>,
    count: usize,
}

/// Number of empty clusters that are added at a time.
const SPARE: usize = 32;

impl Clusters {
    /// Creates the clusters for this number of operations.
    pub fn new(initial: u128, operations: usize) -> Self {
        let mut all = Vec::with_capacity(operations / 2 + 2 + SPARE);
        all.resize(2, (initial, Cluster::EMPTY));
        Self {
            slots: vec![0; (operations + operations / 4 + 2).next_power_of_two()],
            all,
            count: 1,
        }
    }

    /// Returns the value's cluster without branching on whether it is new, which is as good as
    /// random.
    #[inline(always)]
    pub fn of(&mut self, key: u128) -> &mut Cluster {
        const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
        if self.count == self.all.len() {
            self.all.resize(self.count + SPARE, (0, Cluster::EMPTY));
        }
        let mixed =
            (key as u64 ^ ((key >> 64) as u64).wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
        let last = self.slots.len() - 1;
        let mut slot = (mixed >> 32 ^ mixed >> 12) as usize & last;
        let (at, known) = loop {
            let at = self.slots[slot] as usize;
            let known = self.all[at].0 == key;
            if known | (at == 0) {
                break (at, known);
            }
            slot = (slot + 1) & last;
        };
        let at = if known { at } else { self.count };
        self.slots[slot] = at as u32;
        self.count += usize::from(!known);
        let (own, cluster) = &mut self.all[at];
        *own = key;
        cluster
    }

    pub fn all(&self) -> impl ExactSizeIterator<Item = &Cluster> {
        self.all[..self.count].iter().map(|(_, cluster)| cluster)
    }
}

/// Finds two values whose clusters must each come before the other. O(n) if values first appear
/// nearly in the order in which their operations return, otherwise O(n log n).
pub fn interleaved(zones: &mut [Zone]) -> Option<(Value, Value)> {
    sort_nearly(zones);
    // By index: which of the zones up to here has the greatest call.
    let mut latest: Vec<u32> = Vec::with_capacity(zones.len());
    let mut greatest = START;
    for (i, &(f, s, v)) in zones.iter().enumerate() {
        // If f is equal, each must come before the other only if f is before both calls.
        if greatest > f {
            // Among the zones before this one with f less than its s, take the one called last.
            let most = if s > f {
                i
            } else {
                less_before(&zones[..i], s)
            };
            if let Some(&other) = most.checked_sub(1).and_then(|m| latest.get(m)) {
                let other = zones[other as usize];
                if other.1 > f && other.0 < s {
                    return Some((other.2, v));
                }
            }
        }
        let before = latest.last().copied().unwrap_or(0);
        latest.push(if greatest >= s { before } else { i as u32 });
        greatest = greatest.max(s);
    }
    None
}

/// Returns how many of the sorted zones have an f less than `s`. O(log k) if all but k have.
fn less_before(zones: &[Zone], s: i64) -> usize {
    let mut back = 1;
    while back <= zones.len() && zones[zones.len() - back].0 >= s {
        back *= 2;
    }
    let from = zones.len() - back.min(zones.len());
    from + zones[from..].partition_point(|zone| zone.0 < s)
}
