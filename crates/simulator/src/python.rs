//! Defines the Python module `harness.native.simulator`.

mod allocator;
mod disks;
mod machines;
mod members;
mod requests;
mod setup;
mod value;
mod words;

use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::link_quality::LinkFault;
use crate::message_json::message_json;
use crate::network::Node;
use crate::protocol_trace::trace_json;
use crate::server::Settings;
use crate::simulation;
use crate::table::fetch::FETCH_NS;
use crate::table::parts::Value;
use crate::world::{Action, Ns, RESERVED_NUMBERS};
use allocator::Allocator;
use requests::Requests;
pub use requests::{Answer, SessionResult};
use seed::Seed;
pub use value::Word;
use words::{columns, found, linked, operation, reading, said_of, texts};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn link_fault(name: &str) -> PyResult<LinkFault> {
    let unknown = || PyValueError::new_err(format!("{name}: no fault of links"));
    LinkFault::of(name).ok_or_else(unknown)
}

/// A table's replica. In Python: `ReplicaState`.
type ReplicaDict = PyDict;
/// The settings of a query. In Python: `dict[str, int | str]`.
type QuerySettings = HashMap<String, Word>;
/// An answer, or the error in its place.
/// In Python: `tuple[Any, tuple[int, str] | tuple[str, str] | None]`.
type AnswerOrError = PyTuple;

/// The simulated servers by name, with the callers' requests by number.
///
/// Events happen only in `step`. The caller has its own events and tasks, identified by numbers:
/// they are due when `step` returns their number. For one thread only.
#[pyclass(module = "harness.native.simulator")]
pub struct Simulation {
    pub simulation: Rc<simulation::Simulation>,
    pub nodes: HashMap<String, Node>,
    requests: Requests,
}

// SAFETY: only holders of the interpreter's lock access it. The module requires the lock
// (`gil_used`), and no method releases it, so threads take turns. Garbage is dropped by whichever
// thread collects it.
unsafe impl Send for Simulation {}
// SAFETY: as above.
unsafe impl Sync for Simulation {}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.simulation.end(self.requests.take_sessions());
    }
}

impl Simulation {
    fn node(&self, name: &str) -> PyResult<Node> {
        found(&self.nodes, name)
    }

    fn links(&self, links: &[(String, String)]) -> PyResult<Vec<(Node, Node)>> {
        linked(&self.nodes, links)
    }

    /// Starts a request. Its answer makes the caller's event `number` due.
    fn begin(&self, number: u64, work: impl Future<Output = Answer> + 'static) {
        self.requests.begin(&self.simulation, number, work);
    }
}

#[pymethods]
impl Simulation {
    /// Create a cluster. `nodes` gives each name, whether it is a ZooKeeper server, and the
    /// ZooKeeper servers that a replica may use. `links` are in the topology's order. `settings`
    /// are those of tables that differ from the defaults. `reading` is the meaning of sequentially
    /// consistent selects. `rates` are the clock rates of some ZooKeeper servers; that of others is
    /// 1. Raises ValueError for unknown names.
    #[new]
    #[allow(clippy::too_many_arguments)] // Python names each of them.
    fn new(
        nodes: Vec<(String, String, Vec<String>)>,
        links: Vec<(String, String)>,
        bugs: Vec<String>,
        mechanisms: Vec<String>,
        settings: HashMap<String, i64>,
        reading: &str,
        rates: HashMap<String, f64>,
        seed: u64,
    ) -> PyResult<Simulation> {
        let names = nodes.iter().enumerate();
        let places: HashMap<String, Node> = names.map(|(at, node)| (node.0.clone(), at)).collect();
        let members = setup::members(&nodes, &places)?;
        let options = setup::options(&places, &bugs, &mechanisms, settings, reading, &rates)?;
        let links = linked(&places, &links)?;
        Ok(Simulation {
            simulation: simulation::Simulation::new(members, &links, Seed(seed), options),
            nodes: places,
            requests: Requests::default(),
        })
    }

    // --- time -----------------------------------------------------------------------------------

    #[getter]
    fn now_ns(&self) -> Ns {
        self.simulation.world.now_ns()
    }

    /// Number of events that have happened.
    #[getter]
    fn events(&self) -> u64 {
        self.simulation.world.events()
    }

    /// Schedule the caller's task, or its event, which must not wait.
    fn after(&self, delay_ns: Ns, number: u64, task: bool) {
        self.simulation
            .world
            .after(delay_ns, None, Action::due(number, task));
    }

