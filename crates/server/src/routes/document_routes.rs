//! The rows of the document API. Each path may stand behind `/_db/NAME`.

use pellucid_document::{DocumentError, ErrorNumber};

use super::methods::Method::{self, Delete, Get, Head, Options, Patch, Post, Put};
use super::need::Need;
use super::route::{BodyLimit, CollectionHandler, DatabaseHandler, Route, Runs, ServerCallHandler};
use crate::access::Right::{Read, Write};
use crate::documents::Answered::Now;
use crate::documents::{BODY_BYTES_MAX, Calling, OTHER_BODY_BYTES_MAX, QUERY_BYTES_MAX};
use crate::documents::{current_database, unbuilt as refuse_unbuilt};
use crate::names::Operation;

/// Every method of a call; browsers ask for `OPTIONS` before one.
const ANY: &[Method] = &[Get, Head, Post, Put, Patch, Delete];

const DOCUMENTS: BodyLimit = BodyLimit::Bytes(BODY_BYTES_MAX);
const QUERY: BodyLimit = BodyLimit::Bytes(QUERY_BYTES_MAX);
const OTHER: BodyLimit = BodyLimit::Bytes(OTHER_BODY_BYTES_MAX);

type Parts = &'static [&'static str];

/// A row of single documents.
const fn one(methods: &[Method], path: Parts, about: &'static str) -> Route {
    let route = Route::on(methods, path, about).counts_as(Operation::DocumentWrite);
    route.with_body(DOCUMENTS).runs(Runs::IfSmall)
}

/// A row of arrays of documents.
const fn many(methods: &[Method], path: Parts, about: &'static str) -> Route {
    let route = Route::on(methods, path, about).counts_as(Operation::DocumentArray);
    route.with_body(DOCUMENTS).runs(Runs::OnWorker)
}

/// A row of batches of a query's result.
const fn cursor(methods: &[Method], path: Parts, about: &'static str) -> Route {
    let route = Route::on(methods, path, about).counts_as(Operation::Cursor).with_body(QUERY);
    route.runs(Runs::OnWorker).of_database(Read, CURSORS)
}

/// A row about queries.
const fn query(methods: &[Method], path: Parts, about: &'static str) -> Route {
    Route::on(methods, path, about).counts_as(Operation::Query).with_body(OTHER)
}

/// A row of the catalogue.
const fn catalogue(methods: &[Method], path: Parts, about: &'static str) -> Route {
    Route::on(methods, path, about).counts_as(Operation::Catalogue).with_body(OTHER)
}

/// A row that changes a collection.
const fn change(path: Parts, about: &'static str) -> Route {
    catalogue(&[Put], path, about).runs(Runs::OnWorker).of_collection(Write, CHANGE)
}

/// A row of accounts.
const fn access(methods: &[Method], path: Parts, about: &'static str) -> Route {
    let route = Route::on(methods, path, about).counts_as(Operation::Access).with_body(OTHER);
    route.runs(Runs::OnWorker)
}

/// A row of what the server says of itself.
const fn about(methods: &[Method], path: Parts, about: &'static str) -> Route {
    Route::on(methods, path, about).counts_as(Operation::About).with_body(OTHER)
}

/// A row of what is not there, and says so.
const fn unbuilt(path: Parts, what: &'static str) -> Route {
    about(ANY, path, what).of_database(Read, UNBUILT)
}

/// A row of a path that says too little; its line says what is expected.
const fn incomplete(methods: &[Method], path: Parts, expected: &'static str) -> Route {
    about(methods, path, expected).for_documents().of_server(Need::Account, INCOMPLETE)
}

const COLLECTION: &str = "{collection}";
const KEY: &str = "{key}";
const CURSOR: &str = "{cursor}";
const USER: &str = "{user}";
/// The line of requests that browsers send before one of a page of another origin.
const PREFLIGHT: &str = "Tells the methods that pages of other origins may use.";

const ONE: CollectionHandler =
    |api, calling, _, collection| api.document_call(calling.call, collection, calling.timeline);
