//! Commands of the harness to a running disk, one JSON object each, and their answers.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use serde_json::{json, Value};

use crate::faults::Faults;
use crate::mount::CACHED;
use crate::operations::{Shared, State};
use crate::random::Random;
use crate::tree::{Node, PAGE};

const SOCKET: &str = "/run/faulty-disk.sock";

/// Byte that was flipped.
struct Flip {
    ino: u64,
    offset: u64,
    bit: u8,
    now: u8,
}

#[derive(Default)]
struct Session {
    cuts: u64,
    flips: Vec<Flip>,
}

/// Answer commands for ever.
pub fn listen(state: &Shared) -> io::Result<()> {
    let listener = UnixListener::bind(SOCKET)?;
    let mut session = Session::default();
    for stream in listener.incoming() {
        let mut stream = stream?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        let answer = match serde_json::from_str(&line) {
            Ok(command) => session.execute(state, &command),
            Err(error) => Err(error.to_string()),
        };
        let answer = answer.unwrap_or_else(|error| json!({ "error": error }));
        // A harness that was killed reads no answer.
        writeln!(stream, "{answer}").ok();
    }
    Ok(())
}

/// Send a command to the disk of this pod and return its answer.
pub fn tell(command: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(SOCKET)?;
    writeln!(stream, "{command}")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}

impl Session {
    fn execute(&mut self, shared: &Shared, command: &Value) -> Result<Value, String> {
        let mut state = shared.lock().expect("no request panics");
        let name = command["name"].as_str().unwrap_or_default();
        match command["do"].as_str().unwrap_or_default() {
            "state" => {}
            "set" => state.faults.set(name, command)?,
            "clear" => state.faults.clear(name),
            "heal" => {
                state.faults = Faults::default();
                self.unflip(&mut state);
            }
            "sync" => state.disk.sync(),
            "cut" => {
                let mut random = command["torn"].as_u64().map(Random);
                let lost = state.disk.cut_power(random.as_mut());
                self.cuts += 1;
                drop(state);
                // Until then the kernel may answer from what it knew of names.
                thread::sleep(CACHED + Duration::from_millis(20));
                return Ok(json!({
                    "changes": lost.changes,
                    "pages": lost.pages,
                    "files": lost.files,
                    "kept": lost.kept,
                }));
            }
            "flip" => return self.flip(&mut state, command),
            "unflip" => return Ok(self.unflip(&mut state)),
            other => return Err(format!("no command {other:?}")),
        }
        let (changes, pages) = state.disk.unsynced();
        Ok(json!({
            "hits": state.faults.hits(),
            "changes": changes,
            "pages": pages,
            "cuts": self.cuts,
            "flips": self.flips.len(),
        }))
    }

    /// Flip a bit of one of the files whose path contains one of these words and ends with one of
    /// these endings.
    fn flip(&mut self, state: &mut State, command: &Value) -> Result<Value, String> {
        let words = |key: &str| -> Vec<String> {
            let listed = command[key].as_array().cloned().unwrap_or_default();
            listed
                .iter()
                .filter_map(|word| word.as_str().map(str::to_owned))
                .collect()
        };
        let (below, endings, without) = (words("below"), words("endings"), words("without"));
        let files: Vec<_> = state
            .disk
            .files()
            .into_iter()
            .filter(|(path, _, _)| below.iter().any(|word| path.contains(word)))
            .filter(|(path, _, _)| endings.iter().any(|ending| matches(path, ending)))
            .filter(|(path, _, _)| !without.iter().any(|word| path.contains(word)))
            .collect();
        if files.is_empty() {
            return Ok(json!({ "file": null }));
        }
        let mut random = Random(command["seed"].as_u64().unwrap_or(0));
        let (path, ino, size) = &files[random.below(files.len())];
        // Padding is of no interest: ZooKeeper allocates its log ahead.
        let content = state
            .disk
            .node(*ino)
            .and_then(Node::content)
            .expect("it is a file");
        let numbers: Vec<u64> = content
            .pages
            .iter()
            .filter(|(_, page)| page.iter().any(|byte| *byte != 0))
            .map(|(number, _)| number * PAGE as u64)
            .collect();
        if numbers.is_empty() {
            return Ok(json!({ "file": null }));
        }
        let start = numbers[random.below(numbers.len())];
        let offset = start + random.below((size - start).min(PAGE as u64) as usize) as u64;
        let bit = random.below(8) as u8;
        let Some(now) = state.disk.flip(*ino, offset, bit) else {
            return Ok(json!({ "file": null }));
        };
        self.flips.push(Flip {
            ino: *ino,
            offset,
            bit,
            now,
        });
        Ok(json!({ "file": path, "offset": offset, "bit": bit, "byte": now }))
    }

    /// Flip every flipped bit back unless its byte was written since, or is gone.
    fn unflip(&mut self, state: &mut State) -> Value {
        let mut restored = 0;
        for flip in self.flips.drain(..).rev() {
            let content = state.disk.node(flip.ino).and_then(|node| node.content());
            if content.is_some_and(|content| content.read(flip.offset, 1) == [flip.now]) {
                restored += u64::from(state.disk.flip(flip.ino, flip.offset, flip.bit).is_some());
            }
        }
        json!({ "restored": restored })
    }
}

/// Return whether a file's name ends as wanted; "log.*" means that it begins so.
fn matches(path: &str, ending: &str) -> bool {
    match ending.strip_suffix('*') {
        Some(beginning) => path
            .rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with(beginning)),
        None => path.ends_with(ending),
    }
}