    /// Run the simulation; return the caller's next due number, or None if there is none until
    /// `until_ns`, which is then the current time.
    fn step(&self, until_ns: Ns) -> Option<u64> {
        let mut due = || self.simulation.world.step(until_ns);
        std::iter::from_fn(&mut due).find(|&number| number < RESERVED_NUMBERS)
    }

    /// Record that none of the caller's tasks runs any more.
    fn outside(&self) {
        self.simulation.world.outside();
    }

    // --- processes ------------------------------------------------------------------------------

    /// Start every server without waiting for it.
    fn up(&self) {
        self.simulation.up();
    }

    /// Kill a node with SIGKILL; no-op if it does not run.
    fn kill(&self, name: &str) -> PyResult<()> {
        self.simulation.kill(self.node(name)?);
        Ok(())
    }

    /// Stop a node with SIGTERM.
    fn stop(&self, name: &str) -> PyResult<()> {
        self.simulation.stop(self.node(name)?);
        Ok(())
    }

    /// Start a new life of a node; no-op if it runs.
    fn start(&self, name: &str) -> PyResult<()> {
        self.simulation.start(self.node(name)?);
        Ok(())
    }

    /// Pause a node with SIGSTOP.
    fn pause(&self, name: &str) -> PyResult<()> {
        self.simulation.pause(self.node(name)?);
        Ok(())
    }

    /// Resume a node with SIGCONT.
    fn resume(&self, name: &str) -> PyResult<()> {
        self.simulation.resume(self.node(name)?);
        Ok(())
    }

    /// Whether the node's process exists.
    fn running(&self, name: &str) -> PyResult<bool> {
        Ok(self.simulation.running(self.node(name)?))
    }

    /// Whether the node is paused by SIGSTOP.
    fn paused(&self, name: &str) -> PyResult<bool> {
        Ok(self.simulation.paused(self.node(name)?))
    }

    /// Return how many tables the replica leads; 0 if it does not answer.
    fn tables_led(&self, name: &str) -> PyResult<usize> {
        let node = self.node(name)?;
        if !self.simulation.answers(node) {
            return Ok(0);
        }
        Ok(self.simulation.server(node).tables_led())
    }

    /// Whether the server answers queries, or the ZooKeeper server serves clients.
    fn answers(&self, name: &str) -> PyResult<bool> {
        Ok(self.simulation.answers(self.node(name)?))
    }

    // --- observation ----------------------------------------------------------------------------

    /// Return the ZooKeeper server that leads in the newest epoch.
    fn leader(&self) -> Option<&str> {
        let leader = self.simulation.leader();
        leader.map(|node| &*self.simulation.ensemble.names[node])
    }

    /// Return the reasons why the cluster cannot serve now.
    fn unready(&self) -> Vec<String> {
        self.simulation.unready()
    }

    /// Stop the fetches of every existing table, until the server ends.
    fn stop_fetches(&self, names: Vec<String>) -> PyResult<()> {
        for name in names {
            self.simulation.stop_fetches(self.node(&name)?);
        }
        Ok(())
    }

    /// Start fetches again. May be called twice.
    fn start_fetches(&self, names: Vec<String>) -> PyResult<()> {
        for name in names {
            self.simulation.start_fetches(self.node(&name)?);
        }
        Ok(())
    }

    /// Whether the node's tables fetch parts.
    fn fetching(&self, name: &str) -> PyResult<bool> {
        Ok(self.simulation.fetching(self.node(name)?))
    }

    /// Return the median time of a replica's fetches in all its lives; `ns` sets it.
    #[pyo3(signature = (name, ns=None))]
    fn fetch_ns(&self, name: &str, ns: Option<Ns>) -> PyResult<Ns> {
        let own = self.simulation.fetch_ns(self.node(name)?);
        own.set(ns.unwrap_or(own.get()));
        Ok(own.get())
    }

    /// Return the key and the size of each object of a store, in the order of the writes.
    fn objects(&self, name: &str) -> PyResult<Vec<(String, i64)>> {
        let objects = self.simulation.objects(self.node(name)?).into_iter();
        Ok(objects.map(|(key, size)| (key.to_string(), size)).collect())
    }

