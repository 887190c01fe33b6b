//! Parts that could not be fetched: has anybody, dead or alive, such a part?
//!
//! Source: ReplicatedMergeTreePartCheckThread::checkPart and searchForMissingPart of 18.16.1, which
//! also compares parts that are here with their checksums.

use std::cell::RefCell;
use std::rc::Rc;

use crate::errors::{KeeperError, Trouble};
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::child;
use crate::table::parts::{Info, Ordered};
use crate::table::queue;
use crate::table::replica::Table;
use crate::world::{Ns, Promise, World, SECOND};

/// PART_CHECK_ERROR_SLEEP_MS.
const ERROR_SLEEP_NS: Ns = 5 * SECOND;

/// Those of one table of one replica that are yet to be looked for.
pub struct Missing {
    world: Rc<World>,
    parts: RefCell<Ordered<Info, ()>>,
    more: RefCell<Promise<()>>,
}

impl Missing {
    pub fn new(world: &Rc<World>) -> Missing {
        Missing {
            world: world.clone(),
            parts: RefCell::default(),
            more: RefCell::new(Promise::new()),
        }
    }

    pub fn len(&self) -> usize {
        self.parts.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.parts.borrow().is_empty()
    }

    /// To be looked for as soon as may be.
    pub fn add(&self, part: &Info) {
        self.parts.borrow_mut().insert(part.clone(), ());
        let more = self.more.borrow().clone();
        more.set(&self.world, ());
    }

    /// The one that was added first, when there is one.
    async fn first(&self) -> Info {
        if self.is_empty() {
            let more = Promise::new();
            self.more.replace(more.clone());
            self.world.wait(&more).await;
        }
        let parts = self.parts.borrow();
        let (first, ()) = parts.first().expect("one was added");
        first.clone()
    }
}

/// The task, for ever.
pub async fn search(table: Rc<Table>) {
    while !table.dropped.get() {
        let part = table.missing.first().await;
        if look(&table, &part).await.is_err() {
            table.world.sleep(ERROR_SLEEP_NS).await;
            continue;
        }
        table.missing.parts.borrow_mut().shift_remove(&part);
    }
}

async fn look(table: &Rc<Table>, part: &Info) -> Result<(), Trouble> {
    let here = table.part(&part.name()).is_some();
    if here || table.active.borrow().containing(part).is_some() {
        return Ok(());
    }
    let zk = table.writable()?;
    Ok(look_for(table, &zk, part).await?)
}

/// What ZooKeeper says is here is fetched again. What nobody has, nor the parts at both of its
/// ends, of which a merge would make it, is lost for ever: nothing waits for it.
async fn look_for(
    table: &Rc<Table>,
    zk: &Rc<KeeperSession>,
    part: &Info,
) -> Result<(), KeeperError> {
    if zk.exists(child(&table.own.parts, &part.name())).await? {
        return queue::fetch_again(table, zk, part).await;
    }
    let (mut first, mut last) = (false, false);
    for replica in zk.children(table.paths.replicas.clone()).await?.iter() {
        let parts = zk.children(table.paths.of(replica).parts.clone()).await?;
        for other in parts.iter().map(|name| Info::named(name)) {
            if other.contains(part) {
                return Ok(());
            }
            if part.contains(&other) {
                first = first || other.min == part.min;
                last = last || other.max == part.max;
            }
        }
        if first && last {
            return Ok(());
        }
    }
    queue::give_up(table, zk, part).await
}
