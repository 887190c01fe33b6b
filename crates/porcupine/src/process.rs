//! Numbers processes that have names.

use rustc_hash::FxHashMap;

/// Names begin at the lowest number, so that hardly any process that is a number has theirs.
const FIRST: i64 = i64::MIN;
/// Number of rows that a history may have, and so of names.
const NAMES_MAX: i64 = 1 << 32;

/// Numbers names in the order in which they appear.
#[derive(Default)]
pub struct Names {
    numbers: FxHashMap<String, i64>,
}

impl Names {
    /// Returns the number of a name.
    pub fn number(&mut self, name: &str) -> i64 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = FIRST + self.numbers.len() as i64;
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

/// Returns a process as an error shows it after the word "process": its number, or nothing for a
/// name, because the row shows that.
pub fn shown(process: i64) -> String {
    match process < FIRST + NAMES_MAX {
        true => String::new(),
        false => format!(" {process}"),
    }
}
