//! What is asked of a server, by clients and by the others.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use crate::block::Block;
use crate::errors::{ServerError, Trouble};
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::child;
use crate::server::{database_of, Refusal, Reply, Server, Settings};
use crate::sql::{rows_of, unknown, Creation, Query, Select, Statement};
use crate::system_tables::{system_rows, undone};
use crate::table::insert::insert;
use crate::table::mutation;
use crate::table::optimize::optimize;
use crate::table::parts::{spelled_rows, Part, Row, Value};
use crate::table::replica::{Table, TableDisk};
use crate::table::select::{answer, Reading};
use crate::world::{Ns, Promise, MS};

/// Parsing, planning and reading a few rows, median.
const READ_NS: Ns = 6 * MS;

impl Server {
    /// Begins a query, an INSERT with its rows; `answer` gets what comes of it.
    pub fn ask(
        self: &Rc<Self>,
        answer: Promise<Reply>,
        query: Rc<Query>,
        rows: Option<Vec<Row>>,
        settings: Rc<Settings>,
    ) {
        let number = self.asked.get() + 1;
        self.asked.set(number);
        self.running.borrow_mut().push((number, answer));
        let server = self.clone();
        // What is frequent takes no more space than it needs.
        match (query.statement(), rows) {
            (Ok(Statement::Select(select)), None) => {
                let select = select.clone();
                self.spawn(async move {
                    let result = server.select(&select, &settings).await;
                    server.ended(number, result);
                });
            }
            (Ok(Statement::Values { table }), Some(rows)) => {
                let table = table.clone();
                self.spawn(async move {
                    let result = server.put(&table, rows, &settings).await;
                    server.ended(number, result);
                });
            }
            (_, Some(_)) => self.spawn(async move {
                let error = unknown(&query.text);
                server.ended(number, Err(error.into()));
            }),
            (_, None) => self.spawn(async move {
                let result = server.query(&query, &settings).await;
                server.ended(number, result);
            }),
        }
    }

    fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        self.world.spawn(Some(&self.process), work);
    }

    /// A query has its answer.
    fn ended(&self, number: u64, result: Result<Rc<Block>, Trouble>) {
        let mut running = self.running.borrow_mut();
        let found = running.binary_search_by_key(&number, |(number, _)| *number);
        let answer = found.ok().map(|at| running.remove(at).1);
        drop(running);
        if let Some(answer) = answer {
            let reply = result.map_err(|trouble| Refusal::Error(trouble.into()));
            answer.set(&self.world, reply);
        }
    }

    /// Error 60 when there is none of that name.
    fn table(&self, name: &str) -> Result<Rc<Table>, ServerError> {
        let found = self.tables.borrow().get(name).cloned();
        found.ok_or_else(|| ServerError::new(60, format!("Table {name} doesn't exist.")))
    }

    async fn put(
        &self,
        table: &str,
        rows: Vec<Row>,
        settings: &Settings,
    ) -> Result<Rc<Block>, Trouble> {
        let quorum = usize::try_from(settings.insert_quorum).unwrap_or(0);
        let timeout_ms = settings.insert_quorum_timeout;
        let deduplicate = settings.insert_deduplicate;
        insert(&self.table(table)?, rows, quorum, timeout_ms, deduplicate).await?;
        Ok(Rc::default())
    }

    async fn query(
        self: &Rc<Self>,
        query: &Rc<Query>,
        settings: &Rc<Settings>,
    ) -> Result<Rc<Block>, Trouble> {
        match query.statement()? {
            Statement::Number(number) => return Ok(Block::row([Value::Int(*number)]).into()),
            Statement::Select(_) => unreachable!("a select is answered beside all others"),
            Statement::System {
                what,
                table,
                condition,
            } => return Ok(system_rows(self, table, what, condition).await?.into()),
            Statement::Values { .. } => return Err(unknown(&query.text).into()),
            Statement::Insert {
                table,
                columns,
                count,
            } => {
                let rows = rows_of(columns, *count);
                return self.put(table, rows, settings).await;
            }
            Statement::Hashes { table } => {
                let table = self.table(table)?;
                return Ok(hashes(&table).into());
            }
            Statement::MutationsToDo { database } => {
                let count = undone(self, database).rows().len() as i64;
                return Ok(Block::row([Value::Int(count)]).into());
            }
            Statement::MutationsUndone { database } => return Ok(undone(self, database).into()),
            Statement::CreateDatabase => {}
            Statement::CreateTable(creation) => self.create(creation).await?,
            Statement::DropTable { table } => self.drop_tables(|name| name == &**table),
            Statement::DropDatabase { database } => {
                self.drop_tables(|name| database_of(name) == &**database);
            }
            Statement::Mutate { table, change } => {
                let table = self.table(table)?;
                mutation::order(&table, change).await?;
            }
            Statement::Optimize {
                table,
                partition,
                is_final,
            } => {
                let table = self.table(table)?;
                let zk = table.writable()?;
                if table.leader.get() {
                    let wait = settings.replication_alter_partitions_sync != 0;
                    let partition = partition.as_deref();
                    optimize(&table, partition, *is_final, wait).await?;
                } else {
                    self.pass_to_leader(&table, &zk, query, settings).await?;
                }
            }
            Statement::Fetches { stopped, table } => self.fetches(*stopped, table.as_deref()),
        }
        Ok(Rc::default())
    }

    fn select<'a>(
        &'a self,
        select: &'a Select,
        settings: &'a Settings,
    ) -> impl Future<Output = Result<Rc<Block>, Trouble>> + 'a {
        let table = self.table(&select.table);
        async move {
            let table = table?;
            self.world.sleep(self.world.around(READ_NS)).await;
            let reading = self.reading(settings)?;
            let rows = answer(&table, reading, &select.prepared(&table.schema)).await?;
            Ok(if select.groups { groups(&rows) } else { rows })
        }
    }

    /// What a select is to read. Error 36 for what is no reading.
    fn reading(&self, settings: &Settings) -> Result<Reading, ServerError> {
        if !settings.select_sequential_consistency {
            return Ok(Reading::Plain);
        }
        let name = settings.sequential_reading.as_ref();
        let name = name.unwrap_or(&self.common.reading);
        Reading::named(name).ok_or_else(|| {
            let text = format!("sequential_reading {name}: unknown");
            ServerError::new(36, text)
        })
    }

    async fn create(self: &Rc<Self>, creation: &Creation) -> Result<(), Trouble> {
        let name = &creation.table;
        if self.tables.borrow().contains_key(name) {
            return Ok(());
        }
        let mut settings = self.common.defaults.clone();
        for (name, value) in &creation.settings {
            if let Some(setting) = settings.at(name) {
                *setting = *value;
            }
        }
        let disk = Rc::new(TableDisk {
            name: name.clone(),
            path: creation.path.clone(),
            schema: self.common.schema(&creation.schema),
            settings,
            parts: RefCell::default(),
        });
        let table = Table::new(self, disk.clone());
        table.create(&self.keeper().await?).await?;
        self.disk.tables.borrow_mut().insert(name.clone(), disk);
        self.tables.borrow_mut().insert(name.clone(), table.clone());
        self.spawn(table.clone().live());
        while table.readonly.get() {
            self.world.sleep(5 * MS).await;
        }
        Ok(())
    }

    fn drop_tables(&self, wanted: impl Fn(&str) -> bool) {
        let names: Vec<_> = self
            .tables
            .borrow()
            .keys()
            .filter(|name| wanted(name))
            .cloned()
            .collect();
        for name in names {
            let table = self.tables.borrow_mut().shift_remove(&name);
            table.expect("it is there").dropped.set(true);
            self.disk.tables.borrow_mut().shift_remove(&name);
        }
    }

    /// Of a table, or of all that exist.
    fn fetches(&self, stopped: bool, name: Option<&str>) {
        let tables: Vec<_> = self.tables.borrow().values().cloned().collect();
        for table in tables {
            if name.is_none_or(|name| name == &*table.name) {
                table.fetches_stopped.set(stopped);
                table.queue.wake();
            }
        }
    }

    /// A replica that does not lead asks the one that does.
    async fn pass_to_leader(
        self: &Rc<Self>,
        table: &Table,
        zk: &KeeperSession,
        query: &Rc<Query>,
        settings: &Rc<Settings>,
    ) -> Result<(), Trouble> {
        let election = table.paths.leader_election.clone();
        let line = zk.children(&*election).await?;
        let Some(first) = line.first() else {
            return Err(ServerError::new(254, "No active replicas").into());
        };
        let leader = zk.data(child(&election, first)).await?;
        if leader.as_text() == &*self.name {
            let text = "Leader was suddenly changed or logical error.";
            return Err(ServerError::new(292, text).into());
        }
        Ok(self
            .forward(&self.peer(leader.as_text()), query, settings)
            .await?)
    }

    /// Error 210 when the peer's process ends.
    async fn forward(
        self: &Rc<Self>,
        peer: &Rc<Server>,
        query: &Rc<Query>,
        settings: &Rc<Settings>,
    ) -> Result<(), ServerError> {
        if !peer.process.alive() {
            let text = format!("Connection refused by {}", peer.name);
            return Err(ServerError::new(210, text));
        }
        let answer = Promise::new();
        let (asker, asked, awaited) = (self.clone(), peer.clone(), answer.clone());
        let (query, settings) = (query.clone(), settings.clone());
        let ask = move || asked.ask_for(asker, awaited, query, settings);
        let network = &self.ensemble.network;
        network.send(self.node, peer.node, Some(&peer.process), ask);
        self.world.wait(&answer).await
    }

    /// Begins a query of another server's.
    fn ask_for(
        self: &Rc<Self>,
        asker: Rc<Server>,
        answer: Promise<Result<(), ServerError>>,
        query: Rc<Query>,
        settings: Rc<Settings>,
    ) {
        let reply = Promise::new();
        self.ask(reply.clone(), query, None, settings);
        let server = self.clone();
        self.world.spawn(None, async move {
            let result = match server.world.wait(&reply).await {
                Ok(_) => Ok(()),
                Err(Refusal::Error(error)) => Err(error),
                Err(Refusal::Reset) => {
                    let text = format!("Connection reset by {}", server.name);
                    Err(ServerError::new(210, text))
                }
            };
            let (world, network) = (server.world.clone(), &server.ensemble.network);
            let set = move || answer.set(&world, result);
            network.send(server.node, asker.node, Some(&asker.process), set);
        });
    }
}

/// For each value of a column how many rows have it, and another column of one of them.
fn groups(rows: &Block) -> Rc<Block> {
    let mut groups: BTreeMap<Value, (i64, Value)> = BTreeMap::new();
    for row in rows.rows() {
        let group = groups.entry(row[0].clone()).or_insert((0, row[1].clone()));
        *group = (group.0 + 1, row[1].clone());
    }
    let groups = groups.into_iter();
    let row = |(value, (count, some))| [value, Value::Int(count), some];
    Rc::new(groups.map(row).collect())
}

/// Of each part that is visible: its name, how many rows it has, and a hash of them.
fn hashes(table: &Table) -> Block {
    let hashed = |part: &Rc<Part>| {
        let mut rows = part.rows.to_vec();
        rows.sort();
        let hash = crc32fast::hash(spelled_rows(&rows, '[', ']').as_bytes());
        let (count, hash) = (Value::Int(rows.len() as i64), Value::Int(i64::from(hash)));
        [Value::Text(part.name.clone()), count, hash]
    };
    table.active.borrow().things().map(hashed).collect()
}