    /// Return the log of a ZooKeeper server, as a file of ZooKeeper's.
    fn transactions<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let log = self.simulation.transactions(self.node(name)?);
        Ok(PyBytes::new(py, &log))
    }

    /// Log the messages of the replicas from now on.
    fn log_messages(&self) {
        self.simulation.ensemble.messages.start();
    }

    /// Return the messages logged, as JSON: a list of node, kind ("read", "write", "fetch"),
    /// times of sending, effect and answer, number of transactions applied at the effect, whether
    /// it succeeded, and operations (name, path, data). What did not happen is null. The world's
    /// clock is `ahead_ns` ahead of the one in the output.
    fn messages<'py>(&self, py: Python<'py>, ahead_ns: Ns) -> Bound<'py, PyBytes> {
        let ensemble = &self.simulation.ensemble;
        let messages = ensemble.messages.messages();
        PyBytes::new(py, &message_json(&messages, &ensemble.names, ahead_ns))
    }

    /// Measure from now on what the run covers.
    fn cover(&self) {
        self.simulation.trace.borrow_mut().coverage = Some(Box::default());
    }

    /// Return the elements that were covered, as ascending numbers of 32 bits, lowest byte
    /// first, and the distances: the greatest numbers of committed writes that a ZooKeeper server
    /// lacked when it answered a read, of entries of the log that an active replica had not copied,
    /// and of steps during which one quorum was pending.
    fn coverage<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, (u64, u64, u64))> {
        let trace = self.simulation.trace.borrow();
        let coverage = trace.coverage.as_ref();
        let coverage = coverage.ok_or_else(|| PyValueError::new_err("not measured"))?;
        let (elements, far) = coverage.covered(self.simulation.ensemble.read_lag.get());
        let bytes: Vec<u8> = elements.into_iter().flat_map(u32::to_le_bytes).collect();
        let far = (far.read_lag, far.log_lag, far.quorum_steps);
        Ok((PyBytes::new(py, &bytes), far))
    }

    /// Return the protocol trace as JSON: what was committed, and the sessions that should have
    /// expired. The world's clock is `ahead_ns` ahead of the one in the output.
    ///
    /// ended    the quorum of PART was reached: how many it NEEDED, the HOLDERS of the part or of
    ///          one that covers it
    /// parallel the same of a parallel quorum
    /// last     last_part of PARTITION became block NUMBER
    /// places   the log's FIRST entry, {replica: [pointer, active, lost]}
    /// pointer  of REPLICA, FROM, TO, entries COPIED to its queue, whether it was LOST
    /// part     REPLICA announced NAME with a HASH of its rows
    /// merge    a merge into NAME was chosen BY a replica while LEADER was the leader
    /// session  a session expired after SILENT ms, with a timeout of ALLOWED ms
    ///
    /// A fact is a list: its name, the time in nanoseconds, then the other fields.
    fn record<'py>(&self, py: Python<'py>, ahead_ns: Ns) -> Bound<'py, PyBytes> {
        self.simulation.finish_trace();
        let trace = self.simulation.trace.borrow();
        PyBytes::new(py, &trace_json(&trace.facts, ahead_ns))
    }

    /// Return the replica of a table; None if the server does not have it in this life.
    fn replica<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        table: &str,
    ) -> PyResult<Option<Bound<'py, ReplicaDict>>> {
        let Some(replica) = self.simulation.replica(self.node(name)?, table) else {
            return Ok(None);
        };
        let out = PyDict::new(py);
        out.set_item("leader", replica.leader)?;
        out.set_item("readonly", replica.readonly)?;
        out.set_item("connected", replica.connected)?;
        out.set_item("keeper", replica.keeper.as_deref())?;
        out.set_item("parts", texts(py, &replica.parts)?)?;
        out.set_item("queue", replica.queue)?;
        Ok(Some(out))
    }

    // --- the network ----------------------------------------------------------------------------

    /// Cut links: packets under way and future ones do not arrive.
    fn cut(&self, links: Vec<(String, String)>) -> PyResult<()> {
        self.simulation.ensemble.network.cut(&self.links(&links)?);
        Ok(())
    }

    /// End every cut. Held packets arrive when their sender retransmits.
    fn mend(&self) {
        self.simulation.ensemble.network.mend();
    }

    /// Give links a fault of `harness.core.link_quality`; the amount 0 ends it.
    fn degrade(&self, links: Vec<(String, String)>, fault: &str, amount: f64) -> PyResult<()> {
        let (links, fault) = (self.links(&links)?, link_fault(fault)?);
        let network = &self.simulation.ensemble.network;
        network.degrade(&links, fault, amount);
        Ok(())
    }

    /// Return the amount of a fault of a link; 0 if it does not have it.
    fn amount(&self, source: &str, target: &str, fault: &str) -> PyResult<f64> {
        let (source, target) = (self.node(source)?, self.node(target)?);
        let network = &self.simulation.ensemble.network;
        Ok(network.amount(source, target, link_fault(fault)?))
    }

    /// Whether packets pass the link.
    fn alive(&self, source: &str, target: &str) -> PyResult<bool> {
        let (source, target) = (self.node(source)?, self.node(target)?);
        Ok(self.simulation.ensemble.network.alive(source, target))
    }

    // --- clients --------------------------------------------------------------------------------

    /// Send a query, an INSERT with its rows, on a connection that was opened then. The answer
    /// is a list of columns, each a tuple; empty if there are no rows.
    #[pyo3(signature = (number, name, sql, rows, settings, timeout_ns, opened_ns=0))]
    #[allow(clippy::too_many_arguments)] // Python names some of them.
    fn ask(
        &self,
        number: u64,
        name: &str,
        sql: &str,
        rows: Option<Vec<Vec<Word>>>,
        settings: QuerySettings,
        timeout_ns: Ns,
        opened_ns: Ns,
    ) -> PyResult<()> {
        let (simulation, node) = (self.simulation.clone(), self.node(name)?);
        let query = simulation.query(sql);
        let row = |row: Vec<Word>| row.into_iter().map(Value::from).collect();
        let rows = rows.map(|rows| rows.into_iter().map(row).collect());
        let settings = settings.into_iter().map(|(name, word)| (name, word.into()));
        let settings = Rc::new(settings.collect::<Settings>());
        self.begin(number, async move {
            Answer::OfServer(
                simulation
                    .ask(node, query, rows, settings, timeout_ns, opened_ns)
                    .await,
            )
        });
        Ok(())
    }

    /// Open a ZooKeeper session through one of these servers. The answer is its number.
    fn open_session(&self, number: u64, keepers: Vec<String>) -> PyResult<()> {
        let keepers = keepers.iter().map(|keeper| self.node(keeper));
        let keepers = keepers.collect::<PyResult<Vec<_>>>()?;
        self.requests.open(&self.simulation, number, keepers);
        Ok(())
    }

    /// Read several paths at one moment. The readings are "get" (data and version), "exists"
    /// (the version), "stat" (data, version and the transactions that created and last changed the
    /// node), "children" (the names, ascending), "count" (their number), "listed" (the version of
    /// the list, and the names) and "values" (the data by name). The answer has None for a node
    /// that does not exist.
    fn read(&self, number: u64, session: u64, readings: Vec<(String, String)>) -> PyResult<()> {
        let session = self.requests.session(session);
        let readings = readings.into_iter().map(reading).collect::<PyResult<_>>()?;
        self.begin(number, async move {
            Answer::OfKeeper(session.read(readings, None).await.map(SessionResult::Found))
        });
        Ok(())
    }

    /// Execute all operations or none: ("create", path, data, ephemeral, sequential), ("remove",
    /// path, version), ("put", path, data, version), ("check", path, version), ("absent", path);
    /// version None matches any. The answer has a path, a version or None for each.
    fn multi(
        &self,
        number: u64,
        session: u64,
        operations: Vec<Bound<'_, PyTuple>>,
    ) -> PyResult<()> {
        let session = self.requests.session(session);
        let operations = operations.iter().map(operation).collect::<PyResult<_>>()?;
        self.begin(number, async move {
            Answer::OfKeeper(session.multi(operations).await.map(SessionResult::Done))
        });
        Ok(())
    }

    /// Let later reads see what the leader had committed when this call reached it.
    fn sync(&self, number: u64, session: u64) {
        let session = self.requests.session(session);
        self.begin(number, async move {
            Answer::OfKeeper(session.sync().await.map(|()| SessionResult::Synced))
        });
    }

    /// Close the session, which removes its ephemeral nodes, without waiting.
    fn close(&self, session: u64) {
        self.requests.close(session);
    }

    /// Return the answer when the number is due, once; or instead the error: a ClickHouse
    /// server's code and text, or ZooKeeper's code and path.
    fn answer<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Bound<'py, AnswerOrError>> {
        match self.requests.take(number) {
            Answer::OfServer(Ok(block)) => (columns(py, &block)?, py.None()).into_pyobject(py),
            Answer::OfKeeper(Ok(said)) => (said_of(py, said)?, py.None()).into_pyobject(py),
            Answer::OfServer(Err(error)) => {
                (py.None(), (error.code, &*error.text)).into_pyobject(py)
            }
            Answer::OfKeeper(Err(error)) => {
                (py.None(), (error.code, &*error.path)).into_pyobject(py)
            }
        }
    }
}

/// Adds `harness.native.simulator` to the extension module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    allocator::keep_memory();
    // FETCH_NS: int
    // Median time of reading, sending and writing a small part.
    module.add("FETCH_NS", FETCH_NS)?;
    module.add_class::<disks::Disks>()?;
    module.add_class::<machines::Machines>()?;
    module.add_class::<members::Members>()?;
    module.add_class::<Simulation>()
}
