//! Draws numbers from a seed by SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom
//! number generators", OOPSLA 2014), exactly as harness/core/seed.py does.

use blake2::digest::consts::U8;
use blake2::digest::{FixedOutput, KeyInit, Update};
use blake2::Blake2bMac;

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A 64-bit seed, which determines a sequence of draws.
#[derive(Clone, Copy)]
pub struct Seed(pub u64);

impl Seed {
    /// Returns the draw of this number.
    pub fn draw(self, counter: u64) -> u64 {
        mix(self
            .0
            .wrapping_add(counter.wrapping_add(1).wrapping_mul(GAMMA)))
    }

    /// Returns a number uniform in [0, bound).
    pub fn below(self, counter: u64, bound: u64) -> u64 {
        scaled(self.draw(counter), bound)
    }

    /// Returns a number uniform in [0, 1).
    pub fn unit(self, counter: u64) -> f64 {
        (self.draw(counter) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns an index below `of`; `counter` may be negative.
    pub fn choice(self, counter: i64, of: usize) -> usize {
        self.below(counter as u64, of as u64) as usize
    }

    /// Returns the seed of a named part.
    pub fn child(self, name: &str) -> Seed {
        let mut mac = <Blake2bMac<U8> as KeyInit>::new_from_slice(&self.0.to_be_bytes())
            .expect("a key of 8 bytes");
        mac.update(name.as_bytes());
        Seed(u64::from_be_bytes(mac.finalize_fixed().into()))
    }

    /// Permutes the items (Fisher-Yates).
    pub fn shuffle<T>(self, items: &mut [T]) {
        let own = self.child("shuffle/0");
        for i in (1..items.len()).rev() {
            items.swap(i, own.below(i as u64, i as u64 + 1) as usize);
        }
    }
}

/// Scales a draw to [0, bound).
pub fn scaled(draw: u64, bound: u64) -> u64 {
    ((u128::from(draw) * u128::from(bound)) >> 64) as u64
}
