//! All objects of a history, on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use rustc_hash::FxHashMap;

use crate::models::{bag, counter, fifo, general, log, log_order, mutex, queue, text};
use crate::order::{Consistency, Timing, NEVER};
use crate::register::{self, Names, Plains};
use crate::request::Request;
use crate::rows::{BadRow, Datum, Rows};
use crate::set;
use crate::verdict::{Status, Verdict};

/// The models by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Set,
    Register,
    CasRegister,
    KeyValue,
    AppendLog,
    Counter,
    Queue,
    FifoQueue,
    Mutex,
}

impl Kind {
    pub const NAMES: [(&'static str, Kind); 9] = [
        ("set", Kind::Set),
        ("register", Kind::Register),
        ("cas-register", Kind::CasRegister),
        ("key-value", Kind::KeyValue),
        ("append-log", Kind::AppendLog),
        ("counter", Kind::Counter),
        ("queue", Kind::Queue),
        ("fifo-queue", Kind::FifoQueue),
        ("mutex", Kind::Mutex),
    ];

    pub fn named(name: &str) -> Option<Kind> {
        let found = Self::NAMES.iter().find(|(n, _)| *n == name);
        found.map(|&(_, kind)| kind)
    }

    /// What the operations of a register are called.
    fn names(self) -> Option<Names> {
        match self {
            Kind::Register => Some(Names::Register),
            Kind::CasRegister => Some(Names::CasRegister),
            Kind::KeyValue => Some(Names::KeyValue),
            _ => None,
        }
    }

    /// The initial value where none is given.
    pub fn initial(self) -> Datum<'static> {
        match self {
            Kind::KeyValue => Datum::Text(""),
            Kind::Counter => Datum::Int(0),
            _ => Datum::Null,
        }
    }
}

/// Decides one object. Where an order is asked for that only the search can give, and the search
/// gives up, the verdict is still that of the faster procedure.
fn decide(
    request: &Request,
    decide_as_asked: impl Fn(&Request) -> Result<Verdict, BadRow>,
) -> Result<Verdict, BadRow> {
    let found = decide_as_asked(request)?;
    if found.status != Status::Unknown || !request.linearization {
        return Ok(found);
    }
    let request = Request {
        linearization: false,
        ..*request
    };
    decide_as_asked(&request)
}

fn decide_as_asked(
    rows: &dyn Rows,
    object: &[u32],
    kind: Kind,
    initial: &Datum,
    request: &Request,
) -> Result<Verdict, BadRow> {
    let process = |row: u32| rows.timing(row as usize).process;
    let appends = || object.iter().any(|&row| rows.f(row as usize) == "append");
    match kind {
        Kind::Set => {
            let history = set::parse(rows, object)?;
            let mut verdict = set::decide(&history, request.consistency);
            if request.linearization {
                (verdict.order, verdict.stuck) = set::linearization(&history, request.consistency);
            }
            Ok(verdict)
        }
        Kind::KeyValue if appends() => {
            let (mut model, ops) = text::parse(rows, object, initial)?;
            Ok(general::decide(&mut model, &ops, request, process))
        }
        Kind::Register | Kind::CasRegister | Kind::KeyValue => {
            let names = kind.names().expect("a register");
            let parsed = register::parse(rows, object, names, initial)?;
            Ok(register::decide(&parsed, request, process))
        }
        Kind::AppendLog => {
            let ops = log::parse(rows, object)?;
            if !request.linearization {
                if let Some(verdict) = log_order::decide(&ops, request.consistency) {
                    return Ok(verdict);
                }
            }
            let (mut model, ops) = log::numbered(&ops);
            Ok(general::decide(&mut model, &ops, request, process))
        }
        Kind::Counter => {
            let (mut model, ops) = counter::parse(rows, object, initial)?;
            Ok(general::decide(&mut model, &ops, request, process))
        }
        Kind::Queue | Kind::FifoQueue => {
            let (mut model, ops) = queue::parse(rows, object, kind == Kind::FifoQueue)?;
            let linearizable = request.consistency == Consistency::Linearizable;
            if kind == Kind::FifoQueue && linearizable && !request.linearization {
                if let Some(verdict) = fifo::decide(&model, &ops) {
                    return Ok(verdict);
                }
            }
            if kind == Kind::Queue && linearizable && !request.linearization {
                if let Some(verdict) = bag::decide(&mut model, &ops, request) {
                    return Ok(verdict);
                }
            }
            Ok(general::decide(&mut model, &ops, request, process))
        }
        Kind::Mutex => {
            let (mut model, ops) = mutex::parse(rows, object)?;
            Ok(general::decide(&mut model, &ops, request, process))
        }
    }
}

