//! What a server cannot do that lacks descriptors, connections or names of other servers.
//!
//! Source: the errors of Poco and of ClickHouse 18.16.1.

use crate::errors::{KeeperError, ServerError, CONNECTION_LOSS};
use crate::server::host::Host;
use crate::world::Resource;

pub const CLOSED: i32 = 32;
pub const CANNOT_OPEN_FILE: i32 = 76;
pub const DNS_ERROR: i32 = 198;
const NETWORK_ERROR: i32 = 210;

impl Host {
    fn lacks(&self, resource: Resource) -> bool {
        self.ensemble.world.lacks(self.node, resource)
    }

    /// Fail with 76 if the server has no descriptor for a part's files.
    pub fn open(&self, part: &str) -> Result<(), ServerError> {
        if self.lacks(Resource::Files) {
            return Err(cannot_open(part));
        }
        Ok(())
    }

    /// Fail if the server cannot open a connection to another server, which it knows by its name.
    pub fn connect(&self, other: &Host) -> Result<(), ServerError> {
        let name = &other.name;
        if self.lacks(Resource::Names) {
            let text = format!("Not found address of host: {name}");
            return Err(ServerError::new(DNS_ERROR, text));
        }
        if self.lacks(Resource::Files) {
            let text = format!("Too many open files: no socket to {name}");
            return Err(ServerError::new(NETWORK_ERROR, text));
        }
        Ok(())
    }

    /// Fail as a lost connection does if the server cannot open one to ZooKeeper.
    pub(super) fn require_session(&self) -> Result<(), KeeperError> {
        if self.lacks(Resource::Names) || self.lacks(Resource::Files) {
            return Err(KeeperError::new(CONNECTION_LOSS));
        }
        Ok(())
    }

    /// Whether the server accepts no new connection because others hold all that it may have.
    pub fn is_full(&self) -> bool {
        self.lacks(Resource::Connections)
    }

    /// Whether the server has no descriptor left.
    pub fn lacks_files(&self) -> bool {
        self.lacks(Resource::Files)
    }
}

#[cold]
pub fn cannot_open(part: &str) -> ServerError {
    let text =
        format!("Cannot open file {part}/count.txt, errno: 24, strerror: Too many open files");
    ServerError::new(CANNOT_OPEN_FILE, text)
}
