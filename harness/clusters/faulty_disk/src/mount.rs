//! The disk as a FUSE file system.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    FileAttr, FileType, Filesystem, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request as FuseRequest, Session, SessionACL,
    TimeOrNow,
};
use nix::mount::{mount, MsFlags};

use crate::disk::{place, Disk, CAPACITY};
use crate::faults::{Decision, Faults, Request};
use crate::tree::{Change, Content, Ino, Kind, Node, PAGE, ROOT};

/// Time for which the kernel may use what it knows of names and attributes.
pub const CACHED: Duration = Duration::from_millis(100);
/// Name in the root directory of the file of probes.
pub const PROBE: &str = ".probe";
/// Names in the root directory of the files that show what a power cut lost. No fault strikes them.
pub const MARKS: [&str; 2] = [".synced", ".unsynced"];

/// The disk and the faults in force.
pub struct State {
    pub disk: Disk,
    pub faults: Faults,
}

pub type Shared = Arc<Mutex<State>>;

struct Mounted(Shared);

/// Mount the disk and serve it until it is unmounted, in a thread of its own.
pub fn serve(state: Shared, at: &Path) -> io::Result<thread::JoinHandle<io::Result<()>>> {
    let device = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
        device.as_raw_fd()
    );
    let kind = Some("fuse.faulty-disk");
    mount(
        Some("faulty-disk"),
        at,
        kind,
        MsFlags::MS_NOATIME,
        Some(options.as_str()),
    )?;
    let mut session = Session::from_fd(Mounted(state), OwnedFd::from(device), SessionACL::All);
    Ok(thread::spawn(move || session.run()))
}

