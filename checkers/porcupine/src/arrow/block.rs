//! Rows next to each other of one column, all at once: what kind of column it is, is asked once.

use super::column::{Column, Layout};
use crate::models::numbers::{key, INT, NULL};

/// What is left of 16 bytes that begin with a text of so many, and the key's highest byte.
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
    /// The numbers from a row on, and `null` where there is none that fits.
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

    /// The keys ([`key`]) of the values from a row on; false where one has none.
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

    /// The keys of texts, 16 bytes of each at once where they lie within the buffer.
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
        for (at, out) in out.iter_mut().enumerate() {
            *out = if self.is_null(from + at) { null } else { *out };
        }
    }
}
