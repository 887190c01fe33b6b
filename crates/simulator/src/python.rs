//! Defines the Python module `harness.native.simulator`.

mod allocator;
mod disks;
mod generator;
mod interpreter;
mod machines;
mod members;
mod scheduler;
mod value;
mod vocabulary;
mod words;

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use rustc_hash::FxHashMap;

use crate::block::Block;
use crate::bugs::Bugs;
use crate::errors::{KeeperError, ServerError};
use crate::interpreter::is_own;
use crate::keeper::session::{Found, KeeperSession};
use crate::keeper::tree::Done;
use crate::link_quality::LinkFault;
use crate::message_json::message_json;
use crate::network::Node;
use crate::protocol::Mechanisms;
use crate::protocol_trace::trace_json;
use crate::seed::Seed;
use crate::server::Settings;
use crate::simulation::{self, Member, Options, Role};
use crate::table::fetch::FETCH_NS;
use crate::table::parts::Value;
use crate::table::settings::TableSettings;
use crate::world::{Action, Ns};
use allocator::Allocator;
use value::Word;
use words::{columns, found, linked, operation, reading, said_of, texts};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn link_fault(name: &str) -> PyResult<LinkFault> {
    let unknown = || PyValueError::new_err(format!("{name}: no fault of links"));
    LinkFault::of(name).ok_or_else(unknown)
}

/// The result of a session's request.
enum SessionResult {
    Opened(u64),
    Found(Vec<Found>),
    Done(Rc<[Done]>),
    Synced,
}

/// The result of an asynchronous request.
enum Answer {
    OfServer(Result<Rc<Block>, ServerError>),
    OfKeeper(Result<SessionResult, KeeperError>),
}

/// The servers by name, with the callers' requests by number.
#[pyclass(module = "harness.native.simulator")]
pub struct Simulation {
    simulation: Rc<simulation::Simulation>,
    nodes: HashMap<String, Node>,
    answers: Rc<RefCell<FxHashMap<u64, Answer>>>,
    sessions: Rc<RefCell<FxHashMap<u64, Rc<KeeperSession>>>>,
}

// SAFETY: only holders of the interpreter's lock access it. The module requires the lock
// (`gil_used`), and no method releases it, so threads take turns. Garbage is dropped by whichever
// thread collects it.
unsafe impl Send for Simulation {}
// SAFETY: as above.
unsafe impl Sync for Simulation {}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.simulation.end(self.sessions.take().into_values());
    }
}

impl Simulation {
    fn node(&self, name: &str) -> PyResult<Node> {
        found(&self.nodes, name)
    }

    fn links(&self, links: &[(String, String)]) -> PyResult<Vec<(Node, Node)>> {
        linked(&self.nodes, links)
    }

    fn session(&self, session: u64) -> Rc<KeeperSession> {
        let sessions = self.sessions.borrow();
        sessions.get(&session).expect("the session is open").clone()
    }

    /// Starts a request. Its answer makes the caller's event `number` due.
    fn begin(&self, number: u64, work: impl Future<Output = Answer> + 'static) {
        let (world, answers) = (self.simulation.world.clone(), self.answers.clone());
        self.simulation.world.begin(async move {
            let answer = work.await;
            answers.borrow_mut().insert(number, answer);
            world.report_due(number, true);
        });
    }
}

#[pymethods]
impl Simulation {
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
        let member = |(name, role, keepers): &(String, String, Vec<String>)| {
            let keepers = keepers.iter().map(|keeper| found(&places, keeper));
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
        let members = nodes.iter().map(member).collect::<PyResult<_>>()?;
        let bugs = Bugs::from_names(bugs.iter().map(String::as_str));
        let mechanisms = Mechanisms::from_names(mechanisms.iter().map(String::as_str));
        let mut own = TableSettings::default();
        for (name, value) in settings {
            let setting = own.at(&name);
            *setting.ok_or_else(|| PyValueError::new_err(name.clone()))? = value;
        }
        let rates = rates
            .iter()
            .map(|(name, rate)| Ok((found(&places, name)?, *rate)));
        let options = Options {
            bugs: bugs.ok_or_else(|| PyValueError::new_err("unknown bug"))?,
            mechanisms: mechanisms.ok_or_else(|| PyValueError::new_err("unknown mechanism"))?,
            settings: own,
            reading: reading.into(),
            rates: rates.collect::<PyResult<_>>()?,
        };
        let links = linked(&places, &links)?;
        Ok(Simulation {
            simulation: simulation::Simulation::new(members, &links, Seed(seed), options),
            nodes: places,
            answers: Rc::default(),
            sessions: Rc::default(),
        })
    }

