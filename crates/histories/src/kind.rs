//! The kinds of operations.

/// The kind of an operation, as in Jepsen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Invoke,
    Ok,
    Fail,
    Info,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Invoke, Kind::Ok, Kind::Fail, Kind::Info];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Invoke => "invoke",
            Kind::Ok => "ok",
            Kind::Fail => "fail",
            Kind::Info => "info",
        }
    }

    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
