//! Tests a simulated cluster as a whole, and what a cut does to the order of packets.

mod cluster;

use std::cell::RefCell;
use std::rc::Rc;

use seed::Seed;
use simulator::block::Block;
use simulator::errors::ServerError;
use simulator::network::{Network, Node};
use simulator::server::Settings;
use simulator::simulation::{Role, Simulation};
use simulator::table::parts::Value;
use simulator::world::{Ns, Resource, World, MS, SECOND};

use cluster::{pass, started};

const CREATE: &str = "CREATE TABLE d.t (key Int64, value Int64) ENGINE = \
     ReplicatedMergeTree('/d/t', '{replica}') PARTITION BY key ORDER BY value";

/// Starts three replicas, and three ZooKeeper servers after them.
fn six() -> Rc<Simulation> {
    let replicas = (0..3).map(|node| Role::Replica(vec![node + 3]));
    started(replicas.chain((0..3).map(|_| Role::Keeper)))
}

/// The result of a query, once it is there.
type Answer = Rc<RefCell<Option<Result<Rc<Block>, ServerError>>>>;

fn ask(simulation: &Rc<Simulation>, node: Node, sql: &str, row: Option<[i64; 2]>) -> Answer {
    let (own, answer) = (simulation.clone(), Answer::default());
    let query = simulation.query(sql);
    let rows = row.map(|row| vec![row.map(Value::Int).into()]);
    let set = answer.clone();
    simulation.world.begin(async move {
        let found = own
            .ask(
                node,
                query,
                rows,
                Rc::new(Settings::default()),
                10 * SECOND,
                0,
            )
            .await;
        set.replace(Some(found));
    });
    answer
}

#[test]
fn a_replica_selects_what_another_inserts() {
    let simulation = six();
    for node in 0..3 {
        let created = ask(&simulation, node, CREATE, None);
        pass(&simulation, 3 * SECOND);
        assert_eq!(created.take(), Some(Ok(Rc::default())));
    }
    ask(&simulation, 0, "INSERT INTO d.t VALUES", Some([7, 8]));
    pass(&simulation, SECOND);
    let found = ask(
        &simulation,
        1,
        "SELECT value, key FROM d.t WHERE key = 7",
        None,
    );
    pass(&simulation, SECOND);
    let row = [8, 7].map(Value::Int);
    assert_eq!(found.take(), Some(Ok(Block::row(row).into())));
    let unknown = ask(&simulation, 1, "SHOW TABLES", None);
    pass(&simulation, SECOND);
    assert_eq!(
        unknown
            .take()
            .map(|refused| refused.map_err(|error| error.code)),
        Some(Err(62))
    );
}

#[test]
fn the_children_of_the_root_can_be_selected() {
    let simulation = six();
    ask(&simulation, 0, CREATE, None);
    pass(&simulation, 3 * SECOND);
    let of_root = "SELECT name FROM system.zookeeper WHERE path = '/'";
    let found = ask(&simulation, 0, of_root, None);
    pass(&simulation, SECOND);
    let names = found.take().expect("an answer").expect("rows");
    let row = |name: &str| [Value::Text(name.into())];
    assert_eq!(*names, ["d", "zookeeper"].map(row).into_iter().collect());
}

#[test]
fn an_ended_world_is_freed() {
    let simulation = six();
    for node in 0..3 {
        ask(&simulation, node, CREATE, None);
        pass(&simulation, 3 * SECOND);
    }
    for node in [1, 4] {
        simulation.kill(node);
        simulation.start(node);
    }
    pass(&simulation, 3 * SECOND);
    // Packets are held, a query is unanswered, and processes are paused or lack CPU time.
    simulation.starve(5, Resource::Cpu);
    simulation.ensemble.network.cut(&[(0, 3), (4, 5)]);
    ask(&simulation, 0, "INSERT INTO d.t VALUES", Some([7, 8]));
    pass(&simulation, SECOND / 2);
    simulation.pause(2);
    pass(&simulation, SECOND / 2);
    let world = Rc::downgrade(&simulation.world);
    simulation.end([]);
    drop(simulation);
    assert_eq!(world.strong_count(), 0);
}

#[test]
fn no_packet_overtakes_another_when_a_cut_ends() {
    for seed in 0..40 {
        let world = World::new(Seed(seed));
        let network = Network::new(&world, 2, &[(0, 1)]);
        let came = Rc::new(RefCell::new(Vec::new()));
        let mut sent = 0;
        let mut send = |many: usize, every_ns: Ns| {
            for _ in 0..many {
                let (came, number) = (came.clone(), sent);
                network.send(0, 1, None, move || came.borrow_mut().push(number));
                sent += 1;
                world.step(world.now_ns() + every_ns);
            }
        };
        send(3, 1000);
        network.cut(&[(0, 1)]);
        send(5, 50_000);
        network.mend();
        send(60, 10 * MS);
        world.step(world.now_ns() + 5 * SECOND);
        assert_eq!(*came.borrow(), Vec::from_iter(0..sent), "seed {seed}");
    }
}