/// Decides every object (each one its rows) on the next free of `threads` threads. An `Err` is the first bad row.
pub fn decide_all(
    rows: &dyn Rows,
    objects: &[Vec<u32>],
    kind: Kind,
    initial: &Datum,
    request: &Request,
    threads: usize,
) -> Result<Vec<Verdict>, BadRow> {
    let names = kind.names().filter(|_| objects.len() > 1);
    let plains = names.and_then(|names| Plains::new(rows, objects, names));
    let process = |row: u32| rows.timing(row as usize).process;
    let done = in_parallel(objects, threads, |i, object| {
        decide(request, |request| match &plains {
            Some(plains) => Ok(register::decide(
                &plains.parsed(i, initial),
                request,
                process,
            )),
            None => decide_as_asked(rows, object, kind, initial, request),
        })
    });
    let bad = done.iter().filter_map(|found| found.as_ref().err());
    if let Some(bad) = bad.min_by_key(|bad| bad.row) {
        return Err(bad.clone());
    }
    Ok(done.into_iter().flatten().collect())
}

/// What `decide` says of every object, in their order. Few operations are not worth a thread.
pub fn in_parallel<T: Send>(
    objects: &[Vec<u32>],
    threads: usize,
    decide: impl Fn(usize, &[u32]) -> T + Sync,
) -> Vec<T> {
    let operations: usize = objects.iter().map(Vec::len).sum();
    let threads = threads.min(objects.len()).min(1 + operations / 512);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(objects.len()));
    let work = || {
        let mut mine = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(object) = objects.get(i) else {
                break;
            };
            mine.push((i, decide(i, object)));
        }
        done.lock().expect("no thread panicked").extend(mine);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().expect("no thread panicked");
    done.sort_by_key(|&(i, _)| i);
    done.into_iter().map(|(_, found)| found).collect()
}

/// Every row's times make sense, and a process has one call in flight; one that never returned
/// stays in flight for good. O(n) where rows are in order of call, else O(n log n).
pub fn validate(count: usize, timing: impl Fn(usize) -> Timing) -> Result<(), BadRow> {
    let mut before = i64::MIN;
    let mut flight = InFlight::default();
    let mut fits = true;
    for row in 0..count {
        let t = timing(row);
        if t.ret < t.call {
            let text = format!("ret is {}, before its call at {}", t.ret, t.call);
            return Err(BadRow { row, text });
        }
        fits = fits && before <= t.call && flight.take(&t).is_ok();
        before = t.call;
    }
    if fits {
        return Ok(());
    }
    let mut timings: Vec<Timing> = (0..count).map(timing).collect();
    timings.sort_unstable_by_key(|t| (t.call, t.ret, t.row));
    let mut flight = InFlight::default();
    timings.iter().try_for_each(|t| flight.take(t))
}

/// By process: when its last call returned, and its row.
#[derive(Default)]
struct InFlight {
    /// Of processes with small numbers.
    few: Vec<Option<(i64, usize)>>,
    others: FxHashMap<i64, (i64, usize)>,
}

/// Processes below this have a place of their own.
const FEW: i64 = 1 << 12;

impl InFlight {
    /// Takes calls in order of (call, ret).
    fn take(&mut self, t: &Timing) -> Result<(), BadRow> {
        let before = if (0..FEW).contains(&t.process) {
            let process = t.process as usize;
            if process >= self.few.len() {
                self.few.resize(process + 1, None);
            }
            self.few[process].replace((t.ret, t.row))
        } else {
            self.others.insert(t.process, (t.ret, t.row))
        };
        match before {
            Some((ret, earlier)) if t.call < ret => {
                let for_good = if ret == NEVER {
                    " for good (it never returned; give the process a new number after that)"
                } else {
                    ""
                };
                Err(BadRow {
                    row: t.row,
                    text: format!(
                        "call at {} while row {earlier} of the same process {} is in \
                         flight{for_good}",
                        t.call, t.process
                    ),
                })
            }
            _ => Ok(()),
        }
    }
}
