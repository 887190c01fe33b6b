//! Tests what clients may rely on in the simulated ZooKeeper, and what they may not.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use seed::Seed;
use simulator::bugs::Bugs;
use simulator::disk::Lost;
use simulator::errors::{KeeperError, CONNECTION_LOSS, SESSION_EXPIRED};
use simulator::keeper::ensemble::Ensemble;
use simulator::keeper::messages::Disk;
use simulator::keeper::server::{KeeperServer, KeeperServers};
use simulator::keeper::session::{Found, KeeperSession, Reading, Readings};
use simulator::keeper::tree::{Data, Operation};
use simulator::network::{Network, Node};
use simulator::protocol_trace::{Fact, ProtocolTrace};
use simulator::world::{Ns, Process, Promise, World, MS, SECOND};

/// The node of the clients.
const CLIENT: Node = 3;
const KEEPERS: [Node; 3] = [0, 1, 2];

type Session = Rc<KeeperSession>;

/// Three ZooKeeper servers and a client's node.
struct Cluster {
    world: Rc<World>,
    ensemble: Rc<Ensemble>,
    trace: Rc<RefCell<ProtocolTrace>>,
    servers: KeeperServers,
    disks: Vec<Rc<RefCell<Disk>>>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.world.clear();
        self.servers.clear();
    }
}

impl Cluster {
    /// Starts the cluster and waits until its servers serve.
    fn new(bugs: &[&str]) -> Cluster {
        let bugs = Bugs::from_names(bugs.iter().copied()).expect("known bugs");
        let bugs = bugs.of_keeper();
        let world = World::new(Seed(1));
        let pairs = (0..4).flat_map(|a| (0..4).map(move |b| (a, b)));
        let links: Vec<_> = pairs.filter(|(a, b)| a != b).collect();
        let trace = Rc::new(RefCell::new(ProtocolTrace::default()));
        let ensemble = Ensemble::new(
            &world,
            Network::new(&world, 4, &links),
            ["zk1", "zk2", "zk3", "ch1"].map(Rc::from).into(),
            KEEPERS.into(),
            bugs,
            trace.clone(),
        );
        let disks = KEEPERS.map(|_| Rc::default()).into();
        let cluster = Cluster {
            world,
            ensemble,
            trace,
            servers: KeeperServers::default(),
            disks,
        };
        cluster.start(&KEEPERS);
        let all = || KEEPERS.iter().all(|node| cluster.keeper(*node).serves());
        assert!(cluster.wait_until(all, 30 * SECOND));
        cluster
    }

    fn start(&self, nodes: &[Node]) {
        for node in nodes {
            let disk = self.disks[*node].clone();
            let life = KeeperServer::new(*node, &self.ensemble, &self.servers, disk, 1.0);
            self.servers.replace(life);
        }
        for node in nodes {
            self.keeper(*node).begin();
        }
    }

    fn keeper(&self, node: Node) -> Rc<KeeperServer> {
        self.servers.at(node)
    }

    fn sleep(&self, ns: Ns) {
        self.world.step(self.world.now_ns() + ns);
    }

    fn wait_until(&self, seen: impl Fn() -> bool, within_ns: Ns) -> bool {
        let end_ns = self.world.now_ns() + within_ns;
        while !seen() && self.world.now_ns() < end_ns {
            self.sleep(20 * MS);
        }
        seen()
    }

    /// Runs a task and returns its result.
    fn run<T: 'static>(&self, work: impl Future<Output = T> + 'static) -> T {
        let out = Rc::new(RefCell::new(None));
        let into = out.clone();
        self.world.begin(async move {
            let value = work.await;
            *into.borrow_mut() = Some(value);
        });
        assert!(self.wait_until(|| out.borrow().is_some(), 60 * SECOND));
        let value = out.take();
        value.expect("the task has ended")
    }

    fn session(&self, server: Node) -> Session {
        let number = self.ensemble.fresh_session();
        let process = Process::new();
        let server = self.keeper(server);
        let session = KeeperSession::new(CLIENT, &process, &self.ensemble, &server, number);
        let opened = session.clone();
        self.run(async move { opened.open().await })
            .expect("the server serves");
        session
    }

    fn multi(&self, session: &Session, operations: Vec<Operation>) -> Result<(), KeeperError> {
        let session = session.clone();
        self.run(async move { session.multi(operations).await.map(|_| ()) })
    }

    fn get(&self, session: &Session, path: &'static str) -> Option<(i64, i64)> {
        let session = session.clone();
        let found = self.run(async move { session.get(path).await });
        let found = found.expect("the session lives");
        found.map(|(data, version)| (data.as_number(), version))
    }

    fn sync(&self, session: &Session) {
        let session = session.clone();
        self.run(async move { session.sync().await })
            .expect("the session lives");
    }

    /// Returns the leader of the newest epoch.
    fn leader(&self) -> Option<Node> {
        let leads = |node: &Node| {
            let life = self.keeper(*node);
            life.process.alive() && life.leads() && life.serves()
        };
        let leading = KEEPERS.into_iter().filter(leads);
        leading.max_by_key(|node| self.keeper(*node).epoch())
    }

    /// Returns the leader and its followers.
    fn others(&self) -> (Node, Node, Node) {
        let leader = self.leader().expect("there is a leader");
        let mut followers = KEEPERS.into_iter().filter(|node| *node != leader);
        let mut follower = || followers.next().expect("there are three servers");
        (leader, follower(), follower())
    }
}

