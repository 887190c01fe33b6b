//! Probes: what a program meets on the disk, as the kernel answers it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{json, Value};

use crate::operations::{MARKS, PROBE};

const CONTENT: &[u8] = b"marked";

/// Create the file of probes, so that each of their requests can be made while others fail.
pub fn prepare(root: &Path) -> io::Result<()> {
    let mut file = File::create(root.join(PROBE))?;
    file.write_all(&[7; crate::tree::PAGE])?;
    file.sync_all()
}

/// Write, sync, and read a file. Return the error of each, "" if there was none, and how long it
/// took, in milliseconds.
pub fn probe(root: &Path) -> Value {
    let path = root.join(PROBE);
    let write = timed(|| {
        let mut file = OpenOptions::new().append(true).open(&path)?;
        // A whole page, so that it needs space.
        file.write_all(&[7; crate::tree::PAGE])
    });
    let sync = timed(|| File::open(&path).and_then(|file| file.sync_all()));
    let read = timed(|| File::open(&path).and_then(|mut file| file.read_exact(&mut [0; 64])));
    // A disk that is read-only keeps what an earlier probe wrote.
    OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(crate::tree::PAGE as u64))
        .ok();
    json!({ "write": write, "sync": sync, "read": read })
}

/// Write two files of which only one is synced. After a power cut, only that one has its content.
pub fn mark(root: &Path) -> io::Result<()> {
    let (kept, lost) = marks(root);
    let mut file = File::create(&kept)?;
    file.write_all(CONTENT)?;
    file.sync_all()?;
    File::create(&lost)?.write_all(CONTENT)
}

/// Return which of the marked files have their content, and remove them.
///
/// The file that was not synced may exist without it: another file's fsync commits its creation.
pub fn marked(root: &Path) -> Value {
    let (kept, lost) = marks(root);
    let whole = |path: &Path| std::fs::read(path).is_ok_and(|content| content == CONTENT);
    let found = json!({ "synced": whole(&kept), "unsynced": whole(&lost) });
    for path in [kept, lost] {
        std::fs::remove_file(path).ok();
    }
    found
}

fn marks(root: &Path) -> (PathBuf, PathBuf) {
    (root.join(MARKS[0]), root.join(MARKS[1]))
}

fn timed(action: impl FnOnce() -> io::Result<()>) -> Value {
    let began = Instant::now();
    let error = match action() {
        Ok(()) => String::new(),
        Err(error) => match error.raw_os_error() {
            Some(libc::EIO) => "EIO".to_owned(),
            Some(libc::ENOSPC) => "ENOSPC".to_owned(),
            Some(libc::EROFS) => "EROFS".to_owned(),
            _ => error.to_string(),
        },
    };
    json!({ "error": error, "ms": began.elapsed().as_millis() as u64 })
}
