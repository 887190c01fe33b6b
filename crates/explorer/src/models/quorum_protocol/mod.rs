//! Models quorum inserts and sequentially consistent selects by the protocol of a server version.
//!
//! Finer than the thesis's model (`quorum`): block numbers are taken before the commit, the answer
//! to a commit may be lost, a fetch and the count of a quorum take several steps, and `last_part`
//! decides what a select returns. Defects of real servers are switches with the simulator's names.
//! Entries are executed in any order, and a record is a block of one partition.

mod inserts;
mod judgement;
mod model;
mod quorums;
mod reads;
mod rules;
mod world;

pub use model::QuorumProtocol;
pub use rules::defect_names;
