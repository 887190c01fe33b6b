//! What fails: requests to ZooKeeper, and queries.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

pub const NO_NODE: &str = "NONODE";
pub const NODE_EXISTS: &str = "NODEEXISTS";
pub const BAD_VERSION: &str = "BADVERSION";
pub const CONNECTION_LOSS: &str = "CONNECTIONLOSS";
pub const SESSION_EXPIRED: &str = "SESSIONEXPIRED";

/// A request failed: `code` is one of the names above, `at` the operation of a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeeperError {
    pub code: &'static str,
    pub at: usize,
    pub path: Rc<str>,
}

impl KeeperError {
    /// Of no path.
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

    /// Whether a request was refused for what it asked.
    pub fn is_users(&self) -> bool {
        [NO_NODE, NODE_EXISTS, BAD_VERSION].contains(&self.code)
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

/// What a simulated server answers instead of a result. `code` is ClickHouse's, or a client's own.
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

/// What may go wrong within a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    Keeper(KeeperError),
    Server(ServerError),
}

impl From<KeeperError> for Trouble {
    fn from(error: KeeperError) -> Trouble {
        Trouble::Keeper(error)
    }
}

impl From<ServerError> for Trouble {
    fn from(error: ServerError) -> Trouble {
        Trouble::Server(error)
    }
}

impl From<Trouble> for ServerError {
    /// A ZooKeeper error that nobody caught is a server's 999.
    fn from(trouble: Trouble) -> ServerError {
        match trouble {
            Trouble::Server(error) => error,
            Trouble::Keeper(error) => {
                ServerError::new(999, format!("Coordination::Exception: {error}"))
            }
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Keeper(error) => error.fmt(f),
            Trouble::Server(error) => error.fmt(f),
        }
    }
}
