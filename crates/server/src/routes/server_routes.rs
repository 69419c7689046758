//! The rows of the entity API, of the server's own pages, and of connections between nodes.

use super::methods::Method::{self, Delete, Get, Head, Post, Put};
use super::parameters::{
    ACCOUNT, ACK, CHANGES, FROM, INTERFERENCE, KEY, LIFETIME, PROFILE, RANGE, RATES, READ_IF, SLOW,
    SYNC, TABLE, TRACE, WRITE_IF,
};
use super::required_right::RequiredRight;
use super::route::{BodyLimit, Handler, Route};
use crate::access::Right::{Read, Write};
use crate::admin;
use crate::names::Operation;
use crate::profiles::{INDEX, profile, set_rates, show_rates};
use crate::reply::Reply;

/// The longest body with keys, in bytes: enough for the highest number of keys, each of the
/// greatest length.
const KEYS_BYTES_MAX: usize = 2 << 20;

/// The rows of one entity, in the order in which [`super::Target::of`] expects them.
pub(crate) static ENTITY_ROUTES: [Route; 4] = [
    entity(Get, "Reads an entity.", Operation::EntityGet)
        .knows(&[&[KEY, TABLE, ACK, FROM], &READ_IF])
        .to_entity(Read),
    entity(Head, "Tells an entity's revision and length.", Operation::EntityHead)
        .knows(&[&[KEY, TABLE, ACK, FROM], &READ_IF])
        .to_entity(Read),
    entity(Put, "Writes an entity.", Operation::EntityPut)
        .knows(&[&[KEY, TABLE, LIFETIME, SYNC, ACK, FROM], &WRITE_IF])
        .with_body(BodyLimit::Value)
        .to_entity(Write),
    entity(Delete, "Removes an entity.", Operation::EntityDelete)
        .knows(&[&[KEY, TABLE, SYNC, ACK, FROM], &WRITE_IF])
        .to_entity(Write),
];

const fn entity(method: Method, about: &'static str, operation: Operation) -> Route {
    Route::on(&[method], &["v0", "entity"], about).counts_as(operation)
}

/// The rows of the server, without those for one entity.
pub(crate) static SERVER_ROUTES: &[Route] = &[
    Route::on(&[Get], &["v0", "entities"], "Streams a range of entities.")
        .counts_as(Operation::EntityRange)
        .knows(&[RANGE])
        .to(RequiredRight::Entities(Read), Handler::Range),
    Route::on(&[Post], &["v0", "entities", "get"], "Reads several entities at one moment.")
        .counts_as(Operation::EntityMultiGet)
        .knows(&[&[TABLE, ACK, FROM]])
        .with_body(BodyLimit::Bytes(KEYS_BYTES_MAX))
        .to(RequiredRight::Entities(Read), Handler::MultiGet),
    Route::on(&[Get], &["v0", "changes"], "Streams the writes of a collection in their order.")
        .if_given("collection")
        .counts_as(Operation::Changes)
        .knows(&[CHANGES])
        .to(RequiredRight::Account, Handler::Changes),
    Route::on(&[Get], &["v0", "changes"], "Streams the writes of entities, or of a collection.")
        .counts_as(Operation::Changes)
        .knows(&[CHANGES])
        .to(RequiredRight::Entities(Read), Handler::Changes),
    Route::on(&[Post], &["v0", "batch"], "Writes and removes entities, all or none.")
        .counts_as(Operation::EntityBatch)
        .knows(&[&[TABLE, SYNC, ACK, FROM]])
        .with_body(BodyLimit::Batch)
        .to(RequiredRight::Entities(Write), Handler::Batch),
    Route::on(&[Get], &["v0", "tables"], "Lists the tables of entities.")
        .counts_as(Operation::Admin)
        .knows(&[])
        .to(RequiredRight::Account, Handler::Tables),
    Route::on(&[Put], &["v0", "tables", "{table}"], "Makes a table of entities.")
        .counts_as(Operation::Admin)
        .knows(&[])
        .to(RequiredRight::Account, Handler::Tables),
    Route::on(&[Delete], &["v0", "tables", "{table}"], "Removes all entities of a table.")
        .counts_as(Operation::Admin)
        .knows(&[])
        .to(RequiredRight::Account, Handler::Tables),
    Route::on(&[Get, Head], &["v0", "status"], "Says whether the server serves.")
        .counts_as(Operation::Status)
        .knows(&[])
        .to_admin(RequiredRight::Open, admin::status),
    Route::on(&[Get], &["openapi.json"], "Describes the entity API and the server's own pages.")
        .counts_as(Operation::Admin)
        .to_admin(RequiredRight::Account, admin::openapi_page),
    Route::on(&[Get], &["v0", "cluster"], "Shows the nodes of the cluster.")
        .counts_as(Operation::Admin)
        .knows(&[])
        .to_admin(RequiredRight::Account, admin::cluster_page),
    Route::on(&[Get], &["v0", "cluster", "peer"], "Takes another node in.")
        .counts_as(Operation::Admin)
        .to(RequiredRight::Peer, Handler::Peer),
    Route::on(&[Get], &["metrics"], "Shows the metrics, in the text form of Prometheus.")
        .to_page(admin::metrics_page),
    Route::on(&[Get], &["_admin", "account"], "Shows the account of all requests.")
        .knows(&[ACCOUNT])
        .to_page(admin::account_page),
    Route::on(&[Get], &["_admin", "slow"], "Shows the slow requests, by operation.")
        .knows(&[SLOW])
        .to_page(admin::slow_page),
    Route::on(&[Get], &["_admin", "requests"], "Shows the requests under way.")
        .knows(&[])
        .to_page(admin::requests_page),
    Route::on(&[Get], &["_admin", "interference"], "Shows what background jobs cost requests.")
        .knows(&[INTERFERENCE])
        .to_page(admin::interference_page),
    Route::on(&[Get], &["_admin", "trace"], "Shows the last seconds as a trace.")
        .knows(&[TRACE])
        .to_page(admin::trace_page),
    Route::on(&[Get], &["_admin", "engine"], "Shows the engine's account of itself.")
        .knows(&[])
        .to_page(admin::engine_page),
    Route::on(&[Put], &["_admin", "compact"], "Gives back the room of what was removed.")
        .counts_as(Operation::Admin)
        .to_admin(RequiredRight::Server(Write), admin::compact),
    Route::on(&[Get], &["debug", "pprof"], "Lists the profiles.")
        .with_slash()
        .counts_as(Operation::Admin)
        .to_admin(RequiredRight::Server(Read), |_, _| Ok(Reply::line(200, INDEX).into())),
    Route::on(&[Get], &["debug", "pprof", "rates"], "Shows how often profiles are sampled.")
        .counts_as(Operation::Admin)
        .knows(&[])
        .to_admin(RequiredRight::Server(Read), |api, _| show_rates(&api.profiles)),
    Route::on(&[Put], &["debug", "pprof", "rates"], "Sets how often profiles are sampled.")
        .counts_as(Operation::Admin)
        .knows(&[RATES])
        .to_admin(RequiredRight::Server(Write), |api, request| {
            set_rates(&api.profiles, request.query)
        }),
    Route::on(&[Get], &["debug", "pprof", "{profile}"], "Records a profile.")
        .with_slash()
        .counts_as(Operation::Admin)
        .takes(&[PROFILE])
        .to(
            RequiredRight::Server(Read),
            Handler::Profile(|api, name, query| profile(&api.profiles, name, query)),
        ),
];
