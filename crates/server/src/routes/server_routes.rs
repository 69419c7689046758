//! The rows of the entity API, of the server's own pages and of the other nodes of a cluster.

use super::methods::Method::{self, Delete, Get, Head, Post, Put};
use super::need::Need;
use super::route::{BodyLimit, Route, Runs};
use crate::access::Right::{Read, Write};
use crate::names::Operation;
use crate::profiles::INDEX;
use crate::service::{Api, respond_text};

/// The rows of one entity, in the order in which [`super::Target::of`] expects them.
pub(crate) static ENTITY_ROUTES: [Route; 4] = [
    entity(Get, "Reads an entity.", Operation::EntityGet).to_entity(Read),
    entity(Head, "Tells an entity's revision and length.", Operation::EntityHead).to_entity(Read),
    entity(Put, "Writes an entity.", Operation::EntityPut)
        .with_body(BodyLimit::Value)
        .to_entity(Write),
    entity(Delete, "Removes an entity.", Operation::EntityDelete).to_entity(Write),
];

const fn entity(method: Method, about: &'static str, operation: Operation) -> Route {
    Route::on(&[method], &["v0", "entity"], about).counts_as(operation)
}

/// See the module.
pub(crate) static SERVER_ROUTES: &[Route] = &[
    Route::on(&[Get], &["v0", "entities"], "Streams a range of entities.")
        .counts_as(Operation::EntityRange)
        .to(Need::Entities(Read), |api, _, request, response, exchange| {
            api.range(request, response, exchange)
        }),
    Route::on(&[Post], &["v0", "batch"], "Writes and removes entities, all or none.")
        .counts_as(Operation::EntityBatch)
        .with_body(BodyLimit::Batch)
        .to(Need::Entities(Write), |api, _, request, response, exchange| {
            api.batch(request, response, exchange)
        }),
    Route::on(&[Get, Head], &["v0", "status"], "Says whether the server serves.")
        .counts_as(Operation::Status)
        .to(Need::Open, |api, _, _, response, exchange| api.status(response, exchange)),
    Route::on(&[Get], &["v0", "cluster"], "Shows the nodes of the cluster.")
        .counts_as(Operation::Admin)
        .to(Need::Account, |api, _, _, response, exchange| api.cluster_page(response, exchange)),
    Route::on(&[Get], &["v0", "cluster", "peer"], "Takes another node in.")
        .counts_as(Operation::Admin)
        .to(Need::Peer, |api, _, request, response, exchange| {
            api.welcome_peer(request, response, exchange)
        }),
    Route::on(&[Get], &["metrics"], "Shows the metrics, in the text form of Prometheus.")
        .to_page(Api::metrics_page),
    Route::on(&[Get], &["_admin", "account"], "Shows the account of all requests.")
        .to_page(Api::account_page),
    Route::on(&[Get], &["_admin", "slow"], "Shows the slow requests, by operation.")
        .to_page(Api::slow_page),
    Route::on(&[Get], &["_admin", "requests"], "Shows the requests under way.")
        .to_page(Api::requests_page),
    Route::on(&[Get], &["_admin", "interference"], "Shows what background jobs cost requests.")
        .to_page(Api::interference_page),
    Route::on(&[Get], &["_admin", "trace"], "Shows the last seconds as a trace.")
        .to_page(Api::trace_page),
    Route::on(&[Get], &["_admin", "engine"], "Shows the engine's account of itself.")
        .to_page(Api::engine_page),
    Route::on(&[Put], &["_admin", "compact"], "Merges all tables of the store into one level.")
        .counts_as(Operation::Admin)
        .runs(Runs::OnWorker)
        .to(Need::Server(Write), |api, _, _, response, exchange| api.compact(response, exchange)),
    Route::on(&[Get], &["debug", "pprof"], "Lists the profiles.")
        .with_slash()
        .counts_as(Operation::Admin)
        .to(Need::Server(Read), |_, _, _, response, exchange| {
            respond_text(response, exchange, 200, INDEX)
        }),
    Route::on(&[Get], &["debug", "pprof", "rates"], "Shows how often profiles are sampled.")
        .counts_as(Operation::Admin)
        .to(Need::Server(Read), |api, _, _, response, exchange| api.show_rates(response, exchange)),
    Route::on(&[Put], &["debug", "pprof", "rates"], "Sets how often profiles are sampled.")
        .counts_as(Operation::Admin)
        .to(Need::Server(Write), |api, _, request, response, exchange| {
            api.set_rates(request, response, exchange)
        }),
    Route::on(&[Get], &["debug", "pprof", "{profile}"], "Records a profile.")
        .with_slash()
        .counts_as(Operation::Admin)
        .runs(Runs::OnWorker)
        .to(Need::Server(Read), |api, target, request, response, exchange| {
            let name = target.segment(2).unwrap_or_default();
            api.profile(name, request.query, response, exchange)
        }),
];
