//! What requests do to the disk, unless a fault strikes them.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuser::{FileAttr, FileType};

use crate::disk::{place, Disk};
use crate::faults::{Decision, Faults, Request};
use crate::tree::{Change, Ino, Kind, Node, PAGE, ROOT};

/// Name in the root directory of the file of probes.
pub const PROBE: &str = ".probe";
/// Directory of a ZooKeeper server's log.
const LOG: &str = "datalog";
/// Names in the root directory of the files that show what a power cut lost. No fault strikes them.
pub const MARKS: [&str; 2] = [".synced", ".unsynced"];

/// The disk and the faults in force.
pub struct State {
    pub disk: Disk,
    pub faults: Faults,
}

pub type Shared = Arc<Mutex<State>>;

fn attributes(ino: Ino, node: &Node) -> FileAttr {
    let (kind, size, pages) = match &node.kind {
        Kind::File(content) => (FileType::RegularFile, content.size, content.pages.len()),
        Kind::Directory(_) => (FileType::Directory, PAGE as u64, 1),
        Kind::Symlink(target) => (FileType::Symlink, target.len() as u64, 0),
    };
    FileAttr {
        ino,
        size,
        blocks: (pages * PAGE / 512) as u64,
        atime: node.modified,
        mtime: node.modified,
        ctime: node.modified,
        crtime: node.modified,
        kind,
        perm: node.mode as u16,
        nlink: node.links,
        uid: node.uid,
        gid: node.gid,
        rdev: 0,
        blksize: PAGE as u32,
        flags: 0,
    }
}

impl State {
    /// Decide about a request: the delay of its answer, or an error.
    pub fn admit(&mut self, request: Request, ino: Ino) -> Result<Duration, i32> {
        if MARKS
            .iter()
            .any(|name| self.disk.resolve(name) == Some(ino))
        {
            return Ok(Duration::ZERO);
        }
        let probe = self.disk.resolve(PROBE) == Some(ino);
        let log = self.of_log(ino);
        match self.faults.decide(request, log, probe) {
            Decision::Execute(delay) => Ok(delay),
            Decision::Fail(error) => Err(error),
            Decision::FailSync => {
                self.disk.fail_fsync(ino);
                Err(libc::EIO)
            }
        }
    }

    /// Return whether a node is of ZooKeeper's log, if a fault asks for it.
    fn of_log(&self, ino: Ino) -> bool {
        self.faults.distinguish_log() && self.disk.is_below(LOG, ino)
    }

    pub fn attributes(&self, ino: Ino) -> Result<FileAttr, i32> {
        self.disk
            .node(ino)
            .map(|node| attributes(ino, node))
            .ok_or(libc::ENOENT)
    }

    pub fn look_up(&self, parent: Ino, name: &OsStr) -> Result<FileAttr, i32> {
        self.disk
            .find(parent, name)
            .ok_or(libc::ENOENT)
            .and_then(|ino| self.attributes(ino))
    }

    /// Create a node that has no name yet.
    pub fn make(
        &mut self,
        parent: Ino,
        name: &OsStr,
        node: Node,
    ) -> Result<(Duration, FileAttr), i32> {
        let mark = parent == ROOT && MARKS.iter().any(|mark| name == OsStr::new(mark));
        let log = self.of_log(parent);
        let delay = if mark {
            Duration::ZERO
        } else {
            match self.faults.decide(Request::Grow, log, false) {
                Decision::Execute(delay) => delay,
                Decision::Fail(error) => return Err(error),
                Decision::FailSync => unreachable!("a creation is no fsync"),
            }
        };
        let entries = self
            .disk
            .node(parent)
            .and_then(Node::entries)
            .ok_or(libc::ENOENT)?;
        if entries.contains_key(name) {
            return Err(libc::EEXIST);
        }
        let ino = self.disk.make(place(parent, name), node);
        Ok((delay, self.attributes(ino)?))
    }

    pub fn remove(&mut self, parent: Ino, name: &OsStr, directory: bool) -> Result<(), i32> {
        let ino = self.disk.find(parent, name).ok_or(libc::ENOENT)?;
        self.admit(Request::Change, ino)?;
        match self.disk.node(ino).and_then(Node::entries) {
            None if directory => return Err(libc::ENOTDIR),
            Some(_) if !directory => return Err(libc::EISDIR),
            Some(entries) if !entries.is_empty() => return Err(libc::ENOTEMPTY),
            _ => {}
        }
        self.disk.change(Change::Remove {
            at: place(parent, name),
        });
        Ok(())
    }

    pub fn rename(
        &mut self,
        from: (Ino, &OsStr),
        to: (Ino, &OsStr),
        flags: u32,
    ) -> Result<(), i32> {
        let ino = self.disk.find(from.0, from.1).ok_or(libc::ENOENT)?;
        self.admit(Request::Change, ino)?;
        let there = self.disk.find(to.0, to.1);
        let (one, other) = (place(from.0, from.1), place(to.0, to.1));
        if flags & libc::RENAME_EXCHANGE != 0 {
            there.ok_or(libc::ENOENT)?;
            self.disk.change(Change::Exchange { one, other });
            return Ok(());
        }
        if let Some(there) = there {
            if flags & libc::RENAME_NOREPLACE != 0 {
                return Err(libc::EEXIST);
            }
            if there == ino {
                return Ok(());
            }
            let old = self.disk.node(there).and_then(Node::entries);
            let moved = self.disk.node(ino).and_then(Node::entries);
            match (moved, old) {
                (Some(_), None) => return Err(libc::ENOTDIR),
                (None, Some(_)) => return Err(libc::EISDIR),
                (_, Some(entries)) if !entries.is_empty() => return Err(libc::ENOTEMPTY),
                _ => {}
            }
        }
        self.disk.change(Change::Rename {
            from: one,
            to: other,
        });
        Ok(())
    }

    pub fn link(&mut self, ino: Ino, parent: Ino, name: &OsStr) -> Result<FileAttr, i32> {
        self.admit(Request::Grow, ino)?;
        if self.disk.find(parent, name).is_some() {
            return Err(libc::EEXIST);
        }
        self.disk.change(Change::Link {
            ino,
            at: place(parent, name),
        });
        self.attributes(ino)
    }

    pub fn write(&mut self, ino: Ino, offset: i64, data: &[u8]) -> Result<Duration, i32> {
        let offset = u64::try_from(offset).map_err(|_| libc::EINVAL)?;
        let fresh = self.disk.missing_pages(ino, offset, data.len());
        let delay = self.admit(
            if fresh > 0 {
                Request::Grow
            } else {
                Request::Write
            },
            ino,
        )?;
        if (fresh * PAGE) as u64 > self.disk.free() {
            return Err(libc::ENOSPC);
        }
        self.disk.write(ino, offset, data);
        Ok(delay)
    }

    pub fn resize(&mut self, ino: Ino, size: u64) -> Result<(), i32> {
        self.admit(Request::Change, ino)?;
        self.disk.change(Change::Resize { ino, size });
        Ok(())
    }

    pub fn sync(&mut self, ino: Ino) -> Result<Duration, i32> {
        let delay = self.admit(Request::Sync, ino)?;
        self.disk.fsync(ino);
        Ok(delay)
    }
}