const ONE_OR_MANY: CollectionHandler = |api, calling, _, collection| match calling.call.is_array() {
    true => api.many_documents(calling.call, collection, calling.timeline).map(Now),
    false => api.document_call(calling.call, collection, calling.timeline),
};
const MANY: CollectionHandler = |api, calling, _, collection| {
    api.many_documents(calling.call, collection, calling.timeline).map(Now)
};
const IMPORT: CollectionHandler = |api, calling, _, collection| {
    api.import_call(calling.call, collection, calling.timeline).map(Now)
};
const INDEXES: CollectionHandler = |api, calling, _, collection| {
    api.indexes_call(calling.call, collection, calling.caller).map(Now)
};
const INDEX: CollectionHandler =
    |api, calling, _, collection| api.index_call(calling.call, collection).map(Now);
const VIEW: CollectionHandler =
    |api, calling, _, collection| api.collection_view(calling.call, collection).map(Now);
const CHANGE: CollectionHandler =
    |api, calling, _, collection| api.collection_change(calling.call, collection).map(Now);
const RENAME: CollectionHandler = |api, calling, database, collection| {
    api.rename_collection(calling.call, database, collection, calling.caller).map(Now)
};
const DROP: CollectionHandler = |api, calling, database, collection| {
    api.drop_collection(calling.call, database, collection).map(Now)
};
const CURSORS: DatabaseHandler = |api, Calling { call, caller, timeline }, database| {
    api.cursor_call(call, database, caller, timeline).map(Now)
};
const EXPLAIN: DatabaseHandler =
    |api, calling, database| api.explain_call(calling.call, database, calling.caller).map(Now);
const QUERIES: DatabaseHandler =
    |api, calling, database| api.query_call(calling.call, database, calling.caller).map(Now);
const LIST: DatabaseHandler =
    |api, calling, database| api.list_collections(calling.call, database, calling.caller).map(Now);
const CREATE: DatabaseHandler =
    |api, calling, database| api.create_collection(calling.call, database).map(Now);
const CURRENT: DatabaseHandler = |_, _, database| Ok(Now(current_database(database)));
const DATABASES: ServerCallHandler =
    |api, calling| api.database_call(calling.call, calling.caller).map(Now);
const USERS: ServerCallHandler =
    |api, calling| api.user_call(calling.call, calling.caller).map(Now);
const ABOUT: ServerCallHandler = |api, calling| api.about_call(calling.call).map(Now);
const ADMIN: ServerCallHandler = |api, calling| api.admin_call(calling.call).map(Now);
const UNBUILT: DatabaseHandler = |_, calling, _| refuse_unbuilt(calling.call).map(Now);
const GRANTS: ServerCallHandler = |_, _| {
    let message = "grants of users are not implemented here: see `pellucid account --help`";
    Err(DocumentError::new(ErrorNumber::NOT_IMPLEMENTED, message))
};
/// Says, with its row, what a path lacks.
const INCOMPLETE: ServerCallHandler = |_, calling| {
    let expected = calling.call.route.about;
    Err(DocumentError::new(ErrorNumber::HTTP_BAD_PARAMETER, expected))
};
const BAD_INDEX: ServerCallHandler = |_, _| Err(ErrorNumber::INDEX_HANDLE_BAD.into());

