//! The server's own pages: `/_admin/account`, `/_admin/engine`, `/metrics` and others. The pages
//! about single requests are in the modules below. Making a page takes too long for an event loop,
//! so most are made by threads of their own.

mod compact;
mod request_pages;
mod trace;

use std::sync::Arc;

use pellucid_account::{Snapshot, WINDOW_SECONDS_MAX};
use pellucid_budget::Budget;
use pellucid_cluster::Cluster;
use pellucid_embedded::engine_stats;
use pellucid_http::{Request, ServerGauge};
use pellucid_store::Store;
use pellucid_thread::Job;
use serde::Serialize;
use serde_json::{Value, json};

use crate::answer::HandlerResult;
use crate::documents::Cursors;
use crate::engine_page::document;
use crate::metrics::{Figures, page};
use crate::observer::Observer;
use crate::page_thread::page_on_thread;
use crate::places::Places;
use crate::process::{ProcessFigures, loop_times};
use crate::profiles::Profiles;
use crate::query::number_within;
use crate::reply::{Failure, Reply};

pub(crate) use compact::compact;
pub(crate) use request_pages::{interference_page, requests_page, slow_page};
pub(crate) use trace::{
    REQUESTS_MAX as TRACE_REQUESTS_MAX, SECONDS_MAX as TRACE_SECONDS_MAX, trace_page,
};

/// The limit of pages that are made at the same time. Only people and metrics scrapers ask for
/// pages, so a small number is enough.
pub(crate) const PAGES_MAX: usize = 8;

static PAGES: Job = Job::new("pages");

/// The parts of the server that pages show. Each page is a function that takes them.
pub(crate) struct AdminApi {
    pub(crate) observer: Arc<Observer>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) cursors: Arc<Cursors>,
    /// The budget of the memory of all requests together.
    pub(crate) memory: Budget,
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) pages: Places,
    pub(crate) profiles: Profiles,
    pub(crate) full_merge: Places,
    pub(crate) gauge: ServerGauge,
    /// The OpenAPI document, which is made from the table of routes.
    pub(crate) openapi: Arc<Value>,
}

impl AdminApi {
    /// An answer with a JSON document that a new thread makes.
    fn document(&self, make: impl FnOnce() -> Value + Send + 'static) -> HandlerResult {
        made_page(&self.pages, move || Reply::value(200, &make()))
    }
}

/// An answer whose reply a new thread makes with `make`, if there is a place.
fn made_page(pages: &Places, make: impl FnOnce() -> Reply + Send + 'static) -> HandlerResult {
    let Some(place) = pages.take() else {
        let line = "as many pages are being made as may be at a time: try again in a moment";
        return Err(Failure::Busy(line.into()));
    };
    page_on_thread("pellucid-page", &PAGES, move || {
        // The place is free when this closure ends, before the reply is sent.
        let _place = place;
        Ok(make())
    })
}

/// `GET /v0/status`: 200 if the server serves, 503 while it connects to its cluster.
pub(crate) fn status(api: &AdminApi, _: &Request<'_>) -> HandlerResult {
    if api.cluster.as_deref().is_some_and(|cluster| !cluster.is_settled()) {
        return Ok(Reply::busy("connecting to the other nodes").into());
    }
    Ok(Reply::line(200, "serving").into())
}

/// `GET /openapi.json`: the description of the API.
pub(crate) fn openapi_page(api: &AdminApi, _: &Request<'_>) -> HandlerResult {
    Ok(Reply::value(200, &api.openapi).into())
}

/// `GET /v0/cluster`: the nodes of the cluster.
pub(crate) fn cluster_page(api: &AdminApi, _: &Request<'_>) -> HandlerResult {
    Ok(Reply::value(200, &crate::cluster::cluster_document(api.cluster.as_deref())).into())
}

/// The account of all requests, and the time in which event loops waited for a processor, which no
/// phase shows.
#[derive(Serialize)]
struct AccountPage {
    #[serde(flatten)]
    snapshot: Snapshot,
    /// The times of the event loops since the start, independent of the window.
    event_loops: Value,
}

/// `GET /_admin/account`: the account of all requests.
pub(crate) fn account_page(api: &AdminApi, request: &Request<'_>) -> HandlerResult {
    let window = number_within(request.query, "window", 1..=WINDOW_SECONDS_MAX as u64)?;
    let account = api.observer.account.clone();
    made_page(&api.pages, move || {
        let loops = loop_times();
        let event_loops = json!({ "ran_ns": loops.ran_ns, "run_delay_ns": loops.waited_ns });
        let page = AccountPage { snapshot: account.snapshot(window), event_loops };
        // This cannot fail: the page consists of strings and numbers.
        Reply::json(200, serde_json::to_vec(&page).unwrap_or_default())
    })
}

/// `GET /_admin/engine`: the engine's account of itself (docs/engine-account.md).
pub(crate) fn engine_page(api: &AdminApi, _: &Request<'_>) -> HandlerResult {
    let store = Arc::clone(&api.store);
    // Other kinds of stores have no such document.
    api.document(move || engine_stats(&*store).as_ref().map_or(Value::Null, document))
}

/// `GET /metrics`: the metrics, in the text format of Prometheus.
pub(crate) fn metrics_page(api: &AdminApi, _: &Request<'_>) -> HandlerResult {
    let (observer, gauge) = (Arc::clone(&api.observer), api.gauge.clone());
    let (store, cursors) = (Arc::clone(&api.store), Arc::clone(&api.cursors));
    let (cluster, memory) = (api.cluster.clone(), api.memory.clone());
    made_page(&api.pages, move || {
        let account = &observer.account;
        let figures = Figures {
            snapshot: account.snapshot(None),
            transport: gauge.stats(),
            store: store.figures(),
            engine: engine_stats(&*store),
            cursors: cursors.figures(),
            memory,
            process: ProcessFigures::now(),
            followed: observer.followed_figures(),
            slow: account.slow(0),
            interference: [true, false].map(|start| account.interference(start)),
            activity: account.activity(),
            peers: cluster.as_deref().map(crate::cluster::views).unwrap_or_default(),
            outcomes: account.names().outcomes,
            version: observer.version,
        };
        Reply::bytes(200, "text/plain; version=0.0.4", page(&figures).into_bytes())
    })
}

/// Adds the name of the schema and the level of accounting to the fields of a document.
fn account_document(schema: &str, observer: &Observer, mut fields: Value) -> Value {
    let accounting = observer.account.accounting().name();
    if let Some(object) = fields.as_object_mut() {
        object.insert("schema".to_owned(), json!(schema));
        object.insert("accounting".to_owned(), json!(accounting));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_pages_are_made_at_a_time_than_there_are_places() {
        let pages = Places::new(1);
        let place = pages.take();
        let page = || made_page(&pages, || Reply::empty(200));
        assert!(matches!(page(), Err(Failure::Busy(_))));
        drop(place);
        assert!(page().is_ok());
    }
}
