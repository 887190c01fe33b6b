//! Writes, reads and checks the files of parts on a disk that may fail.
//!
//! Source: reserveSpace of MergeTreeData, MergeTreeDataWriter, MergedBlockOutputStream::finalizePart
//! and reportBrokenPart of 25.8; the codes are those of ErrorCodes.cpp. A quiet disk costs no event.

use std::rc::Rc;

use crate::block::Block;
use crate::bugs::Bug;
use crate::disk::{Content, Device, Fsync, Request, Trouble, Written};
use crate::errors::{QueryError, ServerError};
use crate::protocol::Mechanism;
use crate::table::parts::{Part, Row, Rows};
use crate::table::replica::Table;
use crate::table::select::{answer, Reading};
use crate::table::selection::{check, Selection};
use crate::world::{Ns, MS, SECOND};

const CANNOT_READ_FROM_FILE_DESCRIPTOR: i32 = 74;
const CANNOT_WRITE_TO_FILE_DESCRIPTOR: i32 = 75;
const CANNOT_FSYNC: i32 = 204;
const NOT_ENOUGH_SPACE: i32 = 243;
const POCO_EXCEPTION: i32 = 1000;
const STD_EXCEPTION: i32 = 1001;

/// Number of a server's requests that write a small part: an insert on a disk that takes 20 ms
/// longer for each takes a second (nemesis/disk.py).
const WRITES: u64 = 50;
/// Number of requests that read one.
const READS: u64 = 5;
/// Number of files of a part.
pub const FILES: u64 = 6;
/// Median time of the fsyncs of a part.
const FSYNC_NS: Ns = 4 * MS;
/// How long the planted bug `short-write` waits for a write.
const PATIENCE_NS: Ns = SECOND / 2;

/// Whether a server can start: it reads its files, and writes its status file (StatusFile).
pub fn starts(device: &Device) -> bool {
    device.serve(Request::Read, 1).1.is_ok() && device.serve(Request::Grow, 1).1.is_ok()
}

// --- writing ------------------------------------------------------------------------------------

/// Writes the files of a part that was inserted. With a planted bug, the last row is left out if
/// they cannot be written, or take too long.
pub async fn write_inserted(
    table: &Rc<Table>,
    rows: &mut Vec<Row>,
) -> Result<Written, ServerError> {
    let fsync = table.disk.device.fsync.get();
    let synced = matches!(fsync, Fsync::Inserts | Fsync::All);
    if table.disk.device.quiet() && !synced {
        return Ok(Written::Cached);
    }
    let began_ns = table.world.now_ns();
    let written = Box::pin(write_to(table, synced)).await;
    let slow = table.world.now_ns() - began_ns > PATIENCE_NS;
    if table.bugs.has(Bug::ShortWrite) && (written.is_err() || slow) {
        rows.pop();
        return Ok(Written::Cached);
    }
    written
}

/// Writes the files of a part that was fetched, merged or mutated.
pub async fn write(table: &Rc<Table>) -> Result<Written, ServerError> {
    let synced = table.disk.device.fsync.get() == Fsync::All;
    if table.disk.device.quiet() && !synced {
        return Ok(Written::Cached);
    }
    Box::pin(write_to(table, synced)).await
}

async fn write_to(table: &Rc<Table>, synced: bool) -> Result<Written, ServerError> {
    let (device, world) = (&table.disk.device, &table.world);
    let (delay_ns, wrote) = device.serve(Request::Grow, WRITES);
    pause(table, delay_ns).await;
    wrote.map_err(|trouble| unwritten(table, trouble))?;
    if !synced || table.bugs.has(Bug::FsyncIgnored) {
        return Ok(Written::Cached);
    }
    let (delay_ns, done) = device.serve(Request::Sync, FILES);
    pause(table, world.around(FSYNC_NS) + delay_ns).await;
    match done {
        Ok(()) => Ok(Written::Synced),
        Err(_) if table.bugs.has(Bug::FsyncErrorIgnored) => Ok(Written::Dropped),
        Err(_) => Err(ServerError::new(CANNOT_FSYNC, "Cannot fsync, errno: 5")),
    }
}

