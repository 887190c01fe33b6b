//! The reads as a chain under inclusion.

use super::index::{Indexed, NONE};

/// Levels as in the module's proof.
pub(super) struct Levels {
    /// By read: 2k for the k-th content of the chain, counted from 1.
    pub read: Vec<u32>,
    /// By value: 2k−1 where the k-th content is the first that has it; [`UNSEEN`] if none has.
    pub value: Vec<u32>,
    /// Some read of each content, the smallest first.
    pub contents: Vec<u32>,
}

/// The level of a value that no read saw.
pub(super) const UNSEEN: u32 = NONE;

/// The levels, or two reads neither of which contains the other. O(n log n + v).
///
/// Reads are taken by size. As long as they form a chain, the values seen so far are those of
/// the read before; the next read contains it exactly when it has as many values already seen.
pub(super) fn levels(indexed: &Indexed) -> Result<Levels, (usize, usize)> {
    let mut by_size: Vec<usize> = (0..indexed.reads()).collect();
    by_size.sort_by_key(|&r| indexed.read(r).len());
    let mut levels = Levels {
        read: vec![0; indexed.reads()],
        value: vec![UNSEEN; indexed.values.len()],
        contents: Vec::new(),
    };
    let mut size = 0;
    let mut last = None;
    for r in by_size {
        let values = indexed.read(r);
        let grows = values.len() > size || last.is_none();
        let mut old = 0;
        let k = levels.contents.len() as u32 + u32::from(grows);
        for &v in values {
            let level = &mut levels.value[v as usize];
            if *level == UNSEEN {
                *level = 2 * k - 1;
            } else {
                old += 1;
            }
        }
        if old != size {
            return Err((last.expect("the empty set is in every read"), r));
        }
        if grows {
            levels.contents.push(r as u32);
            size = values.len();
        }
        last = Some(r);
        levels.read[r] = 2 * k;
    }
    Ok(levels)
}