fn made(path: &str, data: i64) -> Operation {
    Operation::create(path, Data::Number(data))
}

fn ephemeral(path: &str, data: i64) -> Operation {
    Operation::Create {
        path: path.into(),
        data: Data::Number(data),
        ephemeral: true,
        sequential: false,
    }
}

fn peer_links(node: Node) -> Vec<(Node, Node)> {
    let near = KEEPERS.into_iter().filter(|other| *other != node);
    near.flat_map(|other| [(node, other), (other, node)])
        .collect()
}

#[test]
fn a_follower_reads_the_past_until_it_syncs() {
    let cluster = Cluster::new(&[]);
    let (leader, follower, _) = cluster.others();
    let (writer, reader) = (cluster.session(leader), cluster.session(follower));
    cluster
        .multi(&writer, vec![made("/a", 1)])
        .expect("the node does not exist");
    cluster.sync(&reader);
    assert_eq!(cluster.get(&reader, "/a"), Some((1, 0)));
    cluster.ensemble.network.cut(&peer_links(follower));
    let put = Operation::put("/a", Data::Number(2));
    cluster
        .multi(&writer, vec![put])
        .expect("two are a majority");
    assert_eq!(
        cluster.get(&reader, "/a"),
        Some((1, 0)),
        "a server that is cut off does not know"
    );
    cluster.ensemble.network.mend();
    cluster.sync(&reader);
    assert_eq!(cluster.get(&reader, "/a"), Some((2, 1)));
}

/// Shows why the linearizable reading writes. The old leader's clock is slow, so that it notices
/// last.
#[test]
fn a_deposed_leader_answers_a_sync_but_no_barrier() {
    let cluster = Cluster::new(&[]);
    let (old, _, _) = cluster.others();
    cluster.keeper(old).skew(0.1);
    let reader = cluster.session(old);
    cluster
        .multi(&reader, vec![made("/a", 1)])
        .expect("the node does not exist");
    cluster.ensemble.network.cut(&peer_links(old));
    let another = || cluster.leader().is_some_and(|leader| leader != old);
    assert!(cluster.wait_until(another, 10 * SECOND));
    let writer = cluster.session(cluster.leader().expect("there is a leader"));
    let put = Operation::put("/a", Data::Number(2));
    cluster
        .multi(&writer, vec![put])
        .expect("two are a majority");
    cluster.sync(&reader);
    let found = cluster.get(&reader, "/a");
    assert_eq!(
        found,
        Some((1, 0)),
        "acknowledged elsewhere, but missing after a sync"
    );
    let barrier = cluster.run(async move { reader.barrier().await });
    assert_eq!(barrier, Err(KeeperError::new(CONNECTION_LOSS)));
}

#[test]
fn ephemeral_nodes_end_with_a_silent_session() {
    let cluster = Cluster::new(&[]);
    let (leader, follower, _) = cluster.others();
    let watching = cluster.session(leader);
    let number = cluster.ensemble.fresh_session();
    let process = Process::new();
    let server = cluster.keeper(follower);
    let dead = KeeperSession::new(CLIENT, &process, &cluster.ensemble, &server, number);
    let gone = Promise::new();
    let (reader, watch) = (watching.clone(), gone.clone());
    let found = cluster.run(async move {
        dead.open().await?;
        dead.multi(vec![ephemeral("/e", 1)]).await?;
        reader.sync().await?;
        reader.read_one(Reading::get("/e"), Some(&watch)).await
    });
    let found = found.expect("both live").get();
    assert_eq!(found, Some((Data::Number(1), 0)));
    cluster.world.kill(&process);
    assert!(cluster.wait_until(|| gone.is_done(), 10 * SECOND));
    assert_eq!(cluster.get(&watching, "/e"), None);
    let trace = cluster.trace.borrow();
    let ended = |fact: &Fact| {
        matches!(
            fact,
            Fact::SessionExpired {
                allowed_ms: 5000,
                ..
            }
        )
    };
    assert!(trace.facts.iter().any(ended));
}

#[test]
fn closing_a_session_removes_its_ephemeral_nodes() {
    let cluster = Cluster::new(&[]);
    let (leader, follower, _) = cluster.others();
    let (closing, watching) = (cluster.session(follower), cluster.session(leader));
    cluster
        .multi(&closing, vec![ephemeral("/e", 1)])
        .expect("the node does not exist");
    closing.close();
    assert!(!closing.alive());
    cluster.sleep(SECOND);
    assert_eq!(cluster.get(&watching, "/e"), None);
    let error = cluster.multi(&closing, vec![made("/a", 1)]);
    assert_eq!(error, Err(KeeperError::new(SESSION_EXPIRED)));
}

