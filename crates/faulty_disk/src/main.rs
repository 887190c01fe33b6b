//! A disk that fails as disks fail, below a server's data.
//!
//!   faulty-disk serve PATH…            in the pod: the disk, with a directory for each path of a
//!                                      server's data; shown below /volumes as well
//!   faulty-disk enter PATH… -- PROGRAM in the server's container: wait until the disk is mounted at
//!                                      these paths, then become the program
//!   faulty-disk tell JSON              in the pod: a command to the disk, and its answer
//!   faulty-disk probe | mark | marked  in the pod: what programs meet on the disk
//!   faulty-disk check                  whether this kernel and container allow all that

mod attach;
mod control;
mod disk;
mod faults;
mod mount;
mod operations;
mod probe;
mod random;
mod tree;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use operations::{Shared, State};

/// Where the whole disk is mounted in the pod.
const ROOT: &str = "/disk";
/// Where the pod holds what servers store.
const VOLUMES: &str = "/volumes";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = Path::new(ROOT);
    let done = match words.as_slice() {
        ["serve", ..] => serve(&arguments[1..]),
        ["enter", ..] => match words.iter().position(|word| *word == "--") {
            Some(end) if end + 1 < words.len() => {
                Err(attach::enter(&arguments[1..end], &arguments[end + 1..]))
            }
            _ => Err(io::Error::other("expected PATH… -- PROGRAM")),
        },
        ["tell", command] => control::tell(command).map(|answer| print!("{answer}")),
        ["probe"] => {
            println!("{}", probe::probe(root));
            Ok(())
        }
        ["mark"] => probe::mark(root),
        ["marked"] => {
            println!("{}", probe::marked(root));
            Ok(())
        }
        ["check"] => check(),
        _ => Err(io::Error::other(
            "expected serve, enter, tell, probe, mark, marked or check",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("faulty-disk: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> io::Result<Shared> {
    let state = State {
        disk: disk::Disk::new(),
        faults: faults::Faults::default(),
    };
    let shared = Arc::new(Mutex::new(state));
    std::fs::create_dir_all(ROOT)?;
    let session = mount::serve(shared.clone(), Path::new(ROOT))?;
    thread::spawn(move || {
        let ended = session.join();
        eprintln!("faulty-disk: the mount ended: {ended:?}");
        std::process::exit(1);
    });
    Ok(shared)
}

fn serve(paths: &[String]) -> io::Result<()> {
    let shared = start()?;
    attach::show(&shared, paths, Path::new(ROOT), Path::new(VOLUMES))?;
    probe::prepare(Path::new(ROOT))?;
    attach::listen(shared.clone(), ROOT.into())?;
    let aging = shared.clone();
    thread::spawn(move || loop {
        thread::sleep(Duration::from_millis(500));
        aging
            .lock()
            .expect("no request panics")
            .disk
            .age(Instant::now());
    });
    control::listen(&shared)
}

/// Mount a disk, lose what is not synced, and enter another mount namespace.
fn check() -> io::Result<()> {
    let shared = start().map_err(|error| io::Error::other(format!("mount of FUSE: {error}")))?;
    let root = Path::new(ROOT);
    probe::mark(root)?;
    shared
        .lock()
        .expect("no request panics")
        .disk
        .cut_power(None);
    thread::sleep(mount::CACHED * 2);
    let marked = probe::marked(root);
    if marked["synced"] != true || marked["unsynced"] != false {
        return Err(io::Error::other(format!(
            "after a power cut there is {marked}"
        )));
    }
    attach::check(&shared, root).map_err(|e| io::Error::other(format!("move of a mount: {e}")))?;
    println!("works");
    Ok(())
}
