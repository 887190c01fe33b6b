//! Decimal digits, without the detours of `fmt`: numbers are in most names and lines.

/// Every number of two digits.
const PAIRS: &[u8; 200] = b"00010203040506070809101112131415161718192021222324252627282930313233\
    3435363738394041424344454647484950515253545556575859606162636465666768697071727374757677787980\
    81828384858687888990919293949596979899";
/// As many as an i64 has, and its sign.
const MOST: usize = 20;

/// A number's text.
pub struct Digits {
    text: [u8; MOST],
    from: usize,
}

impl Digits {
    pub fn of(number: i64) -> Digits {
        let (mut text, mut from) = ([0; MOST], MOST);
        let mut left = number.unsigned_abs();
        let mut put = |two: usize| {
            from -= 2;
            text[from..from + 2].copy_from_slice(&PAIRS[two * 2..two * 2 + 2]);
        };
        while left >= 10_000 {
            let four = (left % 10_000) as usize;
            left /= 10_000;
            put(four % 100);
            put(four / 100);
        }
        let mut left = left as usize;
        if left >= 100 {
            put(left % 100);
            left /= 100;
        }
        if left >= 10 {
            put(left);
        } else {
            from -= 1;
            text[from] = b'0' + left as u8;
        }
        if number < 0 {
            from -= 1;
            text[from] = b'-';
        }
        Digits { text, from }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.text[self.from..]
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("digits are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_what_fmt_writes() {
        let some = [
            9,
            10,
            99,
            100,
            101,
            109,
            999,
            1000,
            1010,
            12_345,
            i64::MAX,
            i64::MIN,
        ];
        for number in (-1100..1100).chain(some) {
            assert_eq!(Digits::of(number).as_str(), number.to_string());
        }
    }
}
