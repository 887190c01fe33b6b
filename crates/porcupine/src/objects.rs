//! Decides all objects of a history on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use crate::budget::Budget;
use crate::datum::Datum;
use crate::models::{
    bag, counter, equal_adds, fifo, general, log, log_order, multi_register, mutex, ordered,
    priority, queue, stack, text,
};
use crate::order::Consistency;
use crate::partition::Partition;
use crate::register::{self, Names, Plains};
use crate::rows::{BadRow, Rows};
use crate::search::Op;
use crate::set;
use crate::verdict::{Request, Status, Verdict};

/// The built-in models.
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
    Stack,
    PriorityQueue,
    Deque,
    Mutex,
    MultiRegister,
}

impl Kind {
    pub const NAMES: [(&'static str, Kind); 13] = [
        ("set", Kind::Set),
        ("register", Kind::Register),
        ("cas-register", Kind::CasRegister),
        ("key-value", Kind::KeyValue),
        ("append-log", Kind::AppendLog),
        ("counter", Kind::Counter),
        ("queue", Kind::Queue),
        ("fifo-queue", Kind::FifoQueue),
        ("stack", Kind::Stack),
        ("priority-queue", Kind::PriorityQueue),
        ("deque", Kind::Deque),
        ("mutex", Kind::Mutex),
        ("multi-register", Kind::MultiRegister),
    ];

    pub fn from_name(name: &str) -> Option<Kind> {
        let found = Self::NAMES.iter().find(|(n, _)| *n == name);
        found.map(|&(_, kind)| kind)
    }

    /// Returns how a queue or the like gives its values back.
    fn container(self) -> queue::Kind {
        match self {
            Kind::FifoQueue => queue::FIFO,
            Kind::Stack => queue::STACK,
            Kind::PriorityQueue => queue::PRIORITY,
            Kind::Deque => queue::DEQUE,
            _ => queue::UNORDERED,
        }
    }

    /// Returns the operation names of a register model.
    fn names(self) -> Option<Names> {
        match self {
            Kind::Register => Some(Names::Register),
            Kind::CasRegister => Some(Names::CasRegister),
            Kind::KeyValue => Some(Names::KeyValue),
            _ => None,
        }
    }

    /// Returns the model's default initial value.
    pub fn initial(self) -> Datum<'static> {
        match self {
            Kind::KeyValue => Datum::Text(""),
            Kind::Counter | Kind::MultiRegister => Datum::Int(0),
            _ => Datum::Null,
        }
    }
}

/// Decides one object. Only the search can give a linearization. If one was requested and the
/// search gives up, the verdict of the faster procedure still counts.
fn decide(
    request: &Request,
    decide_once: impl Fn(&Request) -> Result<Verdict, BadRow>,
) -> Result<Verdict, BadRow> {
    let found = decide_once(request)?;
    if found.status != Status::Unknown || !request.linearization {
        return Ok(found);
    }
    let faster = decide_once(&Request {
        linearization: false,
        ..*request
    })?;
    Ok(match faster.status {
        Status::Unknown => found,
        _ => faster,
    })
}

fn decide_once(
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
            if request.consistency == Consistency::Linearizable && !request.linearization {
                if let Some(verdict) = equal_adds::decide(&model, &ops, request) {
                    return Ok(verdict);
                }
            }
            Ok(general::decide(&mut model, &ops, request, process))
        }
        Kind::Queue | Kind::FifoQueue | Kind::Stack | Kind::PriorityQueue | Kind::Deque => {
            let (mut model, ops) = queue::parse(rows, object, kind.container())?;
            if request.consistency == Consistency::Linearizable && !request.linearization {
                if let Some(verdict) = container(kind, &model, &ops, request) {
                    return Ok(verdict);
                }
            }
            Ok(general::decide(&mut model, &ops, request, process))
        }
        Kind::Mutex => {
            let (mut model, ops) = mutex::parse(rows, object)?;
            Ok(general::decide(&mut model, &ops, request, process))
        }
        Kind::MultiRegister => {
            let (mut model, ops) = multi_register::parse(rows, object, initial)?;
            if !request.linearization {
                if let Some(verdict) = model.impossible_alone(&ops) {
                    return Ok(verdict);
                }
            }
            Ok(general::decide(&mut model, &ops, request, process))
        }
    }
}

