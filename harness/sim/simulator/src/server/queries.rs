//! What is asked of a server, by clients and by the others.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::block::Block;
use crate::errors::{ServerError, Trouble};
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::child;
use crate::server::{database_of, Refusal, Reply, Server, Settings};
use crate::sql::{rows_of, unknown, Creation, Statement};
use crate::system_tables::{system_rows, undone};
use crate::table::insert::insert;
use crate::table::mutation;
use crate::table::optimize::optimize;
use crate::table::parts::{spelled_rows, Part, Row, Value};
use crate::table::replica::{Table, TableDisk};
use crate::table::schema::{Conditions, Schema};
use crate::table::select::{visible, READINGS};
use crate::world::{Ns, Promise, MS};

/// Parsing, planning and reading a few rows, median.
const READ_NS: Ns = 6 * MS;

impl Server {
    /// Begins a query, an INSERT with its rows; `answer` gets what comes of it.
    pub fn ask(
        self: &Rc<Self>,
        answer: Promise<Reply>,
        sql: Rc<str>,
        rows: Option<Vec<Row>>,
        settings: Rc<Settings>,
    ) {
        let number = self.asked.get() + 1;
        self.asked.set(number);
        self.running.borrow_mut().insert(number, answer.clone());
        let server = self.clone();
        self.world.spawn(Some(&self.process), async move {
            let result = match rows {
                None => server.query(&sql, &settings).await,
                Some(rows) => server.insert(&sql, rows, &settings).await,
            };
            let reply = result.map_err(|trouble| Refusal::Error(trouble.into()));
            answer.set(&server.world, reply);
            server.running.borrow_mut().shift_remove(&number);
        });
    }

    /// Error 60 when there is none of that name.
    fn table(&self, name: &str) -> Result<Rc<Table>, ServerError> {
        let found = self.tables.borrow().get(name).cloned();
        found.ok_or_else(|| ServerError::new(60, format!("Table {name} doesn't exist.")))
    }

    async fn insert(
        &self,
        sql: &str,
        rows: Vec<Row>,
        settings: &Settings,
    ) -> Result<Block, Trouble> {
        let words: Vec<_> = sql.split_whitespace().collect();
        match words[..] {
            [first, _, table, .., last]
                if first.eq_ignore_ascii_case("INSERT") && last.eq_ignore_ascii_case("VALUES") =>
            {
                self.put(table, rows, settings).await
            }
            _ => Err(unknown(sql).into()),
        }
    }

    async fn put(
        &self,
        table: &str,
        rows: Vec<Row>,
        settings: &Settings,
    ) -> Result<Block, Trouble> {
        let quorum = usize::try_from(settings.number("insert_quorum", 0)).unwrap_or(0);
        let timeout_ms = settings.number("insert_quorum_timeout", 600_000);
        let deduplicate = settings.number("insert_deduplicate", 1) != 0;
        insert(&self.table(table)?, rows, quorum, timeout_ms, deduplicate).await?;
        Ok(Block::default())
    }

    async fn query(
        self: &Rc<Self>,
        sql: &Rc<str>,
        settings: &Rc<Settings>,
    ) -> Result<Block, Trouble> {
        match &*self.common.statements.parsed(sql)? {
            Statement::Number(number) => return Ok(Block::row([Value::Int(*number)])),
            Statement::Select {
                what,
                table,
                condition,
            } => {
                return self
                    .select(what, table, condition.as_deref(), settings)
                    .await
            }
            Statement::Groups {
                what,
                table,
                condition,
            } => return self.groups(what, table, condition, settings).await,
            Statement::Insert {
                table,
                columns,
                count,
            } => return self.put(table, rows_of(columns, *count), settings).await,
            Statement::Hashes { table } => {
                let table = self.table(table)?;
                return Ok(hashes(&table));
            }
            Statement::MutationsToDo { database } => {
                let count = undone(self, database).rows().len() as i64;
                return Ok(Block::row([Value::Int(count)]));
            }
            Statement::MutationsUndone { database } => return Ok(undone(self, database)),
            Statement::CreateDatabase => {}
            Statement::CreateTable(creation) => self.create(creation).await?,
            Statement::DropTable { table } => self.drop_tables(|name| name == &**table),
            Statement::DropDatabase { database } => {
                self.drop_tables(|name| database_of(name) == &**database);
            }
            Statement::Mutate { table, change } => {
                mutation::order(&self.table(table)?, change).await?;
            }
            Statement::Optimize {
                table,
                partition,
                is_final,
            } => {
                let table = self.table(table)?;
                let zk = table.writable()?;
                if table.leader.get() {
                    let wait = settings.number("replication_alter_partitions_sync", 1) != 0;
                    optimize(&table, partition.as_deref(), *is_final, wait).await?;
                } else {
                    self.pass_to_leader(&table, &zk, sql, settings).await?;
                }
            }
            Statement::Fetches { stopped, table } => self.fetches(*stopped, table.as_deref()),
        }
        Ok(Block::default())
    }

