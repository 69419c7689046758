//! Finds the handler of a call, on whichever thread that is.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_aql::Statements;
use pellucid_budget::{Budget, Share};
use pellucid_document::{Collection, DocumentError, Documents, ErrorNumber, is_document_key};
use pellucid_http::Response;
use pellucid_store::{Acknowledgement, Pending, Result as StoreResult, Written};

use crate::access::{Accounts, Identity};
use crate::names::Operation;
use crate::routes::{DocumentHandler, Handler, Method, Runs};

use super::about::unknown_path;
use super::call::Call;
use super::control::Calls;
use super::judging::{Refused, judge_account};
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
    /// The calls that workers are at.
    pub(crate) calls: Calls,
    /// What all requests may take together.
    pub(crate) memory: Budget,
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

/// A call with what a handler needs beside what it is about.
pub(crate) struct Calling<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) caller: &'a Identity,
    pub(crate) timeline: &'a mut Timeline,
}

/// What a handler comes to.
pub(crate) type Answer = Result<Answered, DocumentError>;

/// What a handler says.
pub(crate) enum Answered {
    Now(Reply),
    /// Once what was written is on the medium, or the store has said that it can be.
    Later(Pending<Written>, Finish),
}

impl DocumentApi {
    /// What a call is accounted for as.
    pub(crate) fn operation(call: &Call<'_>) -> Operation {
        if call.is_array() { Operation::DocumentArray } else { call.route.operation }
    }

    /// Whether a call is answered so soon that an event loop can do it.
    pub(crate) fn is_light(call: &Call<'_>) -> bool {
        match call.route.runs {
            Runs::AtOnce => true,
            Runs::IfSmall => call.body.len() <= LIGHT_BODY_BYTES_MAX && !call.is_array(),
            Runs::IfPlanned | Runs::OnWorker => false,
        }
    }

    /// The memory of one call: none yet.
    pub(super) fn memory_of_call(&self) -> Share {
        self.memory.share(self.settings.query_memory_max)
    }

    /// Answers a call.
    pub(crate) fn answer(
        self: &Arc<Self>,
        call: &Call<'_>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Answered {
        let answered = self.find(call, caller, timeline);
        answered.unwrap_or_else(|refused| Answered::Now(refused.reply()))
    }

    /// As [`Self::answer`], on a thread that must not wait for the medium; nothing where it would
    /// have to. The call is light ([`Self::is_light`]).
    pub(crate) fn answer_here(
        self: &Arc<Self>,
        call: &Call<'_>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Option<Answered> {
        match self.find(call, caller, timeline) {
            Err(Refused::Error(error)) if error.number == ErrorNumber::NOT_IN_MEMORY => None,
            answered => Some(answered.unwrap_or_else(|refused| Answered::Now(refused.reply()))),
        }
    }

    /// Finds what a call is about, judges its caller, and has its handler answer.
    fn find(
        self: &Arc<Self>,
        call: &Call<'_>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Result<Answered, Refused> {
        if call.is_async {
            let message = "jobs (x-arango-async: store) are not implemented";
            return Err(DocumentError::new(ErrorNumber::NOT_IMPLEMENTED, message).into());
        }
        if let Some(id) = &call.transaction {
            let id = String::from_utf8_lossy(id);
            let message = format!("transaction '{id}' not found");
            return Err(DocumentError::new(ErrorNumber::TRANSACTION_NOT_FOUND, message).into());
        }
        let Handler::Documents(handler) = call.route.handler else {
            return Err(unknown_path(call).into());
        };
        let calling = Calling { call, caller, timeline };
        Ok(match handler {
            DocumentHandler::Server(answer) => {
                judge_account(call, caller)?;
                answer(self, calling)?
            }
            DocumentHandler::Database(answer) => {
                let database = self.database_of(call, caller)?;
                answer(self, calling, &database)?
            }
            DocumentHandler::Collection(answer) => {
                let (database, collection) = self.collection_of(call, caller)?;
                answer(self, calling, &database, &collection)?
            }
        })
    }

    /// Answers a call to one document, or the insertion of one.
    pub(crate) fn document_call(
        self: &Arc<Self>,
        call: &Call<'_>,
        collection: &Arc<Collection>,
        timeline: &mut Timeline,
    ) -> Answer {
        let key = call.part("{key}");
        if key.is_some_and(|key| !is_document_key(key.as_bytes())) {
            return Err(match call.method {
                Method::Get | Method::Head | Method::Delete => {
                    ErrorNumber::DOCUMENT_NOT_FOUND.into()
                }
                _ => ErrorNumber::DOCUMENT_KEY_BAD.into(),
            });
        }
        self.one_document(call, collection, key, timeline)
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
