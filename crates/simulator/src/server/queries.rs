//! Executes the queries of clients and of other servers.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use crate::block::Block;
use crate::bugs::Bug;
use crate::errors::{QueryError, ServerError};
use crate::protocol::Mechanism;
use crate::server::grouping::{counted, groups, hashes};
use crate::server::{database_of, Refusal, Reply, Running, Server, Settings};
use crate::sql::clauses::{rows_of, split_list};
use crate::sql::{unknown, Creation, Grouping, Query, Select, Statement};
use crate::system_tables::{system_rows, undone};
use crate::table::alter::alter;
use crate::table::detached::{attach_partition, check_detachable};
use crate::table::drop_range::drop_partition;
use crate::table::drop_replica::drop_replica;
use crate::table::entries::{Columns, EntryKind};
use crate::table::insert::insert;
use crate::table::move_to_table::move_to_table;
use crate::table::moves::move_partition;
use crate::table::mutation;
use crate::table::optimize::optimize;
use crate::table::part_files;
use crate::table::parts::{Row, Value};
use crate::table::quorum::QuorumKind;
use crate::table::quorum_wait::Wanted;
use crate::table::references::References;
use crate::table::replace_range::{copy_partition, sync_replica};
use crate::table::replica::{Table, TableDisk, View};
use crate::table::select::{answer, Reading};
use crate::table::shared;
use crate::table::view::{self, push};
use crate::world::{Ns, Promise, MS};

/// Median time of parsing, planning and reading a few rows.
const READ_NS: Ns = 6 * MS;
const NEVER_NS: Ns = 1 << 62;
/// Time after which a query that has not begun shows that the server is overloaded.
const LATE_NS: Ns = 5 * MS;