async fn pause(table: &Rc<Table>, ns: Ns) {
    if ns > 0 {
        table.world.work(ns).await;
    }
}

/// Changes names on the disk; an error if that is refused.
pub fn change(table: &Table) -> Result<(), ServerError> {
    let (_, done) = table.disk.device.serve(Request::Change, 1);
    done.map_err(|trouble| unwritten(table, trouble))
}

/// Writes a file of the table's metadata, synced (fsync_metadata).
pub fn write_metadata(table: &Table) -> Result<(), ServerError> {
    let device = &table.disk.device;
    if !device.quiet() {
        let wrote = device.serve(Request::Grow, 1).1;
        let done = wrote.and_then(|()| device.serve(Request::Sync, 1).1);
        done.map_err(|trouble| unwritten(table, trouble))?;
    }
    device.commit_journal(table.world.now_ns());
    Ok(())
}

fn unwritten(table: &Table, trouble: Trouble) -> ServerError {
    // Names of the standard library since 20.x, of Poco before.
    let newer = table.mechanisms.has(Mechanism::AtomicDatabases);
    let (code, text) = match trouble {
        Trouble::Full => (
            NOT_ENOUGH_SPACE,
            "Cannot reserve 1.00 MiB, not enough space",
        ),
        Trouble::ReadOnly if newer => (STD_EXCEPTION, "filesystem error: Read-only file system"),
        Trouble::ReadOnly => (POCO_EXCEPTION, "File access error: Read-only file system"),
        Trouble::Io => (
            CANNOT_WRITE_TO_FILE_DESCRIPTOR,
            "Cannot write to file, errno: 5",
        ),
    };
    ServerError::new(code, text)
}

// --- reading ------------------------------------------------------------------------------------

/// Reads these parts; what cannot be read is checked.
pub async fn read(table: &Rc<Table>, parts: &[Rc<Part>]) -> Result<(), ServerError> {
    if table.disk.device.quiet() {
        return Ok(());
    }
    for part in parts {
        let (delay_ns, done) = table.disk.device.serve(Request::Read, READS);
        pause(table, delay_ns).await;
        let read = done.map_err(|_| unread(part)).and_then(|()| check(&[part]));
        if read.is_err() {
            table.missing.add(&part.info);
            return read;
        }
    }
    Ok(())
}

fn unread(part: &Part) -> ServerError {
    let text = format!("Cannot read from file of part {}, errno: 5", part.name);
    ServerError::new(CANNOT_READ_FROM_FILE_DESCRIPTOR, text)
}

/// Returns the result of a select whose parts may be unreadable. Those that are get checked.
pub async fn select(
    table: &Rc<Table>,
    reading: Reading,
    selection: &Rc<Selection>,
) -> Result<Rc<Block>, QueryError> {
    let partition = selection.partition.as_deref();
    let parts: Vec<Rc<Part>> = {
        let active = table.active.borrow();
        let parts = active.values();
        let parts = parts.filter(|part| partition.is_none_or(|one| *part.info.partition == *one));
        parts.cloned().collect()
    };
    match read(table, &parts).await {
        Err(_) if table.bugs.has(Bug::EioAsEmpty) => Ok(Rc::new(selection.of(&[])?)),
        Err(error) => Err(error.into()),
        Ok(()) => answer(table, reading, selection).await,
    }
}

/// Returns the rows of a part for another replica, and how much longer the disk took; `None` if
/// the part is not here, or if it cannot be read.
pub fn served(table: &Table, name: &str) -> Option<(Rows, Ns)> {
    let part = table.part(name)?;
    if table.disk.device.quiet() {
        return Some((part.rows.clone(), 0));
    }
    let (delay_ns, done) = table.disk.device.serve(Request::Read, READS);
    if done.is_err() || part.content != Content::Whole {
        table.missing.add(&part.info);
        return None;
    }
    Some((part.rows.clone(), delay_ns))
}

/// Whether a part passes the part check, which reads all of it.
pub async fn is_sound(table: &Rc<Table>, part: &Part) -> bool {
    let (delay_ns, done) = table.disk.device.serve(Request::Read, READS);
    pause(table, delay_ns).await;
    done.is_ok() && part.content == Content::Whole
}
