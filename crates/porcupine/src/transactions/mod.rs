//! Decides which levels of isolation a history of transactions satisfies, as Elle does (Kingsbury &
//! Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 2020).
//!
//! What transactions read shows which of them precede others in every order that explains them. A
//! cycle of such dependencies is an anomaly, and the kinds of its edges say which levels forbid it.
//! A history without cycles takes one pass over the operations and one over the dependencies.

mod causal;
pub mod columns;
mod components;
mod cycles;
mod fan;
pub mod findings;
mod graph;
pub mod history;
pub mod levels;
mod list_append;
mod paths;
mod rw_register;
mod single;
mod time_order;
pub mod witness;
pub mod words;

use crate::budget::Limits;
use crate::rows::BadRow;
use crate::verdict::Status;
use findings::{Dependency, Finding, Findings};
use graph::{Edges, Size};
pub use graph::{Kinds, PROCESS, REALTIME, RW, WR, WW};
use history::History;
use levels::{violated, Anomaly, Cycle, Level, Time};
use list_append::Lists;
pub use rw_register::Assumptions;
use rw_register::Registers;
use time_order::{ProcessOrder, RealTime};

/// What the keys hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    ListAppend,
    RwRegister(Assumptions),
}

/// The dependencies that the contents of keys show.
trait Data: Edges {
    /// Returns why a transaction depends on another by an edge of a kind.
    fn explain(&self, from: u32, to: u32, kind: Kinds) -> String;

    /// Lists rw edges from each read to all later writes of the key, where the other rw edges lead
    /// only to the next one. Returns the number after the last further vertex.
    fn missed(&self, vertices: u32, _edge: &mut dyn FnMut(u32, u32, Kinds)) -> u32 {
        vertices
    }
}

/// The edges of [`Data::missed`].
struct Missed<'a>(&'a dyn Data);

impl Edges for Missed<'_> {
    fn each(&self, vertices: u32, edge: &mut dyn FnMut(u32, u32, Kinds)) -> u32 {
        self.0.missed(vertices, edge)
    }
}

/// The verdict on a history.
pub struct Answer {
    pub status: Status,
    /// A clause for human readers.
    pub reason: String,
    /// The worst anomalies first.
    pub findings: Vec<Finding>,
    /// The weakest levels that are violated, and those that are violated with them.
    pub weakest: Vec<Level>,
    pub others: Vec<Level>,
}

/// Decides whether a history satisfies a level. O(m + v) for m micro-operations and v elements in
/// all reads if there is no cycle.
pub fn check(
    history: &History,
    model: Model,
    level: Level,
    limits: &Limits,
) -> Result<Answer, BadRow> {
    let (by_call, next) = history.by_call()?;
    let mut findings = Findings::default();
    let data: Box<dyn Data + '_> = match model {
        Model::ListAppend => Box::new(Lists::new(history, &mut findings)?),
        Model::RwRegister(assumptions) => {
            let registers = Registers::new(history, &by_call, assumptions, &mut findings)?;
            Box::new(registers)
        }
    };
    let process = ProcessOrder { next: &next };
    let mut sources: Vec<&dyn Edges> = vec![&*data];
    if level.time() != Time::Nothing {
        sources.push(&process);
    }
    let real_time;
    if level.time() == Time::RealTime {
        real_time = RealTime::new(history, &by_call);
        sources.push(&real_time);
    }
    let explain = |from: u32, to: u32, kind: Kinds| match kind {
        PROCESS => format!("T{to} is the next transaction of T{from}'s process"),
        REALTIME => format!("T{from} returned before T{to} was called"),
        kind => data.explain(from, to, kind),
    };
    let search = Search {
        history,
        sources: &sources,
        visibility: [&*data, &Missed(&*data), &process],
        level,
        limits,
        explain: &explain,
    };
    let undecided = search.add_cycles(&mut findings);
    Ok(answer(history, level, findings.0, undecided))
}

/// What is needed to search for cycles.
struct Search<'a> {
    history: &'a History<'a>,
    sources: &'a [&'a dyn Edges],
    /// Edges for causal consistency; those of processes are the last.
    visibility: [&'a dyn Edges; 3],
    level: Level,
    limits: &'a Limits<'a>,
    explain: &'a dyn Fn(u32, u32, Kinds) -> String,
}

