//! Packs a configuration into one word, and keeps sets of them in which none dominates another.

/// The pending operations, the used ones and the state's number: 29, 29 and 6 bits.
pub(super) type Config = u64;

/// Maximum number of operations in flight.
pub(super) const BITS: usize = 29;
/// Maximum number of states; one more number stands for no state.
pub(super) const STATES: usize = 63;

const STATE: u64 = 63;
const PENDING: u32 = 6;
const USED: u32 = 35;

#[inline(always)]
pub(super) fn state(config: Config) -> u64 {
    config & STATE
}

#[inline(always)]
pub(super) fn with_state(config: Config, state: u64) -> Config {
    config & !STATE | state
}

/// Returns the bits of the pending operations.
#[inline(always)]
pub(super) fn pending(config: Config) -> u64 {
    config >> PENDING & ((1 << BITS) - 1)
}

/// Returns the bits of the used operations.
#[inline(always)]
pub(super) fn used(config: Config) -> u64 {
    config >> USED
}

/// Returns the part of a configuration in which these operations are pending.
#[inline(always)]
pub(super) fn as_pending(bits: u64) -> Config {
    bits << PENDING
}

/// Returns the part of a configuration in which these operations are used.
#[inline(always)]
pub(super) fn as_used(bits: u64) -> Config {
    bits << USED
}

/// A set of configurations in which none dominates another.
#[derive(Default)]
pub(super) struct Frontier {
    /// Has [`DEAD`] in place of configurations that a later one dominates.
    pub all: Vec<Config>,
}

const DEAD: Config = u64::MAX;

impl Frontier {
    /// Inserts a configuration unless another dominates it.
    #[inline(always)]
    pub fn insert(&mut self, new: Config) -> bool {
        for old in &mut self.all {
            let differ = *old ^ new;
            if differ & STATE != 0 {
                continue;
            }
            if differ & *old == 0 {
                return false;
            }
            if differ & new == 0 {
                *old = DEAD;
            }
        }
        self.all.push(new);
        true
    }

    /// Returns the configuration; `None` if another dominates it.
    #[inline(always)]
    pub fn get(&self, i: usize) -> Option<Config> {
        Some(self.all[i]).filter(|&config| config != DEAD)
    }

    /// Iterates over the configurations that no other dominates.
    pub fn live(&self) -> impl Iterator<Item = Config> + '_ {
        self.all.iter().copied().filter(|&config| config != DEAD)
    }
}
