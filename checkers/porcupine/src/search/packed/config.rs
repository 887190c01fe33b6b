//! A configuration in one word, and sets of them in which none dominates another.

/// Which operations are pending, which are used, and the state's number: 29, 29 and 6 bits.
pub(super) type Config = u64;

/// The most operations in flight.
pub(super) const BITS: usize = 29;
/// The most states; one more number is that of no state.
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

/// Operations that are pending, by bit.
#[inline(always)]
pub(super) fn pending(config: Config) -> u64 {
    config >> PENDING & ((1 << BITS) - 1)
}

/// Operations that are used, by bit.
#[inline(always)]
pub(super) fn used(config: Config) -> u64 {
    config >> USED
}

/// What of a configuration says that operations are pending.
#[inline(always)]
pub(super) fn as_pending(bits: u64) -> Config {
    bits << PENDING
}

/// What of a configuration says that operations are used.
#[inline(always)]
pub(super) fn as_used(bits: u64) -> Config {
    bits << USED
}

/// Configurations of which none dominates another.
#[derive(Default)]
pub(super) struct Frontier {
    /// With [`DEAD`] in place of those that a later one dominates.
    pub all: Vec<Config>,
}

const DEAD: Config = u64::MAX;

impl Frontier {
    /// Puts a configuration in, unless one that is there dominates it.
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

    /// The configuration; none if another dominates it.
    #[inline(always)]
    pub fn get(&self, i: usize) -> Option<Config> {
        Some(self.all[i]).filter(|&config| config != DEAD)
    }

    /// Those that no other dominates.
    pub fn live(&self) -> impl Iterator<Item = Config> + '_ {
        self.all.iter().copied().filter(|&config| config != DEAD)
    }
}