impl Search<'_> {
    /// Adds the cycles to the findings; returns why some were not searched for.
    fn add_cycles(&self, findings: &mut Findings) -> Option<&'static str> {
        let Some(size) = Size::new(self.history.len(), self.sources) else {
            return Some("there are more than 2^32 dependencies");
        };
        let out = self.limits.out_of_time();
        if let Some(why) = out.or_else(|| self.limits.out_of_memory(size.bytes())) {
            return Some(why);
        }
        let graph = size.build(self.sources);
        let core = graph.core();
        if core.is_empty() {
            return None;
        }
        let cycles = cycles::find(&graph, &core, self.level.time(), self.limits);
        // They violate causal consistency themselves, and then only acyclic visibility is searched.
        let worse = cycles
            .found
            .iter()
            .filter(|found| found.cycle <= Cycle::G1c);
        let worse = worse.map(|found| found.time).min();
        for found in cycles.found {
            self.add(
                Anomaly::Cycles(found.cycle, found.time),
                found.count,
                &found.edges,
                findings,
            );
        }
        let times = [Time::Nothing, Time::Process].into_iter();
        let mut known = None;
        for time in times.filter(|&time| time <= self.level.time()) {
            let is_worse = worse.is_some_and(|worse| worse <= time);
            let is_asked = self.level.is_weaker_than_snapshots();
            if !is_asked || is_worse || cycles.undecided.is_some() || known == Some(Cycle::GCausal)
            {
                break;
            }
            match self.weaker_cycle(&graph, &cycles.members, time) {
                Err(why) => return Some(why),
                Ok(Some((cycle, edges))) if known != Some(cycle) => {
                    known = Some(cycle);
                    self.add(Anomaly::Cycles(cycle, time), 1, &edges, findings);
                }
                Ok(_) => {}
            }
        }
        cycles.undecided
    }

    /// Returns a cycle that causal consistency forbids, or else one that prefix consistency does.
    fn weaker_cycle(
        &self,
        graph: &graph::Graph,
        members: &[u32],
        time: Time,
    ) -> Result<Option<(Cycle, Vec<paths::Edge>)>, &'static str> {
        let count = if time == Time::Process { 3 } else { 2 };
        let visibility = &self.visibility[..count];
        let transactions: Vec<u32> = members
            .iter()
            .copied()
            .filter(|&member| graph.is_transaction(member))
            .collect();
        let edges = causal::find(visibility, self.history.len(), &transactions, self.limits)?;
        if !edges.is_empty() {
            return Ok(Some((Cycle::GCausal, edges)));
        }
        let extra = if time == Time::Process { PROCESS } else { 0 };
        let edges = cycles::find_prefix(graph, members, extra, self.limits);
        match self.limits.out_of_time() {
            Some(why) if edges.is_empty() => Err(why),
            _ => Ok((!edges.is_empty()).then_some((Cycle::GPrefix, edges))),
        }
    }

    fn add(&self, anomaly: Anomaly, count: usize, edges: &[paths::Edge], findings: &mut Findings) {
        let edges = paths::between_transactions(edges).into_iter();
        let cycle: Vec<Dependency> = edges
            .map(|(from, to, kind)| Dependency {
                from,
                to,
                kind,
                why: (self.explain)(from, to, kind),
            })
            .collect();
        findings.0.push(Finding {
            anomaly,
            count,
            transactions: cycle.iter().map(|dependency| dependency.from).collect(),
            text: told(&cycle),
            cycle,
        });
    }
}

/// Puts a cycle into words.
fn told(cycle: &[Dependency]) -> String {
    if cycle.is_empty() {
        return "there is such a cycle, but there was no time to find it".to_owned();
    }
    let steps = cycle.iter().enumerate().map(|(at, step)| {
        let (from, to, why) = (step.from, step.to, &step.why);
        match at + 1 == cycle.len() && at > 0 {
            true => format!("but T{from} < T{to}, because {why}: a contradiction"),
            false => format!("T{from} < T{to}, because {why}"),
        }
    });
    steps.collect::<Vec<_>>().join("; ")
}

fn answer(
    history: &History,
    level: Level,
    mut findings: Vec<Finding>,
    undecided: Option<&'static str>,
) -> Answer {
    // What shows without an order in time is worse.
    findings.sort_by_key(|found| match found.anomaly {
        Anomaly::Cycles(_, time) => (time, found.anomaly),
        anomaly => (Time::Nothing, anomaly),
    });
    let anomalies: Vec<Anomaly> = findings.iter().map(|found| found.anomaly).collect();
    let (weakest, others) = violated(&anomalies);
    let forbidden: Vec<&str> = anomalies
        .iter()
        .filter(|&&anomaly| level.forbids(anomaly))
        .map(|anomaly| anomaly.name())
        .collect();
    let (status, reason) = if !forbidden.is_empty() {
        let reason = format!("not {}: {}", level.name(), forbidden.join(", "));
        (Status::Invalid, reason)
    } else if let Some(why) = undecided {
        let reason = format!("{why}: no anomaly was found, but not all cycles were searched for");
        (Status::Unknown, reason)
    } else if !reads_something(history) {
        let reason = "nothing was checked: no transaction that committed read anything";
        (Status::Unknown, reason.to_owned())
    } else {
        let reason = format!("no anomaly that {} forbids", level.name());
        (Status::Valid, reason)
    };
    Answer {
        status,
        reason,
        findings,
        weakest,
        others,
    }
}

fn reads_something(history: &History) -> bool {
    history.is_empty() || (0..history.is_read.len()).any(|op| history.is_committed_read(op as u32))
}
