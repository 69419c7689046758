//! Finds the handler of a call, on whichever thread that is.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_aql::Statements;
use pellucid_document::{DocumentError, Documents, ErrorNumber, is_document_key};
use pellucid_http::Response;
use pellucid_store::{Acknowledgement, Pending, Result as StoreResult, Written};

use crate::access::{Accounts, Identity, Right, Scope};
use crate::names::Operation;

use super::about::unknown_path;
use super::call::{Call, Method};
use super::pool::Pool;
use super::queries::Queries;
use super::reply::Reply;
use super::settings::DocumentSettings;
use super::slow_queries::SlowQueries;

/// A body up to this size is read on the event loop.
const LIGHT_BODY_BYTES_MAX: usize = 64 * 1024;

/// What all event loops and workers serve the document API from.
pub(crate) struct DocumentApi {
    pub(crate) documents: Arc<Documents>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) pool: Pool,
    pub(crate) queries: Arc<Queries>,
    pub(crate) slow_queries: SlowQueries,
    /// Queries that were asked before.
    pub(crate) statements: Statements,
    /// What a write is acknowledged by that does not say.
    pub(crate) acknowledgement: Acknowledgement,
    pub(crate) settings: DocumentSettings,
}

/// Ends an answer once the store's has arrived.
pub(crate) type Finish = Box<dyn FnOnce(StoreResult<Written>) -> Finished + Send>;

/// How a write that took its time ended.
pub(crate) enum Finished {
    Reply(Reply),
    /// Somebody else was faster: it can be made again, or this is its answer.
    Conflict(Reply),
}

impl Finished {
    /// The answer of who does not make it again.
    pub(crate) fn reply(self) -> Reply {
        match self {
            Finished::Reply(reply) | Finished::Conflict(reply) => reply,
        }
    }
}

/// What a handler says.
pub(crate) enum Answered {
    Now(Reply),
    /// Once what was written is on the medium, or the store has said that it can be.
    Later(Pending<Written>, Finish),
}

impl DocumentApi {
    /// What a call is accounted for as.
    pub(crate) fn operation(call: &Call<'_>) -> Operation {
        match (call.segment(0), call.segment(1)) {
            (Some("_api"), Some("document")) if is_of_many(call) => Operation::DocumentArray,
            (Some("_api"), Some("document")) => match call.method {
                Method::Get | Method::Head => Operation::DocumentRead,
                _ => Operation::DocumentWrite,
            },
            (Some("_api"), Some("import")) => Operation::Import,
            (Some("_api"), Some("cursor")) if call.segment(2).is_some() => Operation::Cursor,
            (Some("_api"), Some("cursor" | "explain" | "query")) => Operation::Query,
            (Some("_api"), Some("version")) => Operation::Version,
            (Some("_open"), _) | (Some("_api"), Some("user" | "token")) => Operation::Access,
            (Some("_api"), Some("collection" | "database" | "index")) => Operation::Catalogue,
            _ => Operation::About,
        }
    }

    /// Whether a call is answered so soon that an event loop can do it.
    pub(crate) fn is_light(call: &Call<'_>) -> bool {
        let is_small = call.body.len() <= LIGHT_BODY_BYTES_MAX;
        match (call.segment(0), call.segment(1)) {
            (Some("_api"), Some("document")) => is_small && !is_of_many(call),
            (Some("_api"), Some("version" | "engine" | "transaction")) => true,
            (Some("_api"), Some("collection")) => {
                call.method == Method::Get
                    && matches!(call.segment(3), None | Some("properties" | "count" | "revision"))
            }
            (Some("_api"), Some("database")) => call.method == Method::Get,
            // Who looks for what keeps all workers busy, and ends it, needs none of them.
            (Some("_api"), Some("query")) => call.method != Method::Post,
            (Some("_api"), Some("index")) => call.method == Method::Get,
            (Some("_admin"), _) => true,
            _ => false,
        }
    }

    /// Bytes that the body of a call may have, by its path.
    pub(crate) fn body_bytes_max(path: &str) -> usize {
        let api = path.find("/_api/").map_or("", |at| &path[at..]);
        if api.starts_with("/_api/document") || api.starts_with("/_api/import") {
            super::BODY_BYTES_MAX
        } else if api.starts_with("/_api/cursor") || api.starts_with("/_api/explain") {
            super::QUERY_BYTES_MAX
        } else {
            super::OTHER_BODY_BYTES_MAX
        }
    }

    /// Answers a call.
    pub(crate) fn answer(
        self: &Arc<Self>,
        call: &Call<'_>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Answered {
        if let Some(refusal) = refuse(call, caller) {
            return Answered::Now(refusal);
        }
        let answered = self.find(call, caller, timeline);
        answered.unwrap_or_else(|error| Answered::Now(Reply::error(&error)))
    }

    /// As [`Self::answer`], on a thread that must not wait for the medium; nothing where it would
    /// have to. The call is light ([`Self::is_light`]).
    pub(crate) fn answer_here(
        self: &Arc<Self>,
        call: &Call<'_>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Option<Answered> {
        if let Some(refusal) = refuse(call, caller) {
            return Some(Answered::Now(refusal));
        }
        match self.find(call, caller, timeline) {
            Err(error) if error.number == ErrorNumber::NOT_IN_MEMORY => None,
            answered => Some(answered.unwrap_or_else(|e| Answered::Now(Reply::error(&e)))),
        }
    }

