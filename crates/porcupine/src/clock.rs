//! Represents the times of a history as integers of the same order.

/// What the times of a history are. Decisions compare times and do not know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    #[default]
    Ints,
    /// Each float is represented by its [`rank`].
    Floats,
}

impl Clock {
    /// Returns a time as the history has it.
    pub fn text(self, time: i64) -> String {
        match self {
            Clock::Ints => time.to_string(),
            Clock::Floats => format!("{:?}", float(time)),
        }
    }
}

/// Returns the integer that represents a finite float. It is less than another one's exactly if the
/// float is, equal exactly if the floats are, and never [`crate::order::NEVER`].
pub fn rank(time: f64) -> i64 {
    debug_assert!(time.is_finite());
    flip((time + 0.0).to_bits() as i64) // -0.0 + 0.0 is 0.0
}

/// Returns the float that an integer represents.
pub fn float(rank: i64) -> f64 {
    f64::from_bits(flip(rank) as u64)
}

/// Returns the rank of an integer among floats; `None` if no float is equal to it.
pub fn rank_of_int(time: i64) -> Option<i64> {
    let float = time as f64;
    // 2^63 is a float, but no `i64`, and the cast back would make it the greatest one.
    (float < i64::MAX as f64 && float as i64 == time).then(|| rank(float))
}

/// Bits of floats ascend with them if they are positive, and descend if they are negative.
fn flip(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::NEVER;

    #[test]
    fn ranks_are_ordered_as_floats() {
        let tiny = f64::from_bits(1);
        let second = 1_764_400_000.0_f64;
        let next = f64::from_bits(second.to_bits() + 1);
        let times = [
            f64::MIN,
            -second,
            -1.0,
            -tiny,
            0.0,
            tiny,
            0.1,
            0.1 + 0.2,
            0.5,
            second,
            next,
            f64::MAX,
        ];
        for (a, b) in times.iter().zip(&times[1..]) {
            assert!(rank(*a) < rank(*b), "{a} {b}");
        }
        for time in times {
            assert_eq!(float(rank(time)), time);
            assert!(rank(time) < NEVER);
        }
        assert_eq!(rank(-0.0), rank(0.0));
    }

    #[test]
    fn integers_that_no_float_equals_have_no_rank() {
        assert_eq!(rank_of_int(-3), Some(rank(-3.0)));
        assert_eq!(rank_of_int(1 << 53), Some(rank(9_007_199_254_740_992.0)));
        for time in [(1 << 53) + 1, i64::MAX, i64::MAX - 1] {
            assert_eq!(rank_of_int(time), None, "{time}");
        }
        assert!(rank_of_int(i64::MIN).is_some());
    }
}
