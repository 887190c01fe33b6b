//! Tests how the members of a simulated ensemble leave and join it while it runs.

use std::cell::RefCell;
use std::rc::Rc;

use simulator::bugs::Bugs;
use simulator::errors::{KeeperError, NEW_CONFIG_NO_QUORUM};
use simulator::keeper::configuration::MemberRole;
use simulator::members::Members;
use simulator::network::Node;
use simulator::protocol::Mechanisms;
use simulator::seed::Seed;
use simulator::simulation::{Member, Options, Role, Simulation};
use simulator::table::settings::TableSettings;
use simulator::world::{Ns, SECOND};

/// Starts this many ZooKeeper servers.
fn started(servers: usize) -> Rc<Simulation> {
    let member = |node: Node| Member {
        name: format!("zk{node}").into(),
        role: Role::Keeper,
    };
    let pairs = (0..servers).flat_map(|source| (0..servers).map(move |target| (source, target)));
    let links: Vec<_> = pairs.filter(|(source, target)| source != target).collect();
    let options = Options {
        bugs: Bugs::default(),
        mechanisms: Mechanisms::default(),
        settings: TableSettings::default(),
        reading: "linearizable".into(),
        rates: Vec::new(),
    };
    let members = (0..servers).map(member).collect();
    let simulation = Simulation::new(members, &links, Seed(1), options);
    simulation.up();
    pass(&simulation, 5 * SECOND);
    assert!(simulation.unready().is_empty());
    simulation
}

fn pass(simulation: &Simulation, ns: Ns) {
    let world = &simulation.world;
    assert_eq!(world.step(world.now_ns() + ns), None);
}

/// Gives a server a role through another one, and waits for the answer.
fn change(
    simulation: &Rc<Simulation>,
    node: Node,
    role: Option<MemberRole>,
) -> Result<(), KeeperError> {
    let members = Members::new(simulation);
    let by = simulation.leader().filter(|leader| *leader != node);
    let by = by.unwrap_or((node + 1) % simulation.ensemble.keepers.len());
    let answer = Rc::new(RefCell::new(None));
    let set = answer.clone();
    let work = members.reconfigure(by, node, role);
    simulation.world.begin(async move {
        set.replace(Some(work.await));
    });
    pass(simulation, 4 * SECOND);
    answer.take().expect("the request was answered")
}

fn names(simulation: &Rc<Simulation>) -> Vec<String> {
    let members = Members::new(simulation).ensemble();
    let named = |(name, role): (Rc<str>, MemberRole)| format!("{name} {}", role.name());
    members
        .expect("a server leads")
        .into_iter()
        .map(named)
        .collect()
}

#[test]
fn a_leader_that_leaves_is_succeeded_and_joins_again() {
    let simulation = started(3);
    let leader = simulation.leader().expect("a server leads");
    // Whoever asked may lose its connection, because everybody elects a new leader.
    let _ = change(&simulation, leader, None);
    assert_eq!(names(&simulation).len(), 2);
    assert_ne!(simulation.leader(), Some(leader));
    assert!(simulation.answers(leader), "it follows without a vote");
    change(&simulation, leader, Some(MemberRole::Participant)).expect("all are in sync");
    let all = ["zk0 participant", "zk1 participant", "zk2 participant"];
    assert_eq!(names(&simulation), all);
    simulation.end([]);
}

#[test]
fn a_removed_server_does_not_count() {
    let simulation = started(3);
    let leader = simulation.leader().expect("a server leads");
    let (left, kept) = ((leader + 1) % 3, (leader + 2) % 3);
    change(&simulation, left, None).expect("two of three are in sync");
    simulation.kill(kept);
    pass(&simulation, 10 * SECOND);
    assert_eq!(simulation.leader(), None, "one of two is no majority");
    simulation.start(kept);
    pass(&simulation, 10 * SECOND);
    assert!(simulation.leader().is_some());
    simulation.end([]);
}

#[test]
fn four_members_need_three_and_their_observer_none() {
    let simulation = started(5);
    let leader = simulation.leader().expect("a server leads");
    let at = |step: usize| (leader + step) % 5;
    change(&simulation, at(1), Some(MemberRole::Observer)).expect("all are in sync");
    assert!(names(&simulation).contains(&format!("zk{} observer", at(1))));
    simulation.kill(at(2));
    pass(&simulation, 5 * SECOND);
    assert_eq!(simulation.leader(), Some(leader));
    simulation.kill(at(3));
    pass(&simulation, 10 * SECOND);
    assert_eq!(simulation.leader(), None, "two of four are no majority");
    simulation.end([]);
}

#[test]
fn a_configuration_whose_majority_is_away_is_refused() {
    let simulation = started(3);
    let leader = simulation.leader().expect("a server leads");
    simulation.kill((leader + 1) % 3);
    pass(&simulation, 5 * SECOND);
    let refused = change(&simulation, (leader + 2) % 3, None);
    let code = refused.map_err(|error| error.code);
    assert_eq!(code, Err(NEW_CONFIG_NO_QUORUM));
    simulation.end([]);
}