#[test]
fn a_minority_commits_nothing() {
    let cluster = Cluster::new(&[]);
    let (leader, first, second) = cluster.others();
    let client = cluster.session(leader);
    for node in [first, second] {
        cluster.keeper(node).die();
    }
    let answer = cluster.multi(&client, vec![made("/a", 1)]);
    assert_eq!(answer, Err(KeeperError::new(CONNECTION_LOSS)));
    cluster.start(&[first, second]);
    assert!(cluster.wait_until(|| cluster.leader().is_some(), 20 * SECOND));
}

fn all_die(cluster: &Cluster, power: bool) -> Session {
    let leader = cluster.others().0;
    let session = cluster.session(leader);
    cluster
        .multi(&session, vec![made("/a", 1)])
        .expect("the node does not exist");
    for node in KEEPERS {
        cluster.keeper(node).die();
        if power {
            cluster.keeper(node).lose_cache(None, &mut Lost::default());
        }
    }
    cluster.start(&KEEPERS);
    assert!(cluster.wait_until(|| cluster.leader().is_some(), 20 * SECOND));
    let again = cluster.session(cluster.leader().expect("there is a leader"));
    let barrier = again.clone();
    cluster
        .run(async move { barrier.barrier().await })
        .expect("a majority is alive");
    again
}

#[test]
fn committed_entries_survive_the_death_of_all() {
    let cluster = Cluster::new(&[]);
    let again = all_die(&cluster, true);
    assert_eq!(cluster.get(&again, "/a"), Some((1, 0)));
}

#[test]
fn unsynced_entries_do_not_survive_the_death_of_all() {
    let cluster = Cluster::new(&["keeper-unsynced"]);
    let again = all_die(&cluster, false);
    assert_eq!(cluster.get(&again, "/a"), None);
}

#[test]
fn early_answers_survive_kills_and_not_power_cuts() {
    for (power, found) in [(false, Some((1, 0))), (true, None)] {
        let cluster = Cluster::new(&["keeper-early-ack"]);
        let again = all_die(&cluster, power);
        assert_eq!(cluster.get(&again, "/a"), found);
    }
}

#[test]
fn a_watch_fires_once() {
    let cluster = Cluster::new(&[]);
    let (leader, follower, _) = cluster.others();
    let (writer, reader) = (cluster.session(leader), cluster.session(follower));
    let come = Promise::new();
    let (asking, watch) = (reader.clone(), come.clone());
    let found = cluster.run(async move {
        let reading = Reading::exists("/a");
        asking.read_one(reading, Some(&watch)).await
    });
    assert!(found.expect("the session lives").is_nothing());
    assert!(!come.is_done());
    cluster
        .multi(&writer, vec![made("/a", 1)])
        .expect("the node does not exist");
    cluster.sleep(10 * MS);
    assert!(come.is_done());
    cluster
        .multi(&writer, vec![made("/a/c", 1), made("/a/b", 2)])
        .expect("the nodes do not exist");
    cluster.sync(&reader);
    let found = cluster.run(async move {
        let readings = [
            Reading::listed("/a"),
            Reading::values("/a"),
            Reading::count("/a"),
        ];
        reader.read_all(readings, None).await
    });
    let [listed, values, count] = found.expect("the session lives");
    let (made, names) = listed.listed().expect("the node exists");
    assert_eq!(made, 2);
    assert_eq!(Vec::from_iter(names.iter().map(|name| &**name)), ["b", "c"]);
    assert_eq!(
        values.values(),
        [("b".into(), Data::Number(2)), ("c".into(), Data::Number(1))]
    );
    assert_eq!(count.count(), Some(2));
}

#[test]
fn repeated_readings_find_changes() {
    let cluster = Cluster::new(&[]);
    let session = cluster.session(cluster.others().1);
    let number = |at, data| vec![Operation::put(at, Data::Number(data))];
    cluster
        .multi(
            &session,
            vec![made("/a", 1), made("/a/b", 2), made("/c", 3)],
        )
        .expect("the nodes do not exist");
    let readings = Readings::new([Reading::get("/c"), Reading::values("/a")]);
    let found = || {
        let (session, readings) = (session.clone(), readings.clone());
        let found = cluster.run(async move { session.read_again(&readings).await });
        found.expect("the session lives")
    };
    let first = found();
    cluster
        .multi(&session, number("/a/b", 4))
        .expect("the node exists");
    let second = found();
    cluster
        .multi(&session, vec![made("/d", 5)])
        .expect("the node does not exist");
    assert!(Rc::ptr_eq(&second, &found()), "/d is none of them");
    cluster
        .multi(&session, number("/c", 6))
        .expect("the node exists");
    let read = |found: &Rc<[Found]>| {
        let data = found[0].clone().get().map(|(data, _)| data.as_number());
        (data, found[1].as_values()[0].1.as_number())
    };
    let all = [first, second, found()];
    assert_eq!(
        all.each_ref().map(read),
        [(Some(3), 2), (Some(3), 4), (Some(6), 4)]
    );
}
