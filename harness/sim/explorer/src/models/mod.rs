//! The models, one a file, by name.

use crate::model::Model;

mod log;
pub mod quorum;
pub mod replication;
mod scope;
pub mod truncation;
pub mod zero_copy;

pub use scope::Scope;

/// Something to do with a model, whichever it is.
pub trait Visit {
    type Out;
    fn visit<M: Model + Send + Sync + 'static>(self, model: M) -> Self::Out;
}

/// Makes the model of a name and hands it on. The Err is for people.
pub fn named<V: Visit>(name: &str, scope: &Scope, visit: V) -> Result<V::Out, String> {
    Ok(match name {
        "quorum" => visit.visit(quorum::Quorum::new(scope)?),
        "truncation" => visit.visit(truncation::Truncation::new(scope)?),
        "replication" => visit.visit(replication::Replication::new(scope)?),
        "zero-copy" => visit.visit(zero_copy::ZeroCopy::new(scope)?),
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