    fn find(
        self: &Arc<Self>,
        call: &Call<'_>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Result<Answered, DocumentError> {
        if call.is_async {
            let message = "jobs (x-arango-async: store) are not implemented";
            return Err(DocumentError::new(ErrorNumber::NOT_IMPLEMENTED, message));
        }
        if let Some(id) = &call.transaction {
            let id = String::from_utf8_lossy(id);
            let message = format!("transaction '{id}' not found");
            return Err(DocumentError::new(ErrorNumber::TRANSACTION_NOT_FOUND, message));
        }
        if call.segments.len() > segments_max(call) {
            return Err(ErrorNumber::SUPERFLUOUS_SUFFICES.into());
        }
        let now = Answered::Now;
        match (call.segment(0), call.segment(1)) {
            (Some("_admin"), Some(_)) => self.admin_call(call).map(now),
            (Some("_api"), Some("database")) => self.database_call(call, caller).map(now),
            (Some("_api"), Some("user")) => self.user_call(call, caller).map(now),
            (Some("_api"), Some("version" | "engine")) => self.about_call(call).map(now),
            (Some("_api"), Some(what)) => {
                let database = self.documents.database(&call.database)?;
                match what {
                    "document" => self.document_call(call, &database, timeline),
                    "collection" => self.collection_call(call, &database).map(now),
                    "import" => self.import_call(call, &database, timeline).map(now),
                    "cursor" => self.cursor_call(call, &database, caller, timeline).map(now),
                    "explain" => self.explain_call(call, &database, caller).map(now),
                    "query" => self.query_call(call, &database).map(now),
                    "index" => self.index_call(call, &database).map(now),
                    _ => super::refusals::answer(call, what).map(now),
                }
            }
            _ => Err(unknown_path(call)),
        }
    }

    fn document_call(
        self: &Arc<Self>,
        call: &Call<'_>,
        database: &pellucid_document::Database,
        timeline: &mut Timeline,
    ) -> Result<Answered, DocumentError> {
        let named = call.parameter("collection");
        let name = match (call.segment(2), &named) {
            (Some(name), _) => name,
            (None, Some(name)) => name,
            (None, None) => {
                let message = "expecting /_api/document/<collection>";
                return Err(DocumentError::new(ErrorNumber::HTTP_BAD_PARAMETER, message));
            }
        };
        let key = call.segment(3);
        if matches!(call.method, Method::Get | Method::Head) && key.is_none() {
            let message = "expecting /_api/document/<collection>/<key>";
            return Err(DocumentError::new(ErrorNumber::HTTP_BAD_PARAMETER, message));
        }
        let collection = database.collection(name)?;
        if key.is_some_and(|key| !is_document_key(key.as_bytes())) {
            return Err(match call.method {
                Method::Get | Method::Head | Method::Delete => {
                    ErrorNumber::DOCUMENT_NOT_FOUND.into()
                }
                _ => ErrorNumber::DOCUMENT_KEY_BAD.into(),
            });
        }
        if is_of_many(call) {
            return self.many_documents(call, &collection, timeline).map(Answered::Now);
        }
        self.one_document(call, &collection, key, timeline)
    }
}

/// The answer to who has no right to make a call; nothing for who has.
pub(crate) fn refuse(call: &Call<'_>, caller: &Identity) -> Option<Reply> {
    if call.segment(0) != Some("_api") {
        // The gate has looked at it.
        return None;
    }
    let reads = match (call.method, call.segment(1)) {
        (Method::Get | Method::Head, _) => true,
        (Method::Put, Some("document")) => call.has_parameter("onlyget"),
        // Queries look at their collections themselves.
        (_, Some("cursor" | "explain" | "query" | "database" | "user")) => true,
        _ => false,
    };
    let needed = if reads { Right::Read } else { Right::Write };
    let database = &*call.database;
    let error = || {
        let message = "not authorized to execute this request";
        DocumentError::new(ErrorNumber::FORBIDDEN, message)
    };
    let named = call.parameter("collection");
    let collection = match (call.segment(1), call.segment(2)) {
        (Some("document" | "collection" | "index"), Some(name)) => Some(name),
        (Some("document" | "index" | "import"), None) => named.as_deref(),
        _ => None,
    };
    if let Some(collection) = collection {
        let may = caller.may(Scope::Collection(database, collection), needed);
        return (!may).then(|| Reply::error(&error()));
    }
    let is_open = matches!(call.segment(1), Some("version" | "user" | "database"));
    let may = is_open || caller.may(Scope::Database(database), needed);
    (!may).then(|| Reply::error_as(401, &error()))
}

/// How many segments the path of a call may have; what has a limit of its own, or is not there at
/// all, has none here.
fn segments_max(call: &Call<'_>) -> usize {
    match (call.segment(0), call.segment(1)) {
        (Some("_api"), Some("version" | "engine" | "explain" | "import")) => 2,
        (Some("_api"), Some("database" | "query" | "transaction")) => 3,
        (Some("_api"), Some("document" | "collection" | "index" | "cursor")) => 4,
        (Some("_open"), Some("auth")) if call.segment(2) == Some("renew") => 3,
        (Some("_open"), Some("auth")) | (Some("_admin"), Some("time" | "status")) => 2,
        (Some("_admin"), Some("server")) => 3,
        _ => usize::MAX,
    }
}

/// Whether a call to `/_api/document` is about several documents.
fn is_of_many(call: &Call<'_>) -> bool {
    if call.segment(3).is_some() {
        return false;
    }
    match call.method {
        Method::Post => call.body.trim_ascii_start().first() == Some(&b'['),
        Method::Put | Method::Patch | Method::Delete => true,
        _ => false,
    }
}

/// Adds the headers by which browsers let pages of other origins in.
pub(crate) fn add_cross_origin(response: &mut Response<'_>, asked: Option<&[u8]>) {
    response
        .header("Access-Control-Allow-Methods", b"DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
        .header("Access-Control-Max-Age", b"1800");
    let is_plain = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    if let Some(asked) = asked.filter(|asked| asked.iter().all(is_plain)) {
        response.header("Access-Control-Allow-Headers", asked);
    }
}
