//! Covers the locks of zero-copy replication: for each part how many there are, and who takes and
//! releases which.

use rustc_hash::FxHashMap;

use crate::coverage::{hashed, Reached};
use crate::keeper::tree::{Change, Effect};

const FETCH: &str = "tmp_fetch_";
const MARKER: &str = "part_exclusive_lock";

/// The locks of one part.
#[derive(Default)]
struct Part {
    copies: i32,
    fetches: i32,
    marked: bool,
    /// The last step and who took it.
    last: (u32, usize),
}

/// The locks of all parts, by the hash of a table's ID and a part's name.
#[derive(Default)]
pub struct Locks(FxHashMap<u32, Part>);

impl Locks {
    /// Take a change below the locks: `ID/tmp_fetch_PART/REPLICA`, `ID/PART/COPY/REPLICA` or
    /// `ID/PART/part_exclusive_lock`.
    pub(super) fn change(
        &mut self,
        rest: &str,
        change: &Change,
        actor: usize,
        reached: &mut Reached,
    ) {
        let by = match change.effect {
            Effect::Created(_) => 1,
            Effect::Removed => -1,
            Effect::Put(_) => return,
        };
        let mut words = rest.splitn(4, '/');
        let (Some(table), Some(part), Some(third)) = (words.next(), words.next(), words.next())
        else {
            return;
        };
        let name = part.strip_prefix(FETCH).unwrap_or(part);
        let own = self.0.entry(hashed((table, name))).or_default();
        let before = (own.copies.min(3), own.fetches.min(2), own.marked);
        let step = if part.starts_with(FETCH) {
            own.fetches += by;
            1
        } else if third == MARKER {
            own.marked = by > 0;
            2
        } else if words.next().is_some() {
            own.copies += by;
            3
        } else {
            return; // the node of a copy, which may have locks
        };
        let step = step * 2 + u32::from(by > 0);
        let (last, by) = std::mem::replace(&mut own.last, (step, actor));
        reached.state(("locks", before, step, last, by == actor));
    }
}
