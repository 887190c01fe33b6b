//! Faults in force, and what they do to a request.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

/// Kind of a request, as far as faults distinguish them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Request {
    Read,
    /// Write to pages of which some do not exist yet, or creation of a name.
    Grow,
    /// Write to existing pages.
    Write,
    /// Change that needs no space, such as the removal of a name.
    Change,
    Sync,
}

#[derive(Clone, Debug)]
pub enum Fault {
    Full,
    ReadOnly,
    Slow(Duration),
    /// Writes of files in ZooKeeper's log directory are slow, as if it were a device of its own.
    SlowLog(Duration),
    FailReads,
    FailWrites,
    /// Such writes fail.
    FailLog,
    /// The next fsync fails, and only that one.
    FailSync,
}

#[derive(Debug)]
struct Rule {
    fault: Fault,
    hits: u64,
}

/// Answer to a request.
#[derive(Debug, PartialEq)]
pub enum Decision {
    Execute(Duration),
    Fail(i32),
    /// Fail the fsync and forget that its pages are dirty.
    FailSync,
}

#[derive(Default, Debug)]
pub struct Faults {
    rules: BTreeMap<String, Rule>,
}

impl Faults {
    /// Set the rule of a name in place of an earlier one. Return what is wrong with it.
    pub fn set(&mut self, name: &str, words: &Value) -> Result<(), String> {
        let delay = Duration::from_millis(words["delay_ms"].as_u64().unwrap_or(0));
        let fault = match words["kind"].as_str().unwrap_or_default() {
            "full" => Fault::Full,
            "readonly" => Fault::ReadOnly,
            "slow" => Fault::Slow(delay),
            "slow-log" => Fault::SlowLog(delay),
            "fail-reads" => Fault::FailReads,
            "fail-writes" => Fault::FailWrites,
            "fail-log" => Fault::FailLog,
            "fail-sync" => Fault::FailSync,
            other => return Err(format!("no fault {other:?}")),
        };
        self.rules.insert(name.to_owned(), Rule { fault, hits: 0 });
        Ok(())
    }

    pub fn clear(&mut self, name: &str) {
        self.rules.remove(name);
    }

    /// Return how many requests each rule applied to, by name.
    pub fn hits(&self) -> Value {
        self.rules
            .iter()
            .map(|(name, rule)| (name.clone(), Value::from(rule.hits)))
            .collect()
    }

    pub fn full(&self) -> bool {
        self.rules
            .values()
            .any(|rule| matches!(rule.fault, Fault::Full))
    }

    /// Return whether a fault asks where a file is.
    pub fn distinguish_log(&self) -> bool {
        self.rules
            .values()
            .any(|rule| matches!(rule.fault, Fault::FailLog | Fault::SlowLog(_)))
    }

    /// Decide about a request; `log`: it is of ZooKeeper's log. Those of probes are not counted, and
    /// do not use up a fault that strikes once.
    pub fn decide(&mut self, request: Request, log: bool, probe: bool) -> Decision {
        let mut delay = Duration::ZERO;
        let mut failed = None;
        for rule in self.rules.values_mut() {
            let struck = match (&rule.fault, request) {
                (Fault::Full, Request::Grow) => Some(Decision::Fail(libc::ENOSPC)),
                (Fault::ReadOnly, Request::Grow | Request::Write | Request::Change) => {
                    Some(Decision::Fail(libc::EROFS))
                }
                (Fault::FailReads, Request::Read)
                | (Fault::FailWrites, Request::Grow | Request::Write | Request::Sync) => {
                    Some(Decision::Fail(libc::EIO))
                }
                (Fault::FailLog, Request::Grow | Request::Write | Request::Sync) if log => {
                    Some(Decision::Fail(libc::EIO))
                }
                (Fault::FailSync, Request::Sync) if rule.hits == 0 && !probe => {
                    Some(Decision::FailSync)
                }
                (
                    Fault::Slow(more),
                    Request::Read | Request::Grow | Request::Write | Request::Sync,
                ) => {
                    delay += *more;
                    rule.hits += u64::from(!probe);
                    None
                }
                (Fault::SlowLog(more), Request::Grow | Request::Write | Request::Sync) if log => {
                    delay += *more;
                    rule.hits += u64::from(!probe);
                    None
                }
                _ => None,
            };
            if struck.is_some() && failed.is_none() {
                rule.hits += u64::from(!probe);
                failed = struck;
            }
        }
        failed.unwrap_or(Decision::Execute(delay))
    }
}