impl Server {
    /// Starts a query, an INSERT with its rows. `answer` receives the reply.
    pub fn ask(
        self: &Rc<Self>,
        answer: Promise<Reply>,
        query: Rc<Query>,
        rows: Option<Vec<Row>>,
        settings: Rc<Settings>,
    ) {
        let number = self.asked.get() + 1;
        self.asked.set(number);
        let mut running = self.running.borrow_mut();
        let last = running.last().map(|last| last.number);
        assert!(
            last.is_none_or(|last| last < number),
            "query numbers increase"
        );
        running.push(Running::new(number, &query, answer));
        drop(running);
        let server = self.clone();
        // Frequent statements get tasks that are no larger than they need.
        match (query.statement(), rows) {
            (Ok(Statement::Select(select)), None) => {
                let select = select.clone();
                self.spawn(async move {
                    let result = server.select(&select, &settings).await;
                    server.ended(number, result);
                });
            }
            (Ok(Statement::Values { table }), Some(rows)) => {
                let (table, asked_ns) = (table.clone(), self.world.now_ns());
                self.spawn(async move {
                    let result = server.put(&table, rows, &settings, asked_ns).await;
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
        self.world.spawn(Some(&self.host.process), work);
    }

    /// Replies to a query.
    fn ended(&self, number: u64, result: Result<Rc<Block>, QueryError>) {
        let mut running = self.running.borrow_mut();
        let found = running.binary_search_by_key(&number, |running| running.number);
        let answer = found.ok().map(|at| running.remove(at).answer);
        drop(running);
        if let Some(answer) = answer {
            let reply = result.map_err(|trouble| Refusal::Error(trouble.into()));
            answer.set(&self.world, reply);
        }
    }

    /// Returns the table; error 60 if it does not exist.
    fn table(&self, name: &str) -> Result<Rc<Table>, ServerError> {
        let found = self.tables.borrow().get(name).cloned();
        found.ok_or_else(|| ServerError::new(60, format!("Table {name} doesn't exist.")))
    }

    /// Returns the end of the max_execution_time of a query that begins now.
    fn end_of(&self, settings: &Settings) -> Ns {
        let process = &self.host.process;
        let timer_ns = settings.max_execution_ns.map(|ns| process.timer_ns(ns));
        self.world.now_ns() + timer_ns.unwrap_or(NEVER_NS)
    }

    async fn put(
        &self,
        table: &str,
        rows: Vec<Row>,
        settings: &Settings,
        asked_ns: Ns,
    ) -> Result<Rc<Block>, QueryError> {
        let table = self.table(table)?;
        let kind = match settings.insert_quorum_parallel {
            true => QuorumKind::Parallel,
            false => QuorumKind::Serial,
        };
        if kind == QuorumKind::Parallel && !table.mechanisms.has(Mechanism::ParallelQuorum) {
            let text = "Unknown setting insert_quorum_parallel";
            return Err(ServerError::new(115, text).into());
        }
        let wanted = Wanted {
            quorum: settings.insert_quorum,
            kind,
            timeout_ms: settings.insert_quorum_timeout,
            deduplicate: settings.insert_deduplicate,
            is_awaited: !table.bugs.has(Bug::ShedQuorum)
                || self.world.now_ns() - asked_ns < LATE_NS,
            until_ns: self.end_of(settings),
        };
        let views = table.disk.views.borrow().clone();
        if views.is_empty() {
            insert(&table, rows, &wanted).await?;
        } else {
            let deduplicates = settings.deduplicate_in_views;
            Box::pin(self.insert_viewed(&table, rows, &wanted, &views, deduplicates)).await?;
        }
        Ok(Rc::default())
    }

    /// Inserts rows into a table with views, and then into the tables of these.
    async fn insert_viewed(
        &self,
        table: &Rc<Table>,
        rows: Vec<Row>,
        wanted: &Wanted,
        views: &[View],
        deduplicates: bool,
    ) -> Result<(), QueryError> {
        let to = views.iter().map(|view| self.table(&view.to));
        let to: Vec<_> = to.collect::<Result<_, _>>()?;
        let is_known = insert(table, rows.clone(), wanted).await?;
        let skipped = is_known && table.bugs.has(Bug::ViewSkipsDuplicate);
        for to in to.iter().filter(|_| !skipped) {
            push(to, rows.clone(), wanted, deduplicates).await?;
        }
        Ok(())
    }

    async fn query(
        self: &Rc<Self>,
        query: &Rc<Query>,
        settings: &Rc<Settings>,
    ) -> Result<Rc<Block>, QueryError> {
        match query.statement()? {
            Statement::Number(number) => return Ok(Block::row([Value::Int(*number)]).into()),
            Statement::Now { unit_ns } => {
                let now = self.world.wall_ns(self.host.node).div_euclid(*unit_ns);
                return Ok(Block::row([Value::Int(now)]).into());
            }
            Statement::Select(_) => unreachable!("ask handles selects"),
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
                return self.put(table, rows, settings, self.world.now_ns()).await;
            }
            Statement::Describe { table } => {
                let columns = self.table(table)?.columns();
                let names = columns.names.iter().cloned().map(Value::Text);
                return Ok(Rc::new(names.map(|name| [name]).collect()));
            }
            Statement::Hashes { table } => {
                let table = self.table(table)?;
                return Ok(hashes(&table).into());
            }
            Statement::MutationsToDo { database } => {
                let count = undone(self, database).rows().len() as i64;
                return Ok(Block::row([Value::Int(count)]).into());
            }
            Statement::CreateDatabase => {}
            Statement::CreateTable(creation) => self.create(creation).await?,
            Statement::DropTable { table } => self.drop_tables(|name| name == &**table),
            Statement::DropDatabase { database } => {
                self.drop_tables(|name| database_of(name) == &**database);
            }
            Statement::Mutate { table, change } => {
                let table = self.table(table)?;
                mutation::order(&table, change, settings.mutations_sync).await?;
            }
            Statement::AlterColumn {
                table,
                column,
                added,
            } => {
                let sync = settings.replication_alter_partitions_sync;
                alter(&self.table(table)?, column, *added, sync).await?;
            }
            Statement::Optimize {
                table,
                partition,
                is_final,
            } => {
                let table = self.table(table)?;
                let zk = table.writable()?;
                if table.leader.get() {
                    optimize(&table, partition.as_deref(), *is_final, settings).await?;
                } else {
                    self.pass_to_leader(&table, &zk, query, settings).await?;
                }
            }
            Statement::DropPartition {
                table,
                partition,
                detach,
            } => {
                let table = self.table(table)?;
                let zk = table.writable()?;
                let kind = if *detach {
                    check_detachable(&table)?;
                    EntryKind::Detach
                } else {
                    EntryKind::Drop
                };
                if table.leader.get() {
                    drop_partition(&table, partition, kind, settings).await?;
                } else {
                    self.pass_to_leader(&table, &zk, query, settings).await?;
                }
            }
            Statement::AttachPartition { table, partition } => {
                let until_ns = self.end_of(settings);
                attach_partition(&self.table(table)?, partition, until_ns).await?;
            }
            Statement::MovePartition {
                table,
                partition,
                volume,
            } => {
                let table = self.table(table)?;
                move_partition(&table, partition, **volume == *"remote").await?;
            }
            Statement::MoveToTable {
                table,
                partition,
                to,
            } => {
                let (table, to) = (self.table(table)?, self.table(to)?);
                move_to_table(&table, &to, partition, settings).await?;
            }
            Statement::CopyPartition {
                table,
                partition,
                from,
                replaces,
            } => {
                let (table, from) = (self.table(table)?, self.table(from)?);
                copy_partition(&table, &from, partition, *replaces, settings).await?;
            }
            Statement::CreateView {
                view,
                table,
                to,
                columns,
            } => {
                let (table, to) = (self.table(table)?, self.table(to)?);
                view::add(&table, &to, view, &split_list(columns))?;
            }
            Statement::SyncReplica { table } => sync_replica(&self.table(table)?).await?,
            Statement::DropReplica { replica, table } => {
                drop_replica(&self.table(table)?, replica).await?;
            }
            Statement::Fetches { stopped, table } => self.fetches(*stopped, table.as_deref()),
        }
        Ok(Rc::default())
    }

    fn select<'a>(
        &'a self,
        select: &'a Select,
        settings: &'a Settings,
    ) -> impl Future<Output = Result<Rc<Block>, QueryError>> + 'a {
        let table = self.table(&select.table);
        async move {
            let table = table?;
            self.world.work(self.world.around(READ_NS)).await;
            self.open_parts(&table)?;
            let reading = self.reading(settings)?;
            let selection = select.prepared(&table.schema);
            if table.disk.storage.on_store {
                Box::pin(self.read_objects(&table, selection.partition.as_deref())).await?;
            }
            let rows = if self.disk.device.quiet() {
                answer(&table, reading, &selection).await?
            } else {
                Box::pin(part_files::select(&table, reading, &selection)).await?
            };
            Ok(match select.grouping {
                Grouping::Nothing => rows,
                Grouping::First => groups(&rows),
                Grouping::Row => counted(&rows),
            })
        }
    }

    /// Opens the files of the visible parts. 18.16.1 lets a part be checked that it cannot open
    /// (reportBrokenPart).
    fn open_parts(&self, table: &Table) -> Result<(), ServerError> {
        if self.host.lacks_files() {
            if let Some(part) = table.active.borrow().values().next() {
                if table.bugs.has(Bug::ShortageAsBroken) {
                    table.missing.add(&part.info);
                }
                return self.host.open(&part.name);
            }
        }
        Ok(())
    }

    /// Reads the objects of the visible parts.
    async fn read_objects(
        &self,
        table: &Table,
        partition: Option<&str>,
    ) -> Result<(), ServerError> {
        let names: Vec<_> = {
            let active = table.active.borrow();
            let parts = active.values();
            let parts =
                parts.filter(|part| partition.is_none_or(|one| *part.info.partition == *one));
            parts.map(|part| part.name.clone()).collect()
        };
        shared::read(table, names.iter()).await
    }

    /// Returns the meaning of a select's settings; error 36 for an unknown one.
    fn reading(&self, settings: &Settings) -> Result<Reading, ServerError> {
        if !settings.select_sequential_consistency {
            return Ok(Reading::Plain);
        }
        let name = settings.sequential_reading.as_ref();
        let name = name.unwrap_or(&self.common.reading);
        Reading::from_name(name).ok_or_else(|| {
            let text = format!("sequential_reading {name}: unknown");
            ServerError::new(36, text)
        })
    }

    async fn create(self: &Rc<Self>, creation: &Creation) -> Result<(), QueryError> {
        let name = &creation.table;
        if self.tables.borrow().contains_key(name) {
            return Ok(());
        }
        let expires = creation.schema.ttl.is_some();
        if expires && !self.host.deployment.mechanisms.has(Mechanism::RowTtl) {
            return Err(ServerError::new(48, "A TTL is simulated of 25.8").into());
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
            columns: RefCell::new(Rc::new(Columns {
                names: creation.schema.columns.clone(),
                version: 0,
            })),
            settings,
            device: self.disk.device.clone(),
            parts: RefCell::default(),
            removed: RefCell::default(),
            detached: RefCell::default(),
            views: RefCell::default(),
            storage: creation.storage,
            references: References::default(),
        });
        self.add(disk, false).await
    }

