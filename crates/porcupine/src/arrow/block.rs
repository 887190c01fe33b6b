//! Reads adjacent rows of a column together, so that the column's type is examined once per block.

use super::column::{Column, Layout};
use crate::datum::{key, INT, NULL};
use crate::rows::SMALL;

/// By length of a short text: the mask of its bytes among 16, and the length as the key's highest
/// byte.
const TEXTS: [(u128, u128); 16] = {
    let mut texts = [(0, 0); 16];
    let mut length = 0;
    while length < 16 {
        texts[length] = ((1 << (8 * length)) - 1, (length as u128) << 120);
        length += 1;
    }
    texts
};

impl Column {
    /// Reads the integers from a row on; `null` stands for missing and too large ones.
    pub fn ints(&self, from: usize, null: i64, out: &mut [i64]) {
        match &self.layout {
            Layout::Int64(p) => {
                // SAFETY: the buffer has a number for each row.
                let numbers =
                    unsafe { std::slice::from_raw_parts(p.add(self.offset + from), out.len()) };
                out.copy_from_slice(numbers);
                self.put_nulls(from, null, out);
            }
            _ => {
                for (at, out) in out.iter_mut().enumerate() {
                    *out = self.int(from + at).unwrap_or(null);
                }
            }
        }
    }

    /// Reads the keys ([`key`]) of the values from a row on; returns false if one has no key.
    pub fn keys(&self, from: usize, out: &mut [u128]) -> bool {
        match &self.layout {
            Layout::Null => {
                out.fill(NULL);
                return true;
            }
            Layout::Int64(p) => {
                for (at, out) in out.iter_mut().enumerate() {
                    // SAFETY: the buffer has a number for each row.
                    let number = unsafe { *p.add(self.offset + from + at) };
                    *out = u128::from(number as u64) | INT;
                }
            }
            Layout::Text32(offsets, data) => {
                // SAFETY: there is an offset for each row and one more.
                let offset = |row| unsafe { *offsets.add(self.offset + row) as usize };
                if !self.texts(from, out, *data, offset) {
                    return false;
                }
            }
            Layout::Text64(offsets, data) => {
                // SAFETY: there is an offset for each row and one more.
                let offset = |row| unsafe { *offsets.add(self.offset + row) as usize };
                if !self.texts(from, out, *data, offset) {
                    return false;
                }
            }
            _ => {
                return out
                    .iter_mut()
                    .enumerate()
                    .all(|(at, out)| key(&self.datum(from + at)).map(|key| *out = key).is_some());
            }
        }
        self.put_nulls(from, NULL, out);
        true
    }

    /// Builds the keys of texts, loading 16 bytes at once where these lie within the buffer.
    #[inline(always)]
    fn texts(
        &self,
        from: usize,
        out: &mut [u128],
        data: *const u8,
        offset: impl Fn(usize) -> usize,
    ) -> bool {
        let end = offset(self.rows);
        let mut begins = offset(from);
        for (at, out) in out.iter_mut().enumerate() {
            let ends = offset(from + at + 1);
            let length = ends.wrapping_sub(begins);
            if length < TEXTS.len() && begins + 16 <= end {
                let (mask, highest) = TEXTS[length];
                // SAFETY: these bytes lie within the buffer, whose last text ends at `end`.
                let bytes: [u8; 16] = unsafe { data.add(begins).cast::<[u8; 16]>().read() };
                *out = u128::from_le_bytes(bytes) & mask | highest;
            } else if let Some(key) = key(&self.datum(from + at)) {
                *out = key;
            } else {
                return false;
            }
            begins = ends;
        }
        true
    }

    fn put_nulls<T: Copy>(&self, from: usize, null: T, out: &mut [T]) {
        if self.validity.is_null() {
            return;
        }
        for (from, out) in (from..).step_by(64).zip(out.chunks_mut(64)) {
            let mut nulls = !self.present(from, out.len()) & u64::MAX >> (64 - out.len());
            while nulls != 0 {
                out[nulls.trailing_zeros() as usize] = null;
                nulls &= nulls - 1;
            }
        }
    }

    /// Returns a bit for each of up to 64 rows, set if the row has a value.
    fn present(&self, from: usize, count: usize) -> u64 {
        let at = self.offset + from;
        if self.validity.is_null() {
            return u64::MAX;
        }
        if at % 8 == 0 && count == 64 {
            // SAFETY: the bitmap has a bit for each row.
            let bytes = unsafe { self.validity.add(at / 8).cast::<[u8; 8]>().read() };
            return u64::from_le_bytes(bytes);
        }
        (0..count).fold(0, |bits, i| bits | u64::from(!self.is_null(from + i)) << i)
    }

    /// Reads each row's integer plus one, 0 for null; returns false if an integer is not below
    /// [`SMALL`].
    pub fn small_ints(&self, from: usize, out: &mut [u8]) -> bool {
        let numbers = match &self.layout {
            Layout::Null => {
                out.fill(0);
                return true;
            }
            Layout::Int64(p) => p.wrapping_add(self.offset + from),
            _ => return false,
        };
        let mut bits = 0;
        for (place, out) in (0..).step_by(64).zip(out.chunks_mut(64)) {
            let present = self.present(from + place, out.len());
            for (at, out) in out.iter_mut().enumerate() {
                // SAFETY: the buffer has a number for each row.
                let number = unsafe { *numbers.add(place + at) } as u64;
                let mask = (present >> at & 1).wrapping_neg();
                bits |= number & mask;
                *out = (number.wrapping_add(1) & mask) as u8;
            }
        }
        bits < SMALL
    }
}