    async fn select(
        &self,
        what: &str,
        name: &str,
        condition: Option<&str>,
        settings: &Settings,
    ) -> Result<Block, Trouble> {
        if let Some(name) = name.strip_prefix("system.") {
            return system_rows(self, name, what, condition.unwrap_or("")).await;
        }
        let table = self.table(name)?;
        self.world.sleep(self.world.around(READ_NS)).await;
        let reading = self.reading(settings)?;
        let conditions = table.schema.conditions(condition.unwrap_or(""));
        if what.contains("_part") {
            let what = what.replace(", _part", "");
            let parts = visible(&table, reading, None).await?;
            let conditions = conditions?;
            let mut out = Block::new(what.split(',').count() + 1);
            for part in parts {
                let name = Value::Text(part.name.clone());
                let rows = selected(&table.schema, &what, &conditions, part.rows.iter())?;
                for row in rows.rows() {
                    out.push(row.iter().chain([&name]).cloned());
                }
            }
            return Ok(out);
        }
        let known = conditions.as_ref().ok();
        let partition = known.and_then(|known| table.schema.partition_of(known));
        let parts = visible(&table, reading, partition.as_deref()).await?;
        let rows = parts.iter().flat_map(|part| part.rows.iter());
        Ok(selected(&table.schema, what, &conditions?, rows)?)
    }

    /// What a select is to read. Error 36 for what is no reading.
    fn reading<'a>(&'a self, settings: &'a Settings) -> Result<&'a str, ServerError> {
        if settings.number("select_sequential_consistency", 0) == 0 {
            return Ok("plain");
        }
        let reading = match settings.0.get("sequential_reading") {
            Some(Value::Text(reading)) => reading,
            _ => &self.common.reading,
        };
        if READINGS.contains(&&**reading) {
            Ok(reading)
        } else {
            let text = format!("sequential_reading {reading}: unknown");
            Err(ServerError::new(36, text))
        }
    }

    /// For each value of a column how many rows have it, and another column of one of them.
    async fn groups(
        &self,
        what: &str,
        table: &str,
        condition: &str,
        settings: &Settings,
    ) -> Result<Block, Trouble> {
        let mut groups: BTreeMap<Value, (i64, Value)> = BTreeMap::new();
        let rows = self.select(what, table, Some(condition), settings).await?;
        for row in rows.rows() {
            let group = groups.entry(row[0].clone()).or_insert((0, row[1].clone()));
            *group = (group.0 + 1, row[1].clone());
        }
        let groups = groups.into_iter();
        Ok(groups
            .map(|(value, (count, some))| [value, Value::Int(count), some])
            .collect())
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
            schema: creation.schema.clone(),
            settings,
            parts: RefCell::default(),
        });
        let table = Table::new(self, disk.clone());
        table.create(&self.keeper().await?).await?;
        self.disk.tables.borrow_mut().insert(name.clone(), disk);
        self.tables.borrow_mut().insert(name.clone(), table.clone());
        self.world.spawn(Some(&self.process), table.clone().live());
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
        sql: &Rc<str>,
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
            .forward(&self.peer(leader.as_text()), sql, settings)
            .await?)
    }

    /// Error 210 when the peer's process ends.
    async fn forward(
        self: &Rc<Self>,
        peer: &Rc<Server>,
        sql: &Rc<str>,
        settings: &Rc<Settings>,
    ) -> Result<(), ServerError> {
        if !peer.process.alive() {
            let text = format!("Connection refused by {}", peer.name);
            return Err(ServerError::new(210, text));
        }
        let answer = Promise::new();
        let (asker, asked, awaited) = (self.clone(), peer.clone(), answer.clone());
        let (sql, settings) = (sql.clone(), settings.clone());
        let ask = move || asked.ask_for(asker, awaited, sql, settings);
        let network = &self.ensemble.network;
        network.send(self.node, peer.node, Some(&peer.process), ask);
        self.world.wait(&answer).await
    }

    /// Begins a query of another server's.
    fn ask_for(
        self: &Rc<Self>,
        asker: Rc<Server>,
        answer: Promise<Result<(), ServerError>>,
        sql: Rc<str>,
        settings: Rc<Settings>,
    ) {
        let reply = Promise::new();
        self.ask(reply.clone(), sql, None, settings);
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

fn selected<'a>(
    schema: &Schema,
    what: &str,
    conditions: &Conditions,
    rows: impl Iterator<Item = &'a Row>,
) -> Result<Block, ServerError> {
    let found = rows.filter(|row| conditions.hold(row));
    if what.trim() == "count()" {
        return Ok(Block::row([Value::Int(found.count() as i64)]));
    }
    let columns = what.split(',').map(|column| schema.at(column.trim()));
    let places = columns.collect::<Result<Vec<_>, _>>()?;
    let mut out = Block::new(places.len());
    for row in found {
        for at in &places {
            out.add(row[*at].clone());
        }
    }
    Ok(out)
}
