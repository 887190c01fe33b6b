//! Retries an insert's requests to ZooKeeper, and finds out whether a commit whose answer was lost
//! has happened.
//!
//! Source: ZooKeeperRetriesControl::canTry, ReplicatedMergeTreeSink::commitPart and resolveQuorum of
//! 25.8.

use std::rc::Rc;

use crate::errors::{KeeperError, QueryError, ServerError};
use crate::keeper::tree::child;
use crate::table::parts::Part;
use crate::table::quorum::failed_path;
use crate::table::replica::Table;
use crate::world::{Ns, MS};

/// insert_keeper_max_retries.
const RETRIES: u32 = 20;
/// insert_keeper_retry_initial_backoff_ms.
const BACKOFF_NS: Ns = 100 * MS;
/// insert_keeper_retry_max_backoff_ms in the harness's configuration.
const BACKOFF_NS_MAX: Ns = 500 * MS;
const TIMEOUT_EXCEEDED: i32 = 159;

/// The retries that are left to some requests of an insert.
#[derive(Clone)]
pub struct Retries {
    left: u32,
    backoff_ns: Ns,
    /// The end of the query's max_execution_time.
    until_ns: Ns,
}

/// Why there is no other try.
pub enum NoRetry {
    Exhausted,
    TimeLimit,
}

impl Retries {
    pub fn new(until_ns: Ns) -> Retries {
        Retries {
            left: RETRIES,
            backoff_ns: BACKOFF_NS,
            until_ns,
        }
    }

    /// Waits before the next try, unless there is none.
    async fn pause(&mut self, table: &Table) -> Result<(), NoRetry> {
        if table.world.now_ns() >= self.until_ns {
            return Err(NoRetry::TimeLimit);
        }
        if self.left == 0 {
            return Err(NoRetry::Exhausted);
        }
        self.left -= 1;
        table.world.sleep(self.backoff_ns).await;
        self.backoff_ns = BACKOFF_NS_MAX.min(2 * self.backoff_ns);
        Ok(())
    }

    /// Waits after this error before the next try; returns what the insert fails with if there is
    /// none.
    pub async fn again(&mut self, table: &Table, error: QueryError) -> Result<(), QueryError> {
        self.pause(table).await.map_err(|why| match why {
            NoRetry::Exhausted => error,
            NoRetry::TimeLimit => timeout().into(),
        })
    }
}

pub fn timeout() -> ServerError {
    ServerError::new(TIMEOUT_EXCEEDED, "Timeout exceeded")
}

/// Whether a request with this error is made again: its connection was lost.
pub fn is_lost(error: &QueryError) -> bool {
    match error {
        QueryError::Keeper(error) => is_connection(error),
        QueryError::Server(_) => false,
    }
}

pub fn is_connection(error: &KeeperError) -> bool {
    error.code == crate::errors::CONNECTION_LOSS || error.code == crate::errors::SESSION_EXPIRED
}

/// The outcome of a commit whose answer was lost.
pub enum Outcome {
    Committed,
    /// ZooKeeper's server does not list the part. (It may lag, or the commit may still be on its
    /// way.)
    Absent,
    QuorumFailed,
    Unknown(NoRetry),
}

/// Looks the part up in ZooKeeper, with as many tries as the insert has left.
pub async fn outcome(table: &Rc<Table>, part: &Part, quorum: bool, retries: &Retries) -> Outcome {
    let mut retries = retries.clone();
    loop {
        if let Ok(found) = looked_up(table, part, quorum).await {
            return found;
        }
        if let Err(why) = retries.pause(table).await {
            return Outcome::Unknown(why);
        }
    }
}

async fn looked_up(table: &Table, part: &Part, quorum: bool) -> Result<Outcome, QueryError> {
    let zk = table.session()?;
    let listed = zk.exists(child(&table.own.parts, &part.name)).await?;
    if quorum && zk.exists(failed_path(table, &part.name)).await? {
        return Ok(Outcome::QuorumFailed);
    }
    Ok(if listed {
        Outcome::Committed
    } else {
        Outcome::Absent
    })
}
