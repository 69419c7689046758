//! The rows of the document API. Each path may also follow the prefix `/_db/NAME`.

use super::methods::Method::{self, Delete, Get, Head, Options, Patch, Post, Put};
use super::required_right::RequiredRight;
use super::route::CollectionCall::{self, Array, Change, Document, Import, Rename};
use super::route::DatabaseCall::{self, Cursors, Explain, Queries, Unimplemented};
use super::route::ServerCall::{self, Admin, Backups, Databases, Incomplete, Users, Version};
use super::route::{BodyLimit, HandlerThread, OTHER_BODY_BYTES_MAX, Route};
use crate::access::Right::{self, Read, Write};
use crate::names::Operation;

/// All methods except `OPTIONS`, which browsers send first and which has rows of its own.
const ANY: &[Method] = &[Get, Head, Post, Put, Patch, Delete];

/// The longest body with documents: 1 GiB.
pub(crate) const DOCUMENTS_BYTES_MAX: usize = 1 << 30;

const DOCUMENTS: BodyLimit = BodyLimit::Bytes(DOCUMENTS_BYTES_MAX);
/// The longest body with a query and its bind variables: 64 MiB.
const QUERY: BodyLimit = BodyLimit::Bytes(64 << 20);
const OTHER: BodyLimit = BodyLimit::Bytes(OTHER_BODY_BYTES_MAX);

type PathSegments = &'static [&'static str];

/// A row for calls with single documents.
const fn one(methods: &[Method], path: PathSegments, about: &'static str) -> Route {
    let route = Route::on(methods, path, about).counts_as(Operation::DocumentWrite);
    route.with_body(DOCUMENTS).runs(HandlerThread::IfSmall)
}

/// A row for calls with arrays of documents.
const fn many(methods: &[Method], path: PathSegments, about: &'static str) -> Route {
    let route = Route::on(methods, path, about).counts_as(Operation::DocumentArray);
    route.with_body(DOCUMENTS).runs(HandlerThread::OnWorker)
}

/// A row for calls that fetch batches of a query's result.
const fn cursor(methods: &[Method], path: PathSegments, about: &'static str) -> Route {
    let route = Route::on(methods, path, about).counts_as(Operation::Cursor).with_body(QUERY);
    route.runs(HandlerThread::OnWorker).of_database(Read, Cursors)
}

/// A row for calls about queries.
const fn query(methods: &[Method], path: PathSegments, about: &'static str) -> Route {
    Route::on(methods, path, about).counts_as(Operation::Query).with_body(OTHER)
}

/// A row for calls about the catalogue: databases, collections and indexes.
const fn catalogue(methods: &[Method], path: PathSegments, about: &'static str) -> Route {
    Route::on(methods, path, about).counts_as(Operation::Catalogue).with_body(OTHER)
}

/// A row for calls about accounts.
const fn access(methods: &[Method], path: PathSegments, about: &'static str) -> Route {
    let route = Route::on(methods, path, about).counts_as(Operation::Access).with_body(OTHER);
    route.runs(HandlerThread::OnWorker)
}

/// A row for calls about the server.
const fn about(methods: &[Method], path: PathSegments, about: &'static str) -> Route {
    Route::on(methods, path, about).counts_as(Operation::About).with_body(OTHER)
}

/// A row for calls about backups of the store. They contain the entities, too, so a cluster has
/// these rows as well.
const fn backup(method: Method, path: PathSegments, what: &'static str, right: Right) -> Route {
    let route = about(&[method], path, what).runs(HandlerThread::OnWorker).described();
    route.of_server(RequiredRight::Server(right), Backups)
}

/// A row for calls that would move a backup to or from the server, which are refused.
const fn unmoved_backup(path: PathSegments, what: &'static str) -> Route {
    let route = about(&[Post], path, what).runs(HandlerThread::OnWorker);
    route.of_server(RequiredRight::Server(Write), Backups)
}

/// A row for a part of ArangoDB's API that is not implemented, which is refused with the text
/// `refusal`. Lists of it are empty.
const fn unbuilt(path: PathSegments, refusal: &'static str) -> Route {
    about(ANY, path, refusal).of_database(Read, Unimplemented)
}

