//! Names the changes of the described protocol: fixes, each of which prevents one of its races, and
//! mutants.

/// Changes that each prevent a race of the description.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixes {
    /// The source that sends metadata takes the receiver's lock with its own, in one multi.
    pub lock_first: bool,
    /// After a death or a lost session, a replica finishes what was interrupted: a delete, and the
    /// removal of what it fetched or wrote in vain.
    pub resume: bool,
    /// The marker of a merge outlives the session.
    pub durable_marker: bool,
    /// A replica that moves a part holds a marker of its own from the check to the lock.
    pub exclusive_move: bool,
    /// A server that does not know the locks does not start on a table that has some.
    pub refuse_downgrade: bool,
}

pub const FIXES: &[&str] = &[
    "lock-first",
    "resume",
    "durable-marker",
    "exclusive-move",
    "refuse-downgrade",
];

impl Fixes {
    pub fn from_names(names: &[String]) -> Result<Self, String> {
        let mut fixes = Self::default();
        for name in names {
            match name.as_str() {
                "lock-first" => fixes.lock_first = true,
                "resume" => fixes.resume = true,
                "durable-marker" => fixes.durable_marker = true,
                "exclusive-move" => fixes.exclusive_move = true,
                "refuse-downgrade" => fixes.refuse_downgrade = true,
                _ => {
                    return Err(format!(
                        "fix {name:?}: expected some of {}",
                        FIXES.join(", ")
                    ))
                }
            }
        }
        Ok(fixes)
    }
}

/// Changes that break a claim in spite of every fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A replica may come back as an older server, which does not know the locks.
    Downgrade,
    /// The lock of a temporary part and that of the final one have the same path.
    OneLockPath,
    /// A replica deletes a copy without listing the others' locks.
    UncheckedDelete,
}

pub const MUTANTS: &[(&str, Mutant)] = &[
    ("downgrade", Mutant::Downgrade),
    ("one-lock-path", Mutant::OneLockPath),
    ("unchecked-delete", Mutant::UncheckedDelete),
];

/// The protocol: the described one with these changes.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub fixes: Fixes,
    pub mutant: Option<Mutant>,
}

impl Rules {
    pub fn has(self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
