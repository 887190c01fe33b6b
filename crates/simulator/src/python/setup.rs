//! What a simulation is made of, as Python gives it.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::words::found;
use crate::bugs::Bugs;
use crate::network::Node;
use crate::protocol::Mechanisms;
use crate::simulation::{Member, Options, Role};
use crate::table::settings::TableSettings;

/// Returns the members of a cluster: of each its name, its role, and the ZooKeeper servers that a
/// replica may use.
pub fn members(
    nodes: &[(String, String, Vec<String>)],
    places: &HashMap<String, Node>,
) -> PyResult<Vec<Member>> {
    let member = |(name, role, keepers): &(String, String, Vec<String>)| {
        let keepers = keepers.iter().map(|keeper| found(places, keeper));
        let keepers = keepers.collect::<PyResult<_>>()?;
        Ok(Member {
            name: name.as_str().into(),
            role: match role.as_str() {
                "zookeeper" => Role::Keeper,
                "store" => Role::Store,
                _ => Role::Replica(keepers),
            },
        })
    };
    nodes.iter().map(member).collect()
}

/// Returns the options of a simulation. Raises ValueError for unknown names, KeyError for unknown
/// servers.
pub fn options(
    places: &HashMap<String, Node>,
    bugs: &[String],
    mechanisms: &[String],
    settings: HashMap<String, i64>,
    reading: &str,
    rates: &HashMap<String, f64>,
) -> PyResult<Options> {
    let bugs = Bugs::from_names(bugs.iter().map(String::as_str));
    let mechanisms = Mechanisms::from_names(mechanisms.iter().map(String::as_str));
    let mut own = TableSettings::default();
    for (name, value) in settings {
        let setting = own.at(&name);
        *setting.ok_or_else(|| PyValueError::new_err(name.clone()))? = value;
    }
    let rates = rates
        .iter()
        .map(|(name, rate)| Ok((found(places, name)?, *rate)));
    Ok(Options {
        bugs: bugs.ok_or_else(|| PyValueError::new_err("unknown bug"))?,
        mechanisms: mechanisms.ok_or_else(|| PyValueError::new_err("unknown mechanism"))?,
        settings: own,
        reading: reading.into(),
        rates: rates.collect::<PyResult<_>>()?,
    })
}
