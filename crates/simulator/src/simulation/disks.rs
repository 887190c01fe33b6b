//! Reaches the disks of the simulated servers: faults, power cuts and flipped bits.

use std::rc::Rc;

use super::{Host, Simulation};
use crate::bugs::Bugs;
use crate::disk::{Device, Fsync, Lost};
use crate::network::Node;
use crate::table::damage::{self, PartFile};
use crate::table::replica::Table;
use seed::Seed;

/// What a power cut took, and whether of the two files that were marked before the synced and the
/// other one survived.
pub struct Cut {
    pub lost: Lost,
    pub synced: bool,
    pub unsynced: bool,
}

/// The words by which a file is found.
pub struct Wanted {
    /// Words one of which is in its path.
    pub below: Vec<String>,
    /// Words none of which is in its path.
    pub without: Vec<String>,
    /// Its endings; one that ends with `*` is a beginning.
    pub endings: Vec<String>,
}

impl Wanted {
    fn fits(&self, path: &str) -> bool {
        let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
        let ends = |ending: &String| match ending.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name.ends_with(&**ending),
        };
        self.below.iter().any(|word| path.contains(&**word))
            && !self.without.iter().any(|word| path.contains(&**word))
            && self.endings.iter().any(ends)
    }
}

/// A bit that was flipped.
pub struct Flipped {
    pub path: String,
    pub offset: usize,
    pub bit: u32,
    /// The byte as it should be read.
    pub byte: u8,
    /// The byte as it is read.
    pub read: u8,
}

/// The state of a disk.
pub struct DiskState {
    pub hits: Vec<(String, u64)>,
    pub changes: u64,
    pub pages: u64,
    pub flips: usize,
}

impl Simulation {
    /// Returns the disk of a node; `None` if it has none that fails.
    pub fn device(&self, node: Node) -> Option<Rc<Device>> {
        match &self.hosts[node] {
            Host::Keeper { disk, .. } => Some(disk.borrow().device.clone()),
            Host::Replica { disk, .. } => Some(disk.device.clone()),
            Host::Store(_) => None,
        }
    }

    fn devices(&self) -> impl Iterator<Item = Rc<Device>> + '_ {
        self.nodes().filter_map(|node| self.device(node))
    }

    /// Sets what servers sync.
    pub fn set_fsync(&self, fsync: Fsync) {
        self.devices().for_each(|device| device.fsync.set(fsync));
    }

    /// Makes everything durable on all disks.
    pub fn sync_disks(&self) {
        let now_ns = self.world.now_ns();
        self.devices().for_each(|device| device.flush(now_ns));
    }

    /// Kills a node and takes from its disk what is not durable; with a seed some of that survives.
    pub fn cut_power(&self, node: Node, torn: Option<Seed>) -> Cut {
        let (device, now_ns) = (self.device(node), self.world.now_ns());
        let device = device.expect("an object store loses no power");
        self.kill(node);
        let mut lost = Lost::default();
        match &self.hosts[node] {
            Host::Keeper { .. } => {
                let server = self.common.keeper_servers.find(node);
                if let Some(server) = server {
                    server.lose_cache(torn, &mut lost);
                }
            }
            Host::Replica { disk, .. } => {
                let bugs = self.common.deployment.bugs;
                for table in disk.tables.borrow().values() {
                    let torn = torn.map(|seed| seed.child(&table.name));
                    table.lose_power(torn, bugs, now_ns, &mut lost);
                }
            }
            Host::Store(_) => {}
        }
        let (synced, unsynced) = device.marked(torn, now_ns);
        Cut {
            lost,
            synced,
            unsynced,
        }
    }

    /// Returns what a disk meets now.
    pub fn disk_state(&self, node: Node) -> DiskState {
        let device = self.device(node).expect("an object store has no faults");
        let (mut lost, now_ns) = (Lost::default(), self.world.now_ns());
        let mut flips = 0;
        match &self.hosts[node] {
            Host::Replica { disk, .. } => {
                for table in disk.tables.borrow().values() {
                    table.count_cached(now_ns, &mut lost);
                }
                let flipped = disk.flips.borrow();
                flips = flipped.iter().filter(|flip| flip.is_there()).count();
            }
            Host::Keeper { disk, .. } => flips = usize::from(disk.borrow().flipped.is_some()),
            Host::Store(_) => {}
        }
        DiskState {
            hits: device.hits(),
            changes: lost.changes,
            pages: lost.pages,
            flips,
        }
    }

    /// Flips a bit of a file that the seed chooses; `None` if there is no such file.
    pub fn flip_bit(&self, node: Node, wanted: &Wanted, seed: Seed) -> Option<Flipped> {
        match &self.hosts[node] {
            Host::Replica { disk, .. } => {
                let tables = disk.tables.borrow();
                let files = tables.values().flat_map(damage::files);
                let files: Vec<_> = files.filter(|file| wanted.fits(&file.path)).collect();
                drop(tables);
                let at = seed.below(0, files.len().max(1) as u64) as usize;
                let file = files.into_iter().nth(at)?;
                let live = self.live(node, file.table());
                let bugs = self.common.deployment.bugs;
                let (flipped, flip) = flip_part(file, seed, bugs, live.as_deref());
                disk.flips.borrow_mut().push(flip);
                Some(flipped)
            }
            Host::Keeper { disk, .. } if wanted.fits("/zookeeper/version-2/log.1") => {
                let bytes = self.transactions(node);
                let offset = seed.below(1, bytes.len() as u64) as usize;
                let bit = seed.below(2, 8) as u32;
                let disk = &mut *disk.borrow_mut();
                // Entries have no sizes of their own here, so that a place names an entry.
                let entry = disk.log.len() * offset / bytes.len();
                disk.flipped = disk.log.get(entry).map(|txn| txn.zxid);
                let byte = bytes[offset] ^ 1 << bit;
                disk.flipped.map(|_| Flipped {
                    path: "/zookeeper/version-2/log.1".to_owned(),
                    offset,
                    bit,
                    byte,
                    read: byte,
                })
            }
            _ => None,
        }
    }

    /// Returns a table in the current life of its server.
    fn live(&self, node: Node, table: &str) -> Option<Rc<Table>> {
        self.server(node).tables.borrow().get(table).cloned()
    }

    /// Flips every flipped bit of a disk back, unless its file is gone.
    pub fn restore_bits(&self, node: Node) {
        match &self.hosts[node] {
            Host::Replica { disk, .. } => {
                for flip in disk.flips.take() {
                    flip.restore(self.live(node, flip.table()).as_deref());
                }
            }
            Host::Keeper { disk, .. } => disk.borrow_mut().flipped = None,
            Host::Store(_) => {}
        }
    }
}

fn flip_part(
    file: PartFile,
    seed: Seed,
    bugs: Bugs,
    live: Option<&Table>,
) -> (Flipped, damage::Flip) {
    let (path, bytes) = (file.path.clone(), file.bytes());
    let offset = seed.below(1, bytes.len() as u64) as usize;
    let bit = seed.below(2, 8) as u32;
    let byte = bytes[offset] ^ 1 << bit;
    let flip = file.flip(offset, bit, bugs, live);
    let flipped = Flipped {
        path,
        offset,
        bit,
        byte,
        read: flip.read(),
    };
    (flipped, flip)
}