    /// Adds a table with nothing on its disk. `clones` says that other replicas may have rows.
    pub async fn add(self: &Rc<Self>, disk: Rc<TableDisk>, clones: bool) -> Result<(), QueryError> {
        let (name, table) = (disk.name.clone(), Table::new(self.clone(), disk.clone()));
        table.create(&self.host.keeper().await?, clones).await?;
        self.disk.tables.borrow_mut().insert(name.clone(), disk);
        let before = self.tables.borrow_mut().insert(name, table.clone());
        assert!(before.is_none(), "a table is created once");
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
        for table in self.tables.borrow().values() {
            table
                .disk
                .views
                .borrow_mut()
                .retain(|view| !wanted(&view.name));
        }
        for name in names {
            let table = self.tables.borrow_mut().shift_remove(&name);
            let before = table.expect("the table exists").dropped.replace(true);
            assert!(!before, "a table is dropped once");
            self.disk.tables.borrow_mut().shift_remove(&name);
        }
    }

    /// Stops or starts the fetches of one table, or of all tables.
    fn fetches(&self, stopped: bool, name: Option<&str>) {
        let tables: Vec<_> = self.tables.borrow().values().cloned().collect();
        for table in tables {
            if name.is_none_or(|name| name == &*table.name) {
                table.fetches_stopped.set(stopped);
                table.queue.wake();
            }
        }
    }
}