/// Call `answer` after a delay, without holding up other requests.
fn after(delay: Duration, answer: impl FnOnce() + Send + 'static) {
    if delay.is_zero() {
        answer();
    } else {
        thread::spawn(move || {
            thread::sleep(delay);
            answer();
        });
    }
}

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
    fn admit(&mut self, request: Request, ino: Ino) -> Result<Duration, i32> {
        if MARKS
            .iter()
            .any(|name| self.disk.resolve(name) == Some(ino))
        {
            return Ok(Duration::ZERO);
        }
        let probe = self.disk.resolve(PROBE) == Some(ino);
        match self.faults.decide(request, probe) {
            Decision::Execute(delay) => Ok(delay),
            Decision::Fail(error) => Err(error),
            Decision::FailSync => {
                self.disk.fail_fsync(ino);
                Err(libc::EIO)
            }
        }
    }

    fn attributes(&self, ino: Ino) -> Result<FileAttr, i32> {
        self.disk
            .node(ino)
            .map(|node| attributes(ino, node))
            .ok_or(libc::ENOENT)
    }

    fn look_up(&self, parent: Ino, name: &OsStr) -> Result<FileAttr, i32> {
        self.disk
            .find(parent, name)
            .ok_or(libc::ENOENT)
            .and_then(|ino| self.attributes(ino))
    }

    /// Create a node that has no name yet.
    fn make(&mut self, parent: Ino, name: &OsStr, node: Node) -> Result<(Duration, FileAttr), i32> {
        let mark = parent == ROOT && MARKS.iter().any(|mark| name == OsStr::new(mark));
        let delay = match self.faults.decide(Request::Grow, false) {
            Decision::Execute(delay) => delay,
            _ if mark => Duration::ZERO,
            Decision::Fail(error) => return Err(error),
            Decision::FailSync => unreachable!("a creation is no fsync"),
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

    fn remove(&mut self, parent: Ino, name: &OsStr, directory: bool) -> Result<(), i32> {
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

    fn rename(&mut self, from: (Ino, &OsStr), to: (Ino, &OsStr), flags: u32) -> Result<(), i32> {
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

    fn link(&mut self, ino: Ino, parent: Ino, name: &OsStr) -> Result<FileAttr, i32> {
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

    fn write(&mut self, ino: Ino, offset: i64, data: &[u8]) -> Result<Duration, i32> {
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

    fn resize(&mut self, ino: Ino, size: u64) -> Result<(), i32> {
        self.admit(Request::Change, ino)?;
        self.disk.change(Change::Resize { ino, size });
        Ok(())
    }

    fn sync(&mut self, ino: Ino) -> Result<Duration, i32> {
        let delay = self.admit(Request::Sync, ino)?;
        self.disk.fsync(ino);
        Ok(delay)
    }
}

impl Mounted {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("no request panics")
    }
}

macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $ok:expr) => {
        match $result {
            Ok($value) => $ok,
            Err(error) => $reply.error(error),
        }
    };
}

impl Filesystem for Mounted {
    fn lookup(&mut self, _: &FuseRequest<'_>, parent: u64, name: &OsStr, reply: ReplyEntry) {
        let found = self.state().look_up(parent, name);
        answer!(reply, found, attributes => reply.entry(&CACHED, &attributes, 0));
    }

    fn getattr(&mut self, _: &FuseRequest<'_>, ino: u64, _: Option<u64>, reply: ReplyAttr) {
        let found = self.state().attributes(ino);
        answer!(reply, found, attributes => reply.attr(&CACHED, &attributes));
    }

    fn setattr(
        &mut self,
        _: &FuseRequest<'_>,
        ino: u64,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<u64>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<u32>,
        reply: ReplyAttr,
    ) {
        let mut state = self.state();
        let mut done = size.map_or(Ok(()), |size| state.resize(ino, size));
        if done.is_ok() && (mode.is_some() || uid.is_some() || gid.is_some()) {
            done = state.admit(Request::Change, ino).map(|_| ());
            if done.is_ok() {
                state.disk.change(Change::Attributes {
                    ino,
                    mode,
                    uid,
                    gid,
                });
            }
        }
        let found = done.and_then(|()| state.attributes(ino));
        answer!(reply, found, attributes => reply.attr(&CACHED, &attributes));
    }

    fn readlink(&mut self, _: &FuseRequest<'_>, ino: u64, reply: ReplyData) {
        match self.state().disk.node(ino).map(|node| &node.kind) {
            Some(Kind::Symlink(target)) => reply.data(target.as_bytes()),
            _ => reply.error(libc::EINVAL),
        }
    }

    fn mkdir(
        &mut self,
        request: &FuseRequest<'_>,
        parent: u64,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let kind = Kind::Directory(std::collections::BTreeMap::new());
        let node = Node::new(kind, mode & !umask, request.uid(), request.gid());
        let made = self.state().make(parent, name, node);
        answer!(reply, made, (delay, attributes) => {
            after(delay, move || reply.entry(&CACHED, &attributes, 0));
        });
    }

    fn symlink(
        &mut self,
        request: &FuseRequest<'_>,
        parent: u64,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let kind = Kind::Symlink(target.as_os_str().to_owned());
        let node = Node::new(kind, 0o777, request.uid(), request.gid());
        let made = self.state().make(parent, name, node);
        answer!(reply, made, (delay, attributes) => {
            after(delay, move || reply.entry(&CACHED, &attributes, 0));
        });
    }

    fn create(
        &mut self,
        request: &FuseRequest<'_>,
        parent: u64,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let kind = Kind::File(Content::default());
        let node = Node::new(kind, mode & !umask, request.uid(), request.gid());
        let mut state = self.state();
        let made = state.make(parent, name, node);
        answer!(reply, made, (delay, attributes) => {
            state.disk.open(attributes.ino);
            after(delay, move || reply.created(&CACHED, &attributes, 0, 0, 0));
        });
    }

    fn unlink(&mut self, _: &FuseRequest<'_>, parent: u64, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.state().remove(parent, name, false), () => reply.ok());
    }

    fn rmdir(&mut self, _: &FuseRequest<'_>, parent: u64, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.state().remove(parent, name, true), () => reply.ok());
    }

    fn rename(
        &mut self,
        _: &FuseRequest<'_>,
        parent: u64,
        name: &OsStr,
        new_parent: u64,
        new_name: &OsStr,
        flags: u32,
        reply: ReplyEmpty,
    ) {
        let done = self
            .state()
            .rename((parent, name), (new_parent, new_name), flags);
        answer!(reply, done, () => reply.ok());
    }

    fn link(
        &mut self,
        _: &FuseRequest<'_>,
        ino: u64,
        parent: u64,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let made = self.state().link(ino, parent, name);
        answer!(reply, made, attributes => reply.entry(&CACHED, &attributes, 0));
    }

    fn open(&mut self, _: &FuseRequest<'_>, ino: u64, _: i32, reply: ReplyOpen) {
        let mut state = self.state();
        if state.disk.node(ino).is_none() {
            return reply.error(libc::ENOENT);
        }
        state.disk.open(ino);
        reply.opened(0, 0);
    }

    fn release(
        &mut self,
        _: &FuseRequest<'_>,
        ino: u64,
        _: u64,
        _: i32,
        _: Option<u64>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.state().disk.close(ino);
        reply.ok();
    }

    fn read(
        &mut self,
        _: &FuseRequest<'_>,
        ino: u64,
        _: u64,
        offset: i64,
        size: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyData,
    ) {
        let mut state = self.state();
        let delay = match state.admit(Request::Read, ino) {
            Ok(delay) => delay,
            Err(error) => return reply.error(error),
        };
        let Some(content) = state.disk.node(ino).and_then(Node::content) else {
            return reply.error(libc::EIO);
        };
        let data = content.read(offset.max(0) as u64, size as usize);
        drop(state);
        after(delay, move || reply.data(&data));
    }

    fn write(
        &mut self,
        _: &FuseRequest<'_>,
        ino: u64,
        _: u64,
        offset: i64,
        data: &[u8],
        _: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyWrite,
    ) {
        let length = data.len() as u32;
        let done = self.state().write(ino, offset, data);
        answer!(reply, done, delay => after(delay, move || reply.written(length)));
    }

    fn flush(&mut self, _: &FuseRequest<'_>, _: u64, _: u64, _: u64, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&mut self, _: &FuseRequest<'_>, ino: u64, _: u64, _: bool, reply: ReplyEmpty) {
        answer!(reply, self.state().sync(ino), delay => after(delay, move || reply.ok()));
    }

    fn fsyncdir(&mut self, _: &FuseRequest<'_>, ino: u64, _: u64, _: bool, reply: ReplyEmpty) {
        answer!(reply, self.state().sync(ino), delay => after(delay, move || reply.ok()));
    }

    fn readdir(
        &mut self,
        _: &FuseRequest<'_>,
        ino: u64,
        _: u64,
        offset: i64,
        mut reply: ReplyDirectory,
    ) {
        let state = self.state();
        let Some(entries) = state.disk.node(ino).and_then(Node::entries) else {
            return reply.error(libc::ENOTDIR);
        };
        // The position of an entry follows from its node's number, which does not change when other
        // entries go; the lowest bits count the names of one node.
        let mut listed: Vec<_> = entries.iter().map(|(name, ino)| (*ino, name)).collect();
        listed.sort();
        let (mut last, mut names) = (0, 0);
        for (child, name) in listed {
            names = if child == last { names + 1 } else { 0 };
            last = child;
            let position = (child << 8 | names) as i64;
            if position <= offset {
                continue;
            }
            let kind = match state.disk.node(child).map(|node| &node.kind) {
                Some(Kind::Directory(_)) => FileType::Directory,
                Some(Kind::Symlink(_)) => FileType::Symlink,
                _ => FileType::RegularFile,
            };
            if reply.add(child, position, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&mut self, _: &FuseRequest<'_>, _: u64, reply: ReplyStatfs) {
        let state = self.state();
        let free = if state.faults.full() {
            0
        } else {
            state.disk.free() / PAGE as u64
        };
        let total = CAPACITY / PAGE as u64;
        reply.statfs(
            total,
            free,
            free,
            1 << 20,
            1 << 20,
            PAGE as u32,
            255,
            PAGE as u32,
        );
    }
}
