//! The disk as a FUSE file system.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    FileType, Filesystem, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request as FuseRequest, Session, SessionACL,
    TimeOrNow,
};
use nix::mount::{mount, MsFlags};

use crate::disk::CAPACITY;
use crate::faults::Request;
use crate::operations::{Shared, State};
use crate::tree::{Change, Content, Kind, Node, PAGE};

/// Time for which the kernel may use what it knows of names and attributes.
pub const CACHED: Duration = Duration::from_millis(100);

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
