//! Lists the models by name.

use crate::model::{Model, Scope};

mod log;
pub mod quorum;
pub mod quorum_protocol;
pub mod replication;
pub mod truncation;
pub mod zero_copy;

/// An operation that works with any model.
pub trait Visit {
    type Out;
    fn visit<M: Model + Send + Sync + 'static>(self, model: M) -> Self::Out;
}

/// Creates the named model and passes it to `visit`. The `Err` is a message for the user.
pub fn visit_model<V: Visit>(name: &str, scope: &Scope, visit: V) -> Result<V::Out, String> {
    Ok(match name {
        "quorum" => match scope.protocol {
            None => visit.visit(quorum::Quorum::new(scope)?),
            Some(protocol) => visit.visit(quorum_protocol::QuorumProtocol::new(scope, protocol)?),
        },
        "truncation" => visit.visit(truncation::Truncation::new(scope)?),
        "replication" => visit.visit(replication::Replication::new(scope)?),
        "zero-copy" => visit.visit(zero_copy::ZeroCopy::new(scope)?),
        _ => {
            let names: Vec<&str> = catalogue().into_iter().map(|(name, ..)| name).collect();
            return Err(format!(
                "model {name:?}: expected one of {}",
                names.join(", ")
            ));
        }
    })
}

/// A model, its mutants, its fixes, and the defects of protocols that it has as switches.
pub type Listed = (
    &'static str,
    Vec<&'static str>,
    Vec<&'static str>,
    Vec<&'static str>,
);

/// Returns each model with its mutants, fixes and defects.
pub fn catalogue() -> Vec<Listed> {
    fn names<T>(mutants: &[(&'static str, T)]) -> Vec<&'static str> {
        mutants.iter().map(|(name, _)| *name).collect()
    }
    vec![
        (
            "quorum",
            names(quorum::MUTANTS),
            Vec::new(),
            quorum_protocol::defect_names(),
        ),
        (
            "truncation",
            names(truncation::MUTANTS),
            Vec::new(),
            Vec::new(),
        ),
        (
            "replication",
            names(replication::MUTANTS),
            Vec::new(),
            Vec::new(),
        ),
        (
            "zero-copy",
            names(zero_copy::MUTANTS),
            zero_copy::FIXES.to_vec(),
            Vec::new(),
        ),
    ]
}