    // --- time -----------------------------------------------------------------------------------

    #[getter]
    fn now_ns(&self) -> Ns {
        self.simulation.world.now_ns()
    }

    #[getter]
    fn events(&self) -> u64 {
        self.simulation.world.events()
    }

    fn after(&self, delay_ns: Ns, number: u64, task: bool) {
        self.simulation
            .world
            .after(delay_ns, None, Action::due(number, task));
    }

    fn step(&self, until_ns: Ns) -> Option<u64> {
        let mut due = || self.simulation.world.step(until_ns);
        std::iter::from_fn(&mut due).find(|&number| !is_own(number))
    }

    fn outside(&self) {
        self.simulation.world.outside();
    }

    // --- processes ------------------------------------------------------------------------------

    fn up(&self) {
        self.simulation.up();
    }

    fn kill(&self, name: &str) -> PyResult<()> {
        self.simulation.kill(self.node(name)?);
        Ok(())
    }

    fn stop(&self, name: &str) -> PyResult<()> {
        self.simulation.stop(self.node(name)?);
        Ok(())
    }

    fn start(&self, name: &str) -> PyResult<()> {
        self.simulation.start(self.node(name)?);
        Ok(())
    }

    fn pause(&self, name: &str) -> PyResult<()> {
        self.simulation.pause(self.node(name)?);
        Ok(())
    }

    fn resume(&self, name: &str) -> PyResult<()> {
        self.simulation.resume(self.node(name)?);
        Ok(())
    }

    fn running(&self, name: &str) -> PyResult<bool> {
        Ok(self.simulation.running(self.node(name)?))
    }

    fn paused(&self, name: &str) -> PyResult<bool> {
        Ok(self.simulation.paused(self.node(name)?))
    }

    fn tables_led(&self, name: &str) -> PyResult<usize> {
        let node = self.node(name)?;
        if !self.simulation.answers(node) {
            return Ok(0);
        }
        Ok(self.simulation.server(node).tables_led())
    }

    fn answers(&self, name: &str) -> PyResult<bool> {
        Ok(self.simulation.answers(self.node(name)?))
    }

    // --- observation ----------------------------------------------------------------------------

    fn leader(&self) -> Option<&str> {
        let leader = self.simulation.leader();
        leader.map(|node| &*self.simulation.ensemble.names[node])
    }

    fn unready(&self) -> Vec<String> {
        self.simulation.unready()
    }

    fn stop_fetches(&self, names: Vec<String>) -> PyResult<()> {
        for name in names {
            self.simulation.stop_fetches(self.node(&name)?);
        }
        Ok(())
    }

    fn start_fetches(&self, names: Vec<String>) -> PyResult<()> {
        for name in names {
            self.simulation.start_fetches(self.node(&name)?);
        }
        Ok(())
    }

    fn fetching(&self, name: &str) -> PyResult<bool> {
        Ok(self.simulation.fetching(self.node(name)?))
    }

    #[pyo3(signature = (name, ns=None))]
    fn fetch_ns(&self, name: &str, ns: Option<Ns>) -> PyResult<Ns> {
        let own = self.simulation.fetch_ns(self.node(name)?);
        own.set(ns.unwrap_or(own.get()));
        Ok(own.get())
    }

    fn objects(&self, name: &str) -> PyResult<Vec<(String, i64)>> {
        let objects = self.simulation.objects(self.node(name)?).into_iter();
        Ok(objects.map(|(key, size)| (key.to_string(), size)).collect())
    }

