//! What a multi asks for, and what is answered.

use crate::keeper::tree::Path;
use crate::table::entries::Data;

/// One operation of a multi.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Makes a node; a sequential one gets the parent's next number, ten digits, as its end.
    Create {
        path: Path,
        data: Data,
        ephemeral: bool,
        sequential: bool,
    },
    /// Removes a node; `version` None is any.
    Remove { path: Path, version: Option<i64> },
    /// Replaces a node's data; `version` None is any.
    Put {
        path: Path,
        data: Data,
        version: Option<i64>,
    },
    /// The node must exist, and have this version unless it is None.
    Check { path: Path, version: Option<i64> },
    /// The node must not exist: a create and a remove of it, in a server's multi.
    Absent { path: Path },
}

impl Operation {
    /// A lasting node of that name.
    pub fn create(path: impl Into<Path>, data: Data) -> Operation {
        Operation::Create {
            path: path.into(),
            data,
            ephemeral: false,
            sequential: false,
        }
    }

    /// A lasting node with a number.
    pub fn numbered(path: impl Into<Path>, data: Data) -> Operation {
        Operation::Create {
            path: path.into(),
            data,
            ephemeral: false,
            sequential: true,
        }
    }

    pub fn remove(path: impl Into<Path>) -> Operation {
        Operation::Remove {
            path: path.into(),
            version: None,
        }
    }

    pub fn put(path: impl Into<Path>, data: Data) -> Operation {
        Operation::Put {
            path: path.into(),
            data,
            version: None,
        }
    }

    /// With any version if it is None.
    pub fn check(path: impl Into<Path>, version: Option<i64>) -> Operation {
        Operation::Check {
            path: path.into(),
            version,
        }
    }

    pub fn absent(path: impl Into<Path>) -> Operation {
        Operation::Absent { path: path.into() }
    }

    /// Of the node that it is about; a sequential one's without the number.
    pub(super) fn path(&self) -> &Path {
        match self {
            Operation::Create { path, .. }
            | Operation::Remove { path, .. }
            | Operation::Put { path, .. }
            | Operation::Check { path, .. }
            | Operation::Absent { path } => path,
        }
    }
}

/// What a server says that an operation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// The path of what was created.
    Created(Path),
    /// The version after it.
    Put(i64),
    Other,
}

impl Done {
    /// Of what was created.
    pub fn path(&self) -> &Path {
        match self {
            Done::Created(path) => path,
            _ => panic!("{self:?} is no path"),
        }
    }
}