/// See the module. Those that are asked for most come first.
pub(crate) static DOCUMENT_ROUTES: &[Route] = &[
    one(&[Get, Head], &["_api", "document", COLLECTION, KEY], "Reads a document.")
        .counts_as(Operation::DocumentRead)
        .of_collection(Read, ONE),
    Route::on(&[Post], &["_api", "cursor"], "Asks a query.")
        .counts_as(Operation::Query)
        .with_body(QUERY)
        .runs(Runs::IfPlanned)
        .of_database(Read, CURSORS),
    one(&[Put], &["_api", "document", COLLECTION, KEY], "Replaces a document.")
        .of_collection(Write, ONE),
    one(&[Patch], &["_api", "document", COLLECTION, KEY], "Updates a document.")
        .of_collection(Write, ONE),
    one(&[Delete], &["_api", "document", COLLECTION, KEY], "Removes a document.")
        .of_collection(Write, ONE),
    one(&[Post], &["_api", "document", COLLECTION], "Inserts a document, or each of an array.")
        .of_collection(Write, ONE_OR_MANY),
    one(&[Post], &["_api", "document"], "Inserts into the collection of the parameter.")
        .of_collection(Write, ONE_OR_MANY),
    many(&[Put], &["_api", "document", COLLECTION], "Reads several documents.")
        .if_given("onlyget")
        .of_collection(Read, MANY),
    many(&[Put], &["_api", "document", COLLECTION], "Replaces several documents.")
        .of_collection(Write, MANY),
    many(&[Patch], &["_api", "document", COLLECTION], "Updates several documents.")
        .of_collection(Write, MANY),
    many(&[Delete], &["_api", "document", COLLECTION], "Removes several documents.")
        .of_collection(Write, MANY),
    many(&[Put], &["_api", "document"], "Reads several documents of the parameter's collection.")
        .if_given("onlyget")
        .of_collection(Read, MANY),
    many(&[Put, Patch, Delete], &["_api", "document"], "Replaces, updates or removes several.")
        .of_collection(Write, MANY),
    incomplete(&[Get, Head], &["_api", "document"], "expecting /_api/document/<collection>/<key>"),
    incomplete(
        &[Get, Head],
        &["_api", "document", COLLECTION],
        "expecting /_api/document/<collection>/<key>",
    ),
    Route::on(&[Post], &["_api", "import"], "Imports documents into a collection.")
        .counts_as(Operation::Import)
        .with_body(DOCUMENTS)
        .runs(Runs::OnWorker)
        .of_collection(Write, IMPORT),
    cursor(&[Post, Put], &["_api", "cursor", CURSOR], "Gives the next batch of a result."),
    cursor(&[Delete], &["_api", "cursor", CURSOR], "Ends a query whose result is not at its end."),
    cursor(&[Post, Put, Delete], &["_api", "cursor", CURSOR, "{batch}"], "Gives a batch again."),
    incomplete(&[Put], &["_api", "cursor"], "expecting POST /_api/cursor/")
        .counts_as(Operation::Query),
    query(&[Post], &["_api", "explain"], "Shows the plan of a query.")
        .with_body(QUERY)
        .runs(Runs::OnWorker)
        .of_database(Read, EXPLAIN),
    query(&[Post], &["_api", "query"], "Parses a query.")
        .runs(Runs::OnWorker)
        .of_database(Read, QUERIES),
    // Looking for what keeps all workers busy, and ending it, needs none of them.
    query(&[Get], &["_api", "query", "current"], "Lists the queries that run.")
        .of_database(Read, QUERIES),
    query(&[Get, Delete], &["_api", "query", "slow"], "Lists or forgets slow queries: none.")
        .of_database(Read, QUERIES),
    query(&[Get], &["_api", "query", "rules"], "Lists the rules of the planner.")
        .of_database(Read, QUERIES),
    query(&[Get, Put], &["_api", "query", "properties"], "Shows what is tracked of queries.")
        .of_database(Read, QUERIES),
    query(&[Delete], &["_api", "query", "{query}"], "Ends a query.").of_database(Read, QUERIES),
    catalogue(&[Get], &["_api", "collection"], "Lists the collections.").of_database(Read, LIST),
    catalogue(&[Post], &["_api", "collection"], "Makes a collection.")
        .runs(Runs::OnWorker)
        .of_database(Write, CREATE),
    catalogue(&[Get], &["_api", "collection", COLLECTION], "Shows a collection.")
        .of_collection(Read, VIEW),
    catalogue(&[Delete], &["_api", "collection", COLLECTION], "Removes a collection.")
        .runs(Runs::OnWorker)
        .of_collection(Write, DROP),
    catalogue(&[Get], &["_api", "collection", COLLECTION, "properties"], "Shows its properties.")
        .of_collection(Read, VIEW),
    catalogue(&[Get], &["_api", "collection", COLLECTION, "count"], "Counts its documents.")
        .of_collection(Read, VIEW),
    catalogue(&[Get], &["_api", "collection", COLLECTION, "revision"], "Shows its last revision.")
        .of_collection(Read, VIEW),
    catalogue(&[Get], &["_api", "collection", COLLECTION, "figures"], "Shows its sizes.")
        .runs(Runs::OnWorker)
        .of_collection(Read, VIEW),
    catalogue(&[Get], &["_api", "collection", COLLECTION, "checksum"], "Sums its documents up.")
        .runs(Runs::OnWorker)
        .of_collection(Read, VIEW),
    change(&["_api", "collection", COLLECTION, "properties"], "Sets its properties."),
    change(&["_api", "collection", COLLECTION, "truncate"], "Removes its documents."),
    catalogue(&[Put], &["_api", "collection", COLLECTION, "rename"], "Gives it another name.")
        .runs(Runs::OnWorker)
        .of_collection(Write, RENAME),
    change(&["_api", "collection", COLLECTION, "load"], "Does nothing, and counts."),
    change(&["_api", "collection", COLLECTION, "unload"], "Does nothing."),
    change(&["_api", "collection", COLLECTION, "compact"], "Does nothing."),
    change(&["_api", "collection", COLLECTION, "loadIndexesIntoMemory"], "Does nothing."),
    change(&["_api", "collection", COLLECTION, "recalculateCount"], "Does nothing."),
    change(&["_api", "collection", COLLECTION, "responsibleShard"], "Refuses: there are none."),
    catalogue(
        &[Get],
        &["_api", "collection", COLLECTION, "{action}"],
        "Refuses an unknown action.",
    )
    .of_collection(Read, VIEW),
    change(&["_api", "collection", COLLECTION, "{action}"], "Refuses an unknown action."),
    catalogue(&[Get], &["_api", "index"], "Lists the indexes of the parameter's collection.")
        .of_collection(Read, INDEXES),
    catalogue(&[Post], &["_api", "index"], "Makes an index.")
        .runs(Runs::OnWorker)
        .of_collection(Write, INDEXES),
    catalogue(&[Get], &["_api", "index", COLLECTION, "{index}"], "Shows an index.")
        .of_collection(Read, INDEX),
    catalogue(&[Delete], &["_api", "index", COLLECTION, "{index}"], "Removes an index.")
        .runs(Runs::OnWorker)
        .of_collection(Write, INDEX),
    catalogue(ANY, &["_api", "index", COLLECTION], "Refuses a path without an index.")
        .for_documents()
        .of_server(Need::Account, BAD_INDEX),
    catalogue(&[Get], &["_api", "database"], "Lists the databases that the caller may read.")
        .for_documents()
        .of_server(Need::Account, DATABASES),
    catalogue(&[Get], &["_api", "database", "user"], "Lists them in any database.")
        .for_documents()
        .of_server(Need::Account, DATABASES),
    catalogue(&[Get], &["_api", "database", "current"], "Shows the database of the path.")
        .of_database(Read, CURRENT),
    catalogue(&[Post], &["_api", "database"], "Makes a database.")
        .runs(Runs::OnWorker)
        .for_documents()
        .of_server(Need::Server(Write), DATABASES),
    catalogue(&[Delete], &["_api", "database", "{database}"], "Removes a database.")
        .runs(Runs::OnWorker)
        .for_documents()
        .of_server(Need::Server(Write), DATABASES),
    access(&[Get], &["_api", "user"], "Lists the accounts.").of_server(Need::Server(Read), USERS),
    access(&[Post], &["_api", "user"], "Makes an account.").of_server(Need::Server(Write), USERS),
    access(&[Get], &["_api", "user", USER], "Shows an account.")
        .of_server(Need::OwnAccount(Read), USERS),
    access(&[Patch], &["_api", "user", USER], "Changes an account.")
        .of_server(Need::OwnAccount(Write), USERS),
    access(&[Put], &["_api", "user", USER], "Replaces an account.")
        .of_server(Need::Server(Write), USERS),
    access(&[Delete], &["_api", "user", USER], "Removes an account.")
        .of_server(Need::Server(Write), USERS),
    access(ANY, &["_api", "user", USER, "{scope}", "*"], "Refuses grants.")
        .of_server(Need::Account, GRANTS),
    access(&[Post], &["_open", "auth"], "Gives a token for a name and a password.").to_log_in(),
    access(&[Post], &["_open", "auth", "renew"], "Gives nothing new.").to_log_in(),
    about(&[Get, Head], &["_api", "version"], "Shows the version.")
        .counts_as(Operation::Version)
        .of_server(Need::Account, ABOUT),
    about(&[Get, Head], &["_api", "engine"], "Shows the storage engine.")
        .of_server(Need::Account, ABOUT),
    about(&[Get], &["_admin", "server", "availability"], "Says whether the server serves.")
        .with_body(BodyLimit::Little)
        .of_server(Need::Open, ADMIN),
    about(&[Get], &["_admin", "server", "role"], "Shows its role.").of_server(Need::Account, ADMIN),
    about(&[Get], &["_admin", "server", "mode"], "Shows its mode.").of_server(Need::Account, ADMIN),
    about(&[Put], &["_admin", "server", "mode"], "Sets its mode.")
        .of_server(Need::Server(Write), ADMIN),
    about(&[Get], &["_admin", "server", "id"], "Refuses: it has none.")
        .of_server(Need::Account, ADMIN),
    about(&[Get], &["_admin", "time"], "Shows its clock.").of_server(Need::Account, ADMIN),
    about(&[Get], &["_admin", "status"], "Shows its state.").of_server(Need::Account, ADMIN),
    about(ANY, &["_admin", "backup", "*"], "Refuses backups.").of_server(Need::Server(Read), ADMIN),
    about(&[Get, Post], &["_api", "transaction"], "Lists transactions: none; refuses others.")
        .of_database(Read, UNBUILT),
    about(&[Get, Post, Put, Delete], &["_api", "transaction", "{transaction}"], "Refuses one.")
        .of_database(Read, UNBUILT),
    unbuilt(&["_api", "view", "*"], "Lists views: none; refuses others."),
    unbuilt(&["_api", "analyzer", "*"], "Lists analyzers: none; refuses others."),
    unbuilt(&["_api", "aqlfunction", "*"], "Lists functions of users: none; refuses others."),
    unbuilt(&["_api", "gharial", "*"], "Lists graphs: none; refuses others."),
    unbuilt(&["_api", "cluster", "*"], "Refuses clusters."),
    unbuilt(&["_api", "job", "*"], "Refuses jobs."),
    unbuilt(&["_api", "token", "*"], "Refuses tokens.").counts_as(Operation::Access),
    unbuilt(&["_api", "simple", "*"], "Refuses simple queries."),
    unbuilt(&["_api", "edges", "*"], "Refuses lists of edges."),
    unbuilt(&["_api", "query-cache", "*"], "Refuses caches of queries."),
    unbuilt(&["_api", "query-plan-cache", "*"], "Refuses caches of plans."),
    about(&[Get], &["_api", "key-generators"], "Lists the generators of keys.")
        .of_database(Read, UNBUILT),
    Route::on(&[Options], &["_api", "*"], PREFLIGHT).to_preflight(),
    Route::on(&[Options], &["_open", "*"], PREFLIGHT).to_preflight(),
    Route::on(&[Options], &["_admin", "server", "*"], PREFLIGHT).to_preflight(),
    Route::on(&[Options], &["_admin", "backup", "*"], PREFLIGHT).to_preflight(),
    Route::on(&[Options], &["_admin", "time"], PREFLIGHT).to_preflight(),
    Route::on(&[Options], &["_admin", "status"], PREFLIGHT).to_preflight(),
];