/// Decides a queue, a stack or the like without a search; `None` if only a search can tell.
fn container(kind: Kind, model: &queue::Queue, ops: &[Op], request: &Request) -> Option<Verdict> {
    let by_order = match kind {
        Kind::FifoQueue => fifo::decide(model, ops),
        _ => None,
    };
    let verdict = by_order.or_else(|| bag::decide(model, ops, request));
    verdict.or_else(|| match kind {
        Kind::Stack => ordered::decide(model, ops, request, stack::flaw),
        Kind::PriorityQueue => ordered::decide(model, ops, request, priority::flaw),
        _ => None,
    })
}

/// Decides all objects within a common budget, on `threads` threads. The `Err` is the first bad
/// row.
pub fn decide_all(
    rows: &dyn Rows,
    objects: &Partition,
    kind: Kind,
    initial: &Datum,
    request: &Request,
    (budget, threads): (&Budget, usize),
) -> Result<Vec<Verdict>, BadRow> {
    let names = kind.names();
    let plains = names.and_then(|names| Plains::new(rows, objects, names));
    let process = |row: u32| rows.timing(row as usize).process;
    let done = decide_each(objects, request, (budget, threads), |i, object, request| {
        decide(request, |request| match &plains {
            Some(plains) => Ok(register::decide_plain(
                plains.of(i, object),
                initial,
                request,
                process,
            )),
            None => decide_once(rows, object, kind, initial, request),
        })
    });
    let bad = done.iter().filter_map(|found| found.as_ref().err());
    if let Some(bad) = bad.min_by_key(|bad| bad.row) {
        return Err(bad.clone());
    }
    Ok(done.into_iter().flatten().collect())
}

/// Applies `decide` to all objects within a common budget and returns the verdicts in the objects'
/// order. All objects are decided first; then witnesses are searched for the invalid ones.
pub fn decide_each<E: Send + Sync>(
    objects: &Partition,
    request: &Request,
    (budget, threads): (&Budget, usize),
    decide: impl Fn(usize, &[u32], &Request) -> Result<Verdict, E> + Sync,
) -> Vec<Result<Verdict, E>> {
    // A thread costs more than deciding a few operations.
    let threads = threads.min(objects.len()).min(1 + objects.rows() / 512);
    let mut done = in_parallel(objects.len(), threads, |i| {
        let request = Request {
            witness: false,
            limits: budget.to_decide(objects.len() - i, threads),
            ..*request
        };
        let found = decide(i, &objects[i], &request);
        let invalid = |verdict: &Verdict| verdict.status == Status::Invalid;
        if found.as_ref().is_ok_and(invalid) {
            budget.found_invalid();
        }
        found
    });
    if !request.witness || done.iter().any(Result::is_err) {
        return done;
    }
    let unexplained = |i: &usize| done[*i].as_ref().is_ok_and(Verdict::is_unexplained);
    let open: Vec<usize> = (0..done.len()).filter(unexplained).collect();
    let end = budget.end_of_explaining();
    let explained = in_parallel(open.len(), threads, |n| {
        let stuck = done[open[n]].as_ref().ok().and_then(|found| found.stuck);
        let request = Request {
            stuck: stuck.map(|row| row as u32),
            limits: budget.to_explain(end, open.len() - n, threads),
            ..*request
        };
        decide(open[n], &objects[open[n]], &request)
    });
    for (i, explained) in open.into_iter().zip(explained) {
        match (&mut done[i], explained) {
            (Ok(known), Ok(explained)) => known.explain(explained),
            (done, error) => *done = error,
        }
    }
    done
}

/// Applies `decide` to each index below `count` on several threads and returns the results in
/// order.
fn in_parallel<T: Send>(
    count: usize,
    threads: usize,
    decide: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    let work = || {
        let mut mine = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                break;
            }
            mine.push((i, decide(i)));
        }
        done.lock().expect("no thread panicked").extend(mine);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().expect("no thread panicked");
    done.sort_by_key(|&(i, _)| i);
    done.into_iter().map(|(_, found)| found).collect()
}