/// A row for an incomplete path, which is refused with the text `expected`.
const fn incomplete(methods: &[Method], path: PathSegments, expected: &'static str) -> Route {
    about(methods, path, expected).for_documents().of_server(RequiredRight::Account, Incomplete)
}

const COLLECTION: &str = "{collection}";
const KEY: &str = "{key}";
const CURSOR: &str = "{cursor}";
const USER: &str = "{user}";
/// The refusal of what is not implemented of transactions.
const TRANSACTIONS: &str = "transactions of several requests are not implemented";
/// The description of preflight requests, which browsers send before a request across origins.
const PREFLIGHT: &str = "Tells the methods that pages of other origins may use.";

/// The rows of the document API. The most frequent ones come first.
pub(crate) static DOCUMENT_ROUTES: &[Route] = &[
    one(&[Get, Head], &["_api", "document", COLLECTION, KEY], "Reads a document.")
        .counts_as(Operation::DocumentRead)
        .of_collection(Read, Document),
    Route::on(&[Post], &["_api", "cursor"], "Asks a query.")
        .counts_as(Operation::Query)
        .with_body(QUERY)
        .runs(HandlerThread::IfPlanned)
        .of_database(Read, Cursors),
    one(&[Put, Patch, Delete], &["_api", "document", COLLECTION, KEY], "Writes a document.")
        .of_collection(Write, Document),
    one(&[Post], &["_api", "document", COLLECTION], "Inserts a document, or each of an array.")
        .of_collection(Write, Document),
    one(&[Post], &["_api", "document"], "Inserts into the collection of the parameter.")
        .of_collection(Write, Document),
    many(&[Put], &["_api", "document", COLLECTION], "Reads several documents.")
        .if_set("onlyget")
        .of_collection(Read, Array),
    many(&[Put, Patch, Delete], &["_api", "document", COLLECTION], "Writes several documents.")
        .of_collection(Write, Array),
    many(&[Put], &["_api", "document"], "Reads several documents of the parameter's collection.")
        .if_set("onlyget")
        .of_collection(Read, Array),
    many(&[Put, Patch, Delete], &["_api", "document"], "Replaces, updates or removes several.")
        .of_collection(Write, Array),
    incomplete(&[Get, Head], &["_api", "document"], "expecting /_api/document/<collection>/<key>"),
    incomplete(
        &[Get, Head],
        &["_api", "document", COLLECTION],
        "expecting /_api/document/<collection>/<key>",
    ),
    Route::on(&[Post], &["_api", "import"], "Imports documents into a collection.")
        .counts_as(Operation::Import)
        .with_body(DOCUMENTS)
        .runs(HandlerThread::OnWorker)
        .of_collection(Write, Import),
    cursor(&[Post, Put, Delete], &["_api", "cursor", CURSOR], "Gives the next batch, or ends it."),
    cursor(&[Post, Put, Delete], &["_api", "cursor", CURSOR, "{batch}"], "Gives a batch again."),
    incomplete(&[Put], &["_api", "cursor"], "expecting POST /_api/cursor/")
        .counts_as(Operation::Query),
    query(&[Post], &["_api", "explain"], "Shows the plan of a query.")
        .with_body(QUERY)
        .runs(HandlerThread::OnWorker)
        .of_database(Read, Explain),
    query(&[Post], &["_api", "query"], "Parses a query.")
        .runs(HandlerThread::OnWorker)
        .of_database(Read, Queries),
    // These calls need no worker: an operator can find and end the queries that keep all workers
    // busy.
    query(&[Get], &["_api", "query", "current"], "Lists the queries that run.")
        .of_database(Read, Queries),
    query(&[Get, Delete], &["_api", "query", "slow"], "Lists or forgets slow queries: none.")
        .of_database(Read, Queries),
    query(&[Get], &["_api", "query", "rules"], "Lists the rules of the planner.")
        .of_database(Read, Queries),
    query(&[Get, Put], &["_api", "query", "properties"], "Shows what is tracked of queries.")
        .of_database(Read, Queries),
    query(&[Delete], &["_api", "query", "{query}"], "Ends a query.").of_database(Read, Queries),
    catalogue(&[Get], &["_api", "collection"], "Lists the collections.")
        .runs(HandlerThread::OnWorker)
        .of_database(Read, DatabaseCall::ListCollections),
    catalogue(&[Post], &["_api", "collection"], "Makes a collection.")
        .runs(HandlerThread::OnWorker)
        .of_database(Write, DatabaseCall::CreateCollection),
    catalogue(&[Get], &["_api", "collection", COLLECTION], "Shows a collection.")
        .of_collection(Read, CollectionCall::Show),
    catalogue(&[Delete], &["_api", "collection", COLLECTION], "Removes a collection.")
        .runs(HandlerThread::OnWorker)
        .of_collection(Write, CollectionCall::Drop),
    catalogue(&[Get], &["_api", "collection", COLLECTION, "figures"], "Shows its sizes.")
        .runs(HandlerThread::OnWorker)
        .of_collection(Read, CollectionCall::Show),
    catalogue(&[Get], &["_api", "collection", COLLECTION, "checksum"], "Sums its documents up.")
        .runs(HandlerThread::OnWorker)
        .of_collection(Read, CollectionCall::Show),
    catalogue(&[Put], &["_api", "collection", COLLECTION, "rename"], "Gives it another name.")
        .runs(HandlerThread::OnWorker)
        .of_collection(Write, Rename),
    // The properties, the count or the revision.
    catalogue(&[Get], &["_api", "collection", COLLECTION, "{action}"], "Shows a part of it.")
        .of_collection(Read, CollectionCall::Show),
    // Sets properties or truncates. Others, such as `load` and `compact`, do nothing.
    catalogue(&[Put], &["_api", "collection", COLLECTION, "{action}"], "Changes it.")
        .runs(HandlerThread::OnWorker)
        .of_collection(Write, Change),
    catalogue(&[Get], &["_api", "index"], "Lists the indexes of the parameter's collection.")
        .of_collection(Read, CollectionCall::ListIndexes),
    catalogue(&[Post], &["_api", "index"], "Makes an index.")
        .runs(HandlerThread::OnWorker)
        .of_collection(Write, CollectionCall::CreateIndex),
    catalogue(&[Get], &["_api", "index", COLLECTION, "{index}"], "Shows an index.")
        .of_collection(Read, CollectionCall::ShowIndex),
    catalogue(&[Delete], &["_api", "index", COLLECTION, "{index}"], "Removes an index.")
        .runs(HandlerThread::OnWorker)
        .of_collection(Write, CollectionCall::DropIndex),
    catalogue(ANY, &["_api", "index", COLLECTION], "Refuses a path without an index.")
        .for_documents()
        .of_server(RequiredRight::Account, ServerCall::BadIndex),
    catalogue(&[Get], &["_api", "database"], "Lists the databases that the caller may read.")
        .for_documents()
        .of_server(RequiredRight::Account, Databases),
    catalogue(&[Get], &["_api", "database", "user"], "Lists them in any database.")
        .for_documents()
        .of_server(RequiredRight::Account, Databases),
    catalogue(&[Get], &["_api", "database", "current"], "Shows the database of the path.")
        .of_database(Read, DatabaseCall::Current),
    catalogue(&[Post], &["_api", "database"], "Makes a database.")
        .runs(HandlerThread::OnWorker)
        .for_documents()
        .of_server(RequiredRight::Server(Write), Databases),
    catalogue(&[Delete], &["_api", "database", "{database}"], "Removes a database.")
        .runs(HandlerThread::OnWorker)
        .for_documents()
        .of_server(RequiredRight::Server(Write), Databases),
    access(&[Get], &["_api", "user"], "Lists the accounts.")
        .of_server(RequiredRight::Server(Read), Users),
    access(&[Post], &["_api", "user"], "Makes an account.")
        .of_server(RequiredRight::Server(Write), Users),
    access(&[Get], &["_api", "user", USER], "Shows an account.")
        .of_server(RequiredRight::OwnAccount(Read), Users),
    access(&[Patch], &["_api", "user", USER], "Changes an account.")
        .of_server(RequiredRight::OwnAccount(Write), Users),
    access(&[Put, Delete], &["_api", "user", USER], "Replaces or removes an account.")
        .of_server(RequiredRight::Server(Write), Users),
    access(ANY, &["_api", "user", USER, "{scope}", "*"], "Refuses grants.")
        .of_server(RequiredRight::Account, ServerCall::Grants),
    access(&[Post], &["_open", "auth"], "Gives a token for a name and a password.").to_log_in(),
    access(&[Post], &["_open", "auth", "renew"], "Gives nothing new.").to_log_in(),
    about(&[Get, Head], &["_api", "version"], "Shows the version.")
        .counts_as(Operation::Version)
        .of_server(RequiredRight::Account, Version),
    about(&[Get, Head], &["_api", "engine"], "Shows the storage engine.")
        .of_server(RequiredRight::Account, Version),
    about(&[Get], &["_admin", "server", "availability"], "Says whether the server serves.")
        .with_body(BodyLimit::Little)
        .of_server(RequiredRight::Open, Admin),
    about(&[Get], &["_admin", "server", "role"], "Shows its role.")
        .of_server(RequiredRight::Account, Admin),
    about(&[Get], &["_admin", "server", "mode"], "Shows its mode.")
        .of_server(RequiredRight::Account, Admin),
    about(&[Put], &["_admin", "server", "mode"], "Sets its mode.")
        .of_server(RequiredRight::Server(Write), Admin),
    about(&[Get], &["_admin", "server", "id"], "Refuses: it has none.")
        .of_server(RequiredRight::Account, Admin),
    about(&[Get], &["_admin", "time"], "Shows its clock.").of_server(RequiredRight::Account, Admin),
    about(&[Get], &["_admin", "status"], "Shows its state.")
        .of_server(RequiredRight::Account, Admin),
    backup(Get, &["_admin", "backup"], "Lists the backups, and shows one in the making.", Read),
    backup(Post, &["_admin", "backup"], "Makes a backup of the store while it serves.", Write),
    backup(Post, &["_admin", "backup", "create"], "As `POST /_admin/backup`.", Write),
    backup(Post, &["_admin", "backup", "list"], "As `GET /_admin/backup`, or of one.", Read),
    backup(Post, &["_admin", "backup", "delete"], "Removes a backup.", Write),
    unmoved_backup(&["_admin", "backup", "restore"], "Refuses: `pellucid inspect` does."),
    unmoved_backup(&["_admin", "backup", "upload"], "Refuses: a backup is a folder."),
    unmoved_backup(&["_admin", "backup", "download"], "Refuses: a backup is a folder."),
    about(&[Get, Post], &["_api", "transaction"], TRANSACTIONS).of_database(Read, Unimplemented),
    about(&[Get, Post, Put, Delete], &["_api", "transaction", "{transaction}"], TRANSACTIONS)
        .of_database(Read, Unimplemented),
    unbuilt(&["_api", "view", "*"], "views are not implemented"),
    unbuilt(&["_api", "analyzer", "*"], "analyzers are not implemented"),
    unbuilt(&["_api", "aqlfunction", "*"], "functions of users are not implemented"),
    unbuilt(&["_api", "gharial", "*"], "graphs are not implemented"),
    unbuilt(&["_api", "cluster", "*"], "clusters are not implemented"),
    unbuilt(&["_api", "job", "*"], "jobs are not implemented"),
    unbuilt(&["_api", "token", "*"], "access tokens are not implemented")
        .counts_as(Operation::Access),
    unbuilt(&["_api", "simple", "*"], "simple queries are not implemented"),
    unbuilt(&["_api", "edges", "*"], "lists of edges are not implemented"),
    unbuilt(&["_api", "query-cache", "*"], "caches of queries are not implemented"),
    unbuilt(&["_api", "query-plan-cache", "*"], "caches of queries are not implemented"),
    about(&[Get], &["_api", "key-generators"], "Lists the generators of keys.")
        .of_database(Read, Unimplemented),
    Route::on(&[Options], &["_api", "*"], PREFLIGHT).to_preflight(),
    Route::on(&[Options], &["_open", "*"], PREFLIGHT).to_preflight(),
    Route::on(&[Options], &["_admin", "server", "*"], PREFLIGHT).to_preflight(),
    Route::on(&[Options], &["_admin", "backup", "*"], PREFLIGHT).to_preflight(),
    Route::on(&[Options], &["_admin", "time"], PREFLIGHT).to_preflight(),
    Route::on(&[Options], &["_admin", "status"], PREFLIGHT).to_preflight(),
];
