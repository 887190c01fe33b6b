//! Passes a query that only the leader of its table executes to the leader.

use std::rc::Rc;

use crate::errors::{QueryError, ServerError};
use crate::keeper::session::KeeperSession;
use crate::keeper::tree::child;
use crate::server::{Refusal, Server, Settings, Underway};
use crate::sql::Query;
use crate::table::replica::Table;
use crate::world::Promise;

impl Server {
    /// Forwards a statement to the leading replica, if this replica does not lead.
    pub(super) async fn pass_to_leader(
        self: &Rc<Self>,
        table: &Table,
        zk: &KeeperSession,
        query: &Rc<Query>,
        settings: &Rc<Settings>,
    ) -> Result<(), QueryError> {
        let election = table.paths.leader_election.clone();
        let line = zk.children(&*election).await?;
        let Some(first) = line.first() else {
            return Err(ServerError::new(254, "No active replicas").into());
        };
        let leader = zk.data(child(&election, first)).await?;
        if leader.as_text() == &*self.host.name {
            let text = "Leader was suddenly changed or logical error.";
            return Err(ServerError::new(292, text).into());
        }
        Ok(self
            .forward(&self.peer(leader.as_text()), query, settings)
            .await?)
    }

    /// Sends a query to a peer; error 210 if the peer's process ends before it answers.
    async fn forward(
        self: &Rc<Self>,
        peer: &Rc<Server>,
        query: &Rc<Query>,
        settings: &Rc<Settings>,
    ) -> Result<(), ServerError> {
        if !peer.host.process.alive() {
            let text = format!("Connection refused by {}", peer.host.name);
            return Err(ServerError::new(210, text));
        }
        self.host.connect(&peer.host)?;
        let answer = Promise::new();
        let underway = Underway {
            asker: self.clone(),
            answer: answer.clone(),
        };
        peer.underway.borrow_mut().push(underway);
        let (asker, asked, awaited) = (self.clone(), peer.clone(), answer.clone());
        let (query, settings) = (query.clone(), settings.clone());
        let ask = move || asked.ask_for(asker, awaited, query, settings);
        let network = &self.host.ensemble.network;
        network.send(
            self.host.node,
            peer.host.node,
            Some(&peer.host.process),
            ask,
        );
        self.world.wait(&answer).await
    }

    /// Starts a query on behalf of another server.
    fn ask_for(
        self: &Rc<Self>,
        asker: Rc<Server>,
        answer: Promise<Result<(), ServerError>>,
        query: Rc<Query>,
        settings: Rc<Settings>,
    ) {
        let mut underway = self.underway.borrow_mut();
        underway.retain(|one| !one.answer.is(&answer));
        drop(underway);
        let reply = Promise::new();
        self.ask(reply.clone(), query, None, settings);
        let server = self.clone();
        self.world.spawn(None, async move {
            let result = match server.world.wait(&reply).await {
                Ok(_) => Ok(()),
                Err(Refusal::Error(error)) => Err(error),
                Err(Refusal::Reset) => Err(server.reset()),
            };
            server.reply(Underway { asker, answer }, result);
        });
    }

    /// Replies to the queries that have not arrived when the process ends.
    pub(super) fn reset_underway(&self) {
        for query in self.underway.take() {
            self.reply(query, Err(self.reset()));
        }
    }

    fn reset(&self) -> ServerError {
        ServerError::new(210, format!("Connection reset by {}", self.host.name))
    }

    fn reply(&self, query: Underway, result: Result<(), ServerError>) {
        let Underway { asker, answer } = query;
        let (world, network) = (self.world.clone(), &self.host.ensemble.network);
        let set = move || answer.set(&world, result);
        network.send(
            self.host.node,
            asker.host.node,
            Some(&asker.host.process),
            set,
        );
    }
}
