//! Defines the operations of a multi and their results.

use crate::keeper::data::Data;
use crate::keeper::paths::Path;

/// One operation of a multi.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Creates a node. A sequential one gets the parent's next number as a suffix of ten digits.
    Create {
        path: Path,
        data: Data,
        ephemeral: bool,
        sequential: bool,
    },
    /// Removes a node; `version` `None` matches any.
    Remove { path: Path, version: Option<i64> },
    /// Replaces a node's data; `version` `None` matches any.
    Put {
        path: Path,
        data: Data,
        version: Option<i64>,
    },
    /// Requires that the node exists, with this version unless it is `None`.
    Check { path: Path, version: Option<i64> },
    /// Requires that the node does not exist. Servers implement it as a create and a remove in one
    /// multi.
    Absent { path: Path },
}

impl Operation {
    /// Creates a persistent node.
    pub fn create(path: impl Into<Path>, data: Data) -> Operation {
        Operation::Create {
            path: path.into(),
            data,
            ephemeral: false,
            sequential: false,
        }
    }

    /// Creates a persistent sequential node.
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

    /// Requires that the node exists; any version matches `None`.
    pub fn check(path: impl Into<Path>, version: Option<i64>) -> Operation {
        Operation::Check {
            path: path.into(),
            version,
        }
    }

    pub fn absent(path: impl Into<Path>) -> Operation {
        Operation::Absent { path: path.into() }
    }

    /// Returns the path of the node; without the number if it is sequential.
    pub fn path(&self) -> &Path {
        match self {
            Operation::Create { path, .. }
            | Operation::Remove { path, .. }
            | Operation::Put { path, .. }
            | Operation::Check { path, .. }
            | Operation::Absent { path } => path,
        }
    }
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// The path of the created node.
    Created(Path),
    /// The new version.
    Put(i64),
    Other,
}

impl Done {
    /// Returns the path of the created node.
    pub fn path(&self) -> &Path {
        match self {
            Done::Created(path) => path,
            _ => panic!("{self:?} has no path"),
        }
    }
}
