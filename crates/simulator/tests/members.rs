//! Tests how the members of a simulated ensemble leave and join it while it runs.

mod cluster;

use std::cell::RefCell;
use std::rc::Rc;

use simulator::errors::{KeeperError, NEW_CONFIG_NO_QUORUM};
use simulator::keeper::configuration::MemberRole;
use simulator::members::Members;
use simulator::network::Node;
use simulator::simulation::{Role, Simulation};
use simulator::world::SECOND;

use cluster::{pass, started};

/// Starts this many ZooKeeper servers.
fn ensemble(servers: usize) -> Rc<Simulation> {
    started((0..servers).map(|_| Role::Keeper))
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
    let simulation = ensemble(3);
    let leader = simulation.leader().expect("a server leads");
    // Whoever asked may lose its connection, because everybody elects a new leader.
    let _ = change(&simulation, leader, None);
    assert_eq!(names(&simulation).len(), 2);
    assert_ne!(simulation.leader(), Some(leader));
    assert!(simulation.answers(leader), "it follows without a vote");
    change(&simulation, leader, Some(MemberRole::Participant)).expect("all are in sync");
    let all = [
        "node0 participant",
        "node1 participant",
        "node2 participant",
    ];
    assert_eq!(names(&simulation), all);
    simulation.end([]);
}

#[test]
fn a_removed_server_does_not_count() {
    let simulation = ensemble(3);
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
    let simulation = ensemble(5);
    let leader = simulation.leader().expect("a server leads");
    let at = |step: usize| (leader + step) % 5;
    change(&simulation, at(1), Some(MemberRole::Observer)).expect("all are in sync");
    assert!(names(&simulation).contains(&format!("node{} observer", at(1))));
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
    let simulation = ensemble(3);
    let leader = simulation.leader().expect("a server leads");
    simulation.kill((leader + 1) % 3);
    pass(&simulation, 5 * SECOND);
    let refused = change(&simulation, (leader + 2) % 3, None);
    let code = refused.map_err(|error| error.code);
    assert_eq!(code, Err(NEW_CONFIG_NO_QUORUM));
    simulation.end([]);
}
