//! Formats integers faster than `fmt` does. Most names and lines contain numbers.

/// All numbers of two digits.
const PAIRS: &[u8; 200] = b"00010203040506070809101112131415161718192021222324252627282930313233\
    3435363738394041424344454647484950515253545556575859606162636465666768697071727374757677787980\
    81828384858687888990919293949596979899";
/// Digits of an i64 plus its sign.
const LENGTH_MAX: usize = 20;

/// The text of a number.
pub struct Digits {
    text: [u8; LENGTH_MAX],
    from: usize,
}

impl Digits {
    pub fn of(number: i64) -> Digits {
        let (mut text, mut from) = ([0; LENGTH_MAX], LENGTH_MAX);
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

/// Appends a number's text. Most numbers have few digits.
pub fn append(out: &mut Vec<u8>, number: i64) {
    let Ok(small @ 0..10_000) = u32::try_from(number) else {
        return out.extend_from_slice(Digits::of(number).as_bytes());
    };
    let digit = |of: u32| b'0' + (of % 10) as u8;
    let pair = |of: u32| [digit(of / 10), digit(of)];
    let (high, low) = (small / 100, small % 100);
    match small {
        0..10 => out.push(digit(small)),
        10..100 => out.extend_from_slice(&pair(low)),
        100..1000 => {
            out.push(digit(high));
            out.extend_from_slice(&pair(low));
        }
        _ => {
            out.extend_from_slice(&pair(high));
            out.extend_from_slice(&pair(low));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_equal_those_of_fmt() {
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

    #[test]
    fn appended_digits_equal_those_of_fmt() {
        for number in (-20..20_000).chain([i64::MAX, i64::MIN, 1 << 32]) {
            let mut out = Vec::new();
            append(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }
}