    fn transactions<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let log = self.simulation.transactions(self.node(name)?);
        Ok(PyBytes::new(py, &log))
    }

    fn log_messages(&self) {
        self.simulation.ensemble.messages.start();
    }

    fn messages<'py>(&self, py: Python<'py>, ahead_ns: Ns) -> Bound<'py, PyBytes> {
        let ensemble = &self.simulation.ensemble;
        let messages = ensemble.messages.messages();
        PyBytes::new(py, &message_json(&messages, &ensemble.names, ahead_ns))
    }

    fn cover(&self) {
        self.simulation.trace.borrow_mut().coverage = Some(Box::default());
    }

    fn coverage<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, (u64, u64, u64))> {
        let trace = self.simulation.trace.borrow();
        let coverage = trace.coverage.as_ref();
        let coverage = coverage.ok_or_else(|| PyValueError::new_err("not measured"))?;
        let (elements, far) = coverage.covered(self.simulation.ensemble.read_lag.get());
        let bytes: Vec<u8> = elements.into_iter().flat_map(u32::to_le_bytes).collect();
        let far = (far.read_lag, far.log_lag, far.quorum_steps);
        Ok((PyBytes::new(py, &bytes), far))
    }

    fn record<'py>(&self, py: Python<'py>, ahead_ns: Ns) -> Bound<'py, PyBytes> {
        self.simulation.finish_trace();
        let trace = self.simulation.trace.borrow();
        PyBytes::new(py, &trace_json(&trace.facts, ahead_ns))
    }

    fn replica<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        table: &str,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
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

    fn cut(&self, links: Vec<(String, String)>) -> PyResult<()> {
        self.simulation.ensemble.network.cut(&self.links(&links)?);
        Ok(())
    }

    fn mend(&self) {
        self.simulation.ensemble.network.mend();
    }

    fn degrade(&self, links: Vec<(String, String)>, fault: &str, amount: f64) -> PyResult<()> {
        let (links, fault) = (self.links(&links)?, link_fault(fault)?);
        let network = &self.simulation.ensemble.network;
        network.degrade(&links, fault, amount);
        Ok(())
    }

    fn amount(&self, source: &str, target: &str, fault: &str) -> PyResult<f64> {
        let (source, target) = (self.node(source)?, self.node(target)?);
        let network = &self.simulation.ensemble.network;
        Ok(network.amount(source, target, link_fault(fault)?))
    }

    fn alive(&self, source: &str, target: &str) -> PyResult<bool> {
        let (source, target) = (self.node(source)?, self.node(target)?);
        Ok(self.simulation.ensemble.network.alive(source, target))
    }

    // --- clients --------------------------------------------------------------------------------

    #[pyo3(signature = (number, name, sql, rows, settings, timeout_ns, opened_ns=0))]
    #[allow(clippy::too_many_arguments)] // Python names some of them.
    fn ask(
        &self,
        number: u64,
        name: &str,
        sql: &str,
        rows: Option<Vec<Vec<Word>>>,
        settings: HashMap<String, Word>,
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

    fn open_session(&self, number: u64, keepers: Vec<String>) -> PyResult<()> {
        let keepers = keepers.iter().map(|keeper| self.node(keeper));
        let keepers = keepers.collect::<PyResult<Vec<_>>>()?;
        let (simulation, sessions) = (self.simulation.clone(), self.sessions.clone());
        self.begin(number, async move {
            let opened = simulation.session(&keepers).await;
            Answer::OfKeeper(opened.map(|session| {
                let own = session.number();
                sessions.borrow_mut().insert(own, session);
                SessionResult::Opened(own)
            }))
        });
        Ok(())
    }

    fn read(&self, number: u64, session: u64, readings: Vec<(String, String)>) -> PyResult<()> {
        let session = self.session(session);
        let readings = readings.into_iter().map(reading).collect::<PyResult<_>>()?;
        self.begin(number, async move {
            Answer::OfKeeper(session.read(readings, None).await.map(SessionResult::Found))
        });
        Ok(())
    }

    fn multi(
        &self,
        number: u64,
        session: u64,
        operations: Vec<Bound<'_, PyTuple>>,
    ) -> PyResult<()> {
        let session = self.session(session);
        let operations = operations.iter().map(operation).collect::<PyResult<_>>()?;
        self.begin(number, async move {
            Answer::OfKeeper(session.multi(operations).await.map(SessionResult::Done))
        });
        Ok(())
    }

    fn sync(&self, number: u64, session: u64) {
        let session = self.session(session);
        self.begin(number, async move {
            Answer::OfKeeper(session.sync().await.map(|()| SessionResult::Synced))
        });
    }

    fn close(&self, session: u64) {
        self.session(session).close();
        self.sessions.borrow_mut().remove(&session);
    }

    fn answer<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Bound<'py, PyTuple>> {
        let answer = self.answers.borrow_mut().remove(&number);
        match answer.expect("an answer is taken once, after its event") {
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
    module.add("FETCH_NS", FETCH_NS)?;
    module.add_class::<disks::Disks>()?;
    module.add_class::<generator::Combinator>()?;
    module.add_class::<interpreter::Interpreter>()?;
    module.add_class::<machines::Machines>()?;
    module.add_class::<members::Members>()?;
    module.add_class::<scheduler::Scheduler>()?;
    module.add_class::<scheduler::Assigned>()?;
    module.add_class::<Simulation>()
}
