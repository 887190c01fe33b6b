//! The models, one a file, by name.

use crate::model::{Action, Model, Who};

pub mod quorum;
pub mod replication;
pub mod truncation;
pub mod zero_copy;

/// What is asked for; each model takes what it knows.
pub struct Scope<'a> {
    pub replicas: u32,
    pub records: u32,
    pub reads: u32,
    pub quorum: u32,
    pub read: &'a str,
    pub skip_failed: bool,
    pub mutant: Option<&'a str>,
    pub fixes: &'a [String],
}

/// Something to do with a model, whichever it is.
pub trait Visit {
    type Out;
    fn visit<M: Model + Send + Sync + 'static>(self, model: M) -> Self::Out;
}

/// Makes the model of a name and hands it on. The Err is for people.
pub fn named<V: Visit>(name: &str, scope: &Scope, visit: V) -> Result<V::Out, String> {
    let (replicas, records) = (scope.replicas, scope.records);
    Ok(match name {
        "quorum" => visit.visit(quorum::Quorum::new(quorum::Scope {
            replicas,
            records,
            reads: scope.reads,
            quorum: scope.quorum,
            read: parse_read(scope.read)?,
            skip_failed: scope.skip_failed,
            mutant: mutant(scope.mutant, quorum::MUTANTS)?,
        })?),
        "truncation" => visit.visit(truncation::Truncation::new(truncation::Scope {
            replicas,
            records,
            mutant: mutant(scope.mutant, truncation::MUTANTS)?,
        })?),
        "replication" => visit.visit(replication::Replication::new(replication::Scope {
            replicas,
            records,
            mutant: mutant(scope.mutant, replication::MUTANTS)?,
        })?),
        "zero-copy" => visit.visit(zero_copy::ZeroCopy::new(zero_copy::Scope {
            replicas,
            fixes: zero_copy::Fixes::named(scope.fixes)?,
        })?),
        _ => {
            let names: Vec<&str> = catalogue().into_iter().map(|(name, _)| name).collect();
            return Err(format!(
                "model {name:?}: expected one of {}",
                names.join(", ")
            ));
        }
    })
}

/// Each model, and what may be changed in it by name: its mutants, or its fixes.
pub fn catalogue() -> Vec<(&'static str, Vec<&'static str>)> {
    fn names<T>(mutants: &[(&'static str, T)]) -> Vec<&'static str> {
        mutants.iter().map(|(name, _)| *name).collect()
    }
    vec![
        ("quorum", names(quorum::MUTANTS)),
        ("truncation", names(truncation::MUTANTS)),
        ("replication", names(replication::MUTANTS)),
        ("zero-copy", zero_copy::FIXES.to_vec()),
    ]
}

fn parse_read(name: &str) -> Result<quorum::Read, String> {
    match name {
        "server" => Ok(quorum::Read::Server),
        "linearizable" => Ok(quorum::Read::Linearizable),
        _ => Err(format!("read {name:?}: expected server or linearizable")),
    }
}

fn mutant<T: Copy>(name: Option<&str>, known: &[(&'static str, T)]) -> Result<Option<T>, String> {
    let Some(name) = name else { return Ok(None) };
    match known.iter().find(|(known, _)| *known == name) {
        Some((_, mutant)) => Ok(Some(*mutant)),
        None => {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            Err(format!(
                "mutant {name:?}: expected one of {}",
                names.join(", ")
            ))
        }
    }
}

/// Refuses a number outside of `min..=max`, in words for people.
fn in_range(what: &str, given: u32, min: u32, max: u32) -> Result<(), String> {
    if (min..=max).contains(&given) {
        return Ok(());
    }
    Err(format!("{what}: {given} given, expected {min} to {max}"))
}

/// An action about a replica and something else, each counted from 0.
#[inline(always)]
fn act(name: &'static str, who: Who, replica: u32, other: u32) -> Action {
    Action {
        name,
        who,
        replica: replica as u8,
        other: other as u8,
    }
}
