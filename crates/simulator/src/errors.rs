//! Errors of ZooKeeper requests and of queries.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

pub const NO_NODE: &str = "NONODE";
pub const NODE_EXISTS: &str = "NODEEXISTS";
pub const NOT_EMPTY: &str = "NOTEMPTY";
pub const BAD_VERSION: &str = "BADVERSION";
pub const CONNECTION_LOSS: &str = "CONNECTIONLOSS";
pub const RECONFIG_IN_PROGRESS: &str = "RECONFIGINPROGRESS";
pub const NEW_CONFIG_NO_QUORUM: &str = "NEWCONFIGNOQUORUM";
pub const SESSION_EXPIRED: &str = "SESSIONEXPIRED";

/// A failed ZooKeeper request. `code` is one of the names above, `at` the index of the failed
/// operation of a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeeperError {
    pub code: &'static str,
    pub at: usize,
    pub path: Rc<str>,
}

impl KeeperError {
    /// Creates an error without a path.
    #[cold]
    pub fn new(code: &'static str) -> KeeperError {
        KeeperError::of(code, "")
    }

    #[cold]
    pub fn of(code: &'static str, path: &str) -> KeeperError {
        KeeperError {
            code,
            at: 0,
            path: path.into(),
        }
    }

    /// Whether the request itself is at fault, as opposed to the connection.
    pub fn is_users(&self) -> bool {
        [NO_NODE, NODE_EXISTS, BAD_VERSION, NOT_EMPTY].contains(&self.code)
    }
}

impl fmt::Display for KeeperError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code)?;
        if self.path.is_empty() {
            Ok(())
        } else {
            write!(f, " at {}", self.path)
        }
    }
}

/// An exception of a simulated server. `code` is ClickHouse's, or one of a client's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    pub code: i32,
    pub text: Cow<'static, str>,
}

impl ServerError {
    pub fn new(code: i32, text: impl Into<Cow<'static, str>>) -> ServerError {
        ServerError {
            code,
            text: text.into(),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.text)
    }
}

/// An error within a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryError {
    Keeper(KeeperError),
    Server(ServerError),
}

impl From<KeeperError> for QueryError {
    fn from(error: KeeperError) -> QueryError {
        QueryError::Keeper(error)
    }
}

impl From<ServerError> for QueryError {
    fn from(error: ServerError) -> QueryError {
        QueryError::Server(error)
    }
}

impl From<QueryError> for ServerError {
    /// A ZooKeeper error that the server does not handle becomes its error 999.
    fn from(trouble: QueryError) -> ServerError {
        match trouble {
            QueryError::Server(error) => error,
            QueryError::Keeper(error) => {
                ServerError::new(999, format!("Coordination::Exception: {error}"))
            }
        }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Keeper(error) => error.fmt(f),
            QueryError::Server(error) => error.fmt(f),
        }
    }
}
