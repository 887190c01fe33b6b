//! Simulated clusters for the tests of this directory.

use std::rc::Rc;

use seed::Seed;
use simulator::bugs::Bugs;
use simulator::network::Node;
use simulator::protocol::Mechanisms;
use simulator::simulation::{Member, Options, Role, Simulation};
use simulator::table::settings::TableSettings;
use simulator::world::{Ns, SECOND};

/// Starts servers with these roles, `node0` and so on, and waits until all are ready.
pub fn started(roles: impl IntoIterator<Item = Role>) -> Rc<Simulation> {
    let member = |(node, role): (Node, Role)| Member {
        name: format!("node{node}").into(),
        role,
    };
    let members: Vec<Member> = roles.into_iter().enumerate().map(member).collect();
    let servers = members.len();
    let pairs = (0..servers).flat_map(|source| (0..servers).map(move |target| (source, target)));
    let links: Vec<_> = pairs.filter(|(source, target)| source != target).collect();
    let options = Options {
        bugs: Bugs::default(),
        mechanisms: Mechanisms::default(),
        settings: TableSettings::default(),
        reading: "linearizable".into(),
        rates: Vec::new(),
    };
    let simulation = Simulation::new(members, &links, Seed(1), options);
    simulation.up();
    pass(&simulation, 5 * SECOND);
    assert!(simulation.unready().is_empty());
    simulation
}

/// Lets time pass in which nothing of the caller's is due.
pub fn pass(simulation: &Simulation, ns: Ns) {
    let world = &simulation.world;
    assert_eq!(world.step(world.now_ns() + ns), None);
}
