//! What is asked of a model.

/// A scope by its names; each model takes what it knows.
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

impl Scope<'_> {
    /// The mutant that is asked for, of those that the model knows. The Err is for people.
    pub fn mutant<T: Copy>(&self, known: &[(&'static str, T)]) -> Result<Option<T>, String> {
        let Some(name) = self.mutant else {
            return Ok(None);
        };
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
}

/// Refuses a number outside of `min..=max`, in words for people.
pub fn in_range(what: &str, given: u32, min: u32, max: u32) -> Result<(), String> {
    if (min..=max).contains(&given) {
        return Ok(());
    }
    Err(format!("{what}: {given} given, expected {min} to {max}"))
}
