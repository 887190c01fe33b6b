//! Sends a replica's requests to the object store.

use std::rc::Rc;

use crate::errors::ServerError;
use crate::keeper::ensemble::Ensemble;
use crate::server::host::Host;
use crate::store::{ObjectStore, Request};
use crate::world::{Ns, Promise, MS, SECOND};

/// Median time of a request.
const REQUEST_NS: Ns = 2 * MS;
const TIMEOUT_NS: Ns = 5 * SECOND;
/// ClickHouse's S3_ERROR.
const S3_ERROR: i32 = 499;
const MISSING: &str = "The specified key does not exist";

/// Whether the store has answered that an object is missing.
pub fn is_missing(error: &ServerError) -> bool {
    error.code == S3_ERROR && error.text.contains(MISSING)
}

/// Sends a request of a replica's server and waits for the answer. Error 499 if an object is
/// missing, or if the store does not answer.
pub async fn ask(host: &Rc<Host>, request: Request) -> Result<(), ServerError> {
    let ensemble = host.ensemble.clone();
    let store = host.deployment.store.borrow().clone();
    let store = store.filter(|store| store.process.alive());
    let Some(store) = store else {
        ensemble.world.work(REQUEST_NS).await;
        return Err(error("Connection refused"));
    };
    let answer = Promise::new();
    let act = {
        let (ensemble, store) = (ensemble.clone(), store.clone());
        let (asker, answer) = (host.clone(), answer.clone());
        move || {
            let missing = store.execute(request);
            reply(&ensemble, &store, &asker, answer, missing);
        }
    };
    let (from, to) = (host.node, store.node);
    ensemble.network.send(from, to, Some(&store.process), act);
    match ensemble.world.wait_for(&answer, TIMEOUT_NS).await {
        Ok(None) => Ok(()),
        Ok(Some(key)) => Err(error(&format!("{MISSING}: {key}"))),
        Err(_) => Err(error("Timeout")),
    }
}

fn reply(
    ensemble: &Rc<Ensemble>,
    store: &ObjectStore,
    asker: &Rc<Host>,
    answer: Promise<Option<Rc<str>>>,
    missing: Option<Rc<str>>,
) {
    let world = ensemble.world.clone();
    let took_ns = world.around(REQUEST_NS);
    let set = move || answer.set(&world, missing);
    let to = Some(&asker.process);
    ensemble
        .network
        .send_later(took_ns, store.node, asker.node, to, set);
}

#[cold]
fn error(text: &str) -> ServerError {
    ServerError::new(S3_ERROR, format!("S3_ERROR: {text}"))
}
