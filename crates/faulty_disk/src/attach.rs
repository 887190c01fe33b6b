//! The disk put into the container of a server, which itself needs no privilege.
//!
//! The server's container starts with `enter` in place of its program. `enter` hands the disk its
//! mount namespace over a socket, which both see because they share a network namespace. The disk
//! mounts itself there, and `enter` becomes the server's program. Nothing is mounted outside of the
//! two containers, so that nothing outlives them.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::sched::{setns, unshare, CloneFlags};
use nix::sys::socket::{recvmsg, sendmsg, ControlMessage, ControlMessageOwned, MsgFlags};

use crate::operations::Shared;
use crate::tree::{Change, Kind, Node};

const ADDRESS: &str = "harness-faulty-disk";
/// Time that a server waits for its disk.
const WAIT: Duration = Duration::from_secs(60);
const OPEN_TREE_CLONE: libc::c_uint = 1;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;

fn address() -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(ADDRESS)
}

/// Wait for the disk, have it mounted at these paths, and become the program.
pub fn enter(paths: &[String], program: &[String]) -> io::Error {
    match ask(paths) {
        Ok(()) => Command::new(&program[0]).args(&program[1..]).exec(),
        Err(error) => error,
    }
}

fn ask(paths: &[String]) -> io::Result<()> {
    let began = Instant::now();
    let mut stream = loop {
        match UnixStream::connect_addr(&address()?) {
            Ok(stream) => break stream,
            Err(error) if began.elapsed() > WAIT => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    };
    let namespace = File::open("/proc/self/ns/mnt")?;
    let text = paths.join("\n") + "\n\n";
    let rights = [namespace.as_raw_fd()];
    let control = [ControlMessage::ScmRights(&rights)];
    let parts = [IoSlice::new(text.as_bytes())];
    let sent = sendmsg::<()>(
        stream.as_raw_fd(),
        &parts,
        &control,
        MsgFlags::empty(),
        None,
    )?;
    assert_eq!(sent, text.len(), "a socket takes a few short paths at once");
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    if said == "mounted" {
        Ok(())
    } else {
        Err(io::Error::other(said))
    }
}

/// Serve `enter` for ever, in a thread of its own. `root` is where the disk is mounted here.
pub fn listen(state: Shared, root: PathBuf) -> io::Result<()> {
    let listener = UnixListener::bind_addr(&address()?)?;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (state, root) = (state.clone(), root.clone());
            // A thread for each: a mount namespace is entered by threads alone.
            thread::spawn(move || {
                let said = match receive(&stream)
                    .and_then(|(namespace, paths)| attach(Some(namespace), &paths, &root, &state))
                {
                    Ok(()) => "mounted".to_owned(),
                    Err(error) => format!("the disk cannot be mounted: {error}"),
                };
                // The server may have been killed meanwhile.
                stream.write_all(said.as_bytes()).ok();
            });
        }
    });
    Ok(())
}

fn receive(stream: &UnixStream) -> io::Result<(OwnedFd, Vec<String>)> {
    let mut bytes = [0; 4096];
    let mut space = cmsg_space!([std::os::fd::RawFd; 1]);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let got = recvmsg::<()>(
        stream.as_raw_fd(),
        &mut parts,
        Some(&mut space),
        MsgFlags::MSG_CMSG_CLOEXEC,
    )?;
    let mut namespace = None;
    for message in got.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = message {
            // SAFETY: the kernel just gave us this descriptor, and nothing else has it.
            namespace = descriptors
                .first()
                .map(|raw| unsafe { OwnedFd::from_raw_fd(*raw) });
        }
    }
    let length = got.bytes;
    let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
    let namespace =
        namespace.ok_or_else(|| io::Error::other("no namespace came with the paths"))?;
    Ok((
        namespace,
        text.lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect(),
    ))
}

/// Mount the disk's directories of these paths at the same paths of a mount namespace; without one,
/// of this thread's. The first time a directory takes the owner and the mode of what it covers.
///
/// The calling thread stays in that namespace.
fn attach(
    namespace: Option<OwnedFd>,
    paths: &[String],
    root: &Path,
    state: &Shared,
) -> io::Result<()> {
    let trees: Vec<OwnedFd> = paths
        .iter()
        .map(|path| open_tree(&below(root, path)))
        .collect::<io::Result<_>>()?;
    if let Some(namespace) = namespace {
        unshare(CloneFlags::CLONE_FS)?;
        setns(namespace.as_fd(), CloneFlags::CLONE_NEWNS)?;
    }
    for (path, tree) in paths.iter().zip(trees) {
        let covered = std::fs::metadata(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
        adopt(state, path, &covered);
        move_mount(&tree, path)?;
    }
    Ok(())
}

/// Create the directories of these paths on the disk, and mount them below `shown` here as well.
pub fn show(state: &Shared, paths: &[String], root: &Path, shown: &Path) -> io::Result<()> {
    for path in paths {
        make_directories(state, path);
        let at = below(shown, path);
        std::fs::create_dir_all(&at)?;
        move_mount(&open_tree(&below(root, path))?, &at.to_string_lossy())?;
    }
    Ok(())
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn make_directories(state: &Shared, path: &str) {
    let mut state = state.lock().expect("no request panics");
    let mut at = crate::tree::ROOT;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let name = std::ffi::OsStr::new(name);
        at = state.disk.find(at, name).unwrap_or_else(|| {
            let kind = Kind::Directory(std::collections::BTreeMap::new());
            // The mode 0 says that the directory has covered nothing yet.
            state
                .disk
                .make(crate::disk::place(at, name), Node::new(kind, 0, 0, 0))
        });
    }
    state.disk.sync();
}

fn adopt(state: &Shared, path: &str, covered: &std::fs::Metadata) {
    let mut state = state.lock().expect("no request panics");
    let Some(ino) = state.disk.resolve(path) else {
        return;
    };
    if state.disk.node(ino).is_some_and(|node| node.mode == 0) {
        state.disk.change(Change::Attributes {
            ino,
            mode: Some(covered.mode()),
            uid: Some(covered.uid()),
            gid: Some(covered.gid()),
        });
        state.disk.sync();
    }
}

fn open_tree(path: &Path) -> io::Result<OwnedFd> {
    let name = CString::new(path.to_string_lossy().as_bytes())?;
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC as libc::c_uint;
    // SAFETY: the path is a string that ends with NUL and outlives the call.
    let raw = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, name.as_ptr(), flags) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw as i32) })
}

fn move_mount(tree: &OwnedFd, to: &str) -> io::Result<()> {
    let target = CString::new(to)?;
    // SAFETY: both paths are strings that end with NUL and outlive the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            target.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    if done < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Mount the disk in a new mount namespace, as in a server's container.
pub fn check(state: &Shared, root: &Path) -> io::Result<()> {
    let path = "/mnt".to_owned();
    make_directories(state, &path);
    let namespace = thread::spawn(|| -> io::Result<OwnedFd> {
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)?;
        Ok(File::open("/proc/thread-self/ns/mnt")?.into())
    });
    let namespace = namespace.join().expect("it does not panic")?;
    let (state, root) = (state.clone(), root.to_owned());
    thread::spawn(move || attach(Some(namespace), &[path], &root, &state))
        .join()
        .expect("it does not panic")
}
