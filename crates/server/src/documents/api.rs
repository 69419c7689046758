//! The central object of the document API. It owns the parts that answer calls, finds the database
//! or collection of a call, authorises the caller, and routes the call to its handler. Event loops
//! and workers use it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pellucid_account::{Stamp, Timeline};
use pellucid_budget::Budget;
use pellucid_clock::Clock;
use pellucid_document::{Collection, Database, DocumentError, Documents, ErrorNumber};
use pellucid_http::Request;
use pellucid_store::Acknowledgement;
use pellucid_thread::PeriodicThread;

use super::authorization::{
    CallError, authorize_account, collection_of, database_of, find_collection,
};
use super::call::{Call, bad_request, not_implemented};
use super::completion::{Completion, ReplyResult};
use super::control::Calls;
use super::cursors::Cursors;
use super::memory::RequestMemory;
use super::pool::Pool;
use super::query_runner::QueryRunner;
use super::reply::counted;
use super::server_info::{self, unknown_path};
use super::settings::DocumentSettings;
use super::slow_queries::SlowQueries;
use super::{
    array, backups, collections, document, import, indexes, query_calls, unimplemented, upkeep,
    users,
};
use crate::access::{Accounts, Identity, Right};
use crate::log::Log;
use crate::reply::{DriverSettings, Reply};
use crate::routes::{
    CollectionCall, DatabaseCall, DocumentHandler, Handler, HandlerThread, ServerCall,
};

/// The most bytes of the body of a query that an event loop runs.
const LIGHT_QUERY_BYTES_MAX: usize = 4 << 10;

/// The document API of a server.
pub(crate) struct DocumentApi {
    documents: Arc<Documents>,
    accounts: Arc<Accounts>,
    pool: Pool,
    /// The calls that workers are executing.
    calls: Calls,
    queries: QueryRunner,
    memory: RequestMemory,
    /// The acknowledgement of a write whose request does not ask for one.
    acknowledgement: Acknowledgement,
    settings: DocumentSettings,
    log: Log,
}

impl DocumentApi {
    /// Starts the threads of the API. Requests take their memory from `memory`, and those that fail
    /// because of the store are logged to `log`.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(crate) fn start(
        documents: Documents,
        accounts: &Arc<Accounts>,
        acknowledgement: Acknowledgement,
        memory: Budget,
        settings: &DocumentSettings,
        log: Log,
    ) -> io::Result<DocumentApi> {
        let documents = Arc::new(documents);
        let pool = Pool::start(Clock::system(), settings.queued_calls_max)?;
        let memory = RequestMemory::new(memory, settings.query_memory_max);
        let queries =
            QueryRunner::new(&documents, &memory, acknowledgement, settings, pool.resting());
        Ok(DocumentApi {
            documents,
            accounts: Arc::clone(accounts),
            pool,
            calls: Calls::default(),
            queries,
            memory,
            acknowledgement,
            settings: settings.clone(),
            log,
        })
    }

    /// Starts the thread that removes garbage, and expired documents and cursors.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(crate) fn start_upkeep(&self) -> io::Result<PeriodicThread> {
        upkeep::start(&self.documents, self.queries.cursors(), self.log.clone())
    }

    /// Ends all calls and the threads. Nobody may wait for replies any more.
    pub(crate) fn stop(&self) {
        self.calls.end_all();
        self.queries.running().kill_all();
        self.pool.stop();
    }

    /// Stores the counts of documents, and lets other processes serve the documents.
    pub(crate) fn close(&self) {
        // If this fails, the next opening counts the documents.
        let _ = self.documents.note_counts();
        self.documents.release();
    }

    /// Stops serving the documents although some calls have not ended. The counts of documents are
    /// not stored, because these calls may still change them.
    pub(crate) fn abandon(&self) {
        self.documents.abandon();
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The collection of this name, if the caller may read it.
    ///
    /// # Errors
    /// If there is none, or the caller may not read it.
    pub(crate) fn readable_collection(
        &self,
        database: &str,
        name: &str,
        caller: &Identity,
    ) -> Result<Arc<Collection>, DocumentError> {
        let found = find_collection(&self.documents, (database, name), caller, Right::Read);
        found.map(|(_, collection)| collection)
    }

    /// The memory that all requests may take together.
    pub(crate) fn memory(&self) -> &Budget {
        self.memory.budget()
    }

    pub(crate) fn cursors(&self) -> &Arc<Cursors> {
        self.queries.cursors()
    }

    pub(crate) fn slow_queries(&self) -> &Arc<SlowQueries> {
        self.queries.slow_queries()
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn query_runtime_max(&self) -> Duration {
        self.settings.query_runtime_max
    }

    pub(super) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The refusal of a request that does not depend on its caller; `None` if it is accepted.
    pub(super) fn refuse_early(&self, request: &Request<'_>) -> Option<Reply> {
        let content_type = request.header("content-type").unwrap_or_default();
        if content_type.starts_with(b"application/x-velocypack") {
            let message = "bodies are JSON here, not VelocyPack";
            return Some(DocumentError::new(ErrorNumber::HTTP_NOT_ACCEPTABLE, message).into());
        }
        let wanted = request.header("x-arango-queue-time-seconds")?;
        let wanted: f64 = std::str::from_utf8(wanted).ok()?.trim().parse().ok()?;
        let last = self.pool.last_queued_ns() as f64 / 1e9;
        (wanted > 0.0 && last > wanted).then(|| ErrorNumber::QUEUE_TIME_VIOLATED.into())
    }

    /// Completes a reply for drivers: sets its headers and compression, and takes the memory of its
    /// body from the budget. A failure of the store is logged.
    pub(super) fn for_driver(&self, reply: Reply, queued_ns: u64) -> Reply {
        if let Some(failure) = reply.store_failure.as_deref().filter(|_| reply.status >= 500) {
            self.log.failed_request("a request failed", failure);
        }
        let compressed_from_bytes = self.settings.compressed_from_bytes;
        let driver = Some(DriverSettings { queued_ns, compressed_from_bytes });
        Reply { driver, ..counted(reply, self.memory.budget()) }
    }

    /// Answers a call, on a thread that may block.
    pub(super) fn answer(
        &self,
        call: &Call<'_>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Completion {
        // A call that may wait always has an answer.
        let none = || Completion::Reply(ErrorNumber::INTERNAL.into());
        self.try_answer(call, caller, timeline).unwrap_or_else(none)
    }

    /// Answers a call on an event loop; `None` if a worker has to do it, because waiting for the
    /// disk would hold up all connections of the loop.
    pub(super) fn answer_on_loop(
        &self,
        call: &Call<'_>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Option<Completion> {
        match call.route.runs {
            HandlerThread::OnWorker => None,
            HandlerThread::IfPlanned => {
                let can_be_light = !call.is_async
                    && call.transaction.is_none()
                    && call.body.len() <= LIGHT_QUERY_BYTES_MAX;
                if !can_be_light {
                    return None;
                }
                let database = database_of(&self.documents, call, caller).ok()?;
                let reply = self.queries.answer_light(call, &database, caller, timeline)?;
                timeline.stamp(Stamp::Executed);
                Some(Completion::Reply(reply))
            }
            HandlerThread::IfSmall if !call.is_light() => None,
            HandlerThread::IfSmall if !self.is_in_memory() => {
                // A write cannot be repeated, so it is not tried here. A read may find its document
                // in memory, even if other reads did not.
                if !call.reads_document() {
                    return None;
                }
                let (before, mut completion) = (timeline.clone(), None);
                let is_in_memory = self.documents.store().local()?.all_in_memory(&mut |_| {
                    completion = self.try_answer(call, caller, timeline);
                    completion.is_some()
                });
                if !is_in_memory {
                    // Forget the try: the worker accounts for the whole read.
                    *timeline = before;
                    return None;
                }
                completion
            }
            HandlerThread::AtOnce | HandlerThread::IfSmall => {
                self.try_answer(call, caller, timeline)
            }
        }
    }

    /// True if the store answers from memory at present.
    fn is_in_memory(&self) -> bool {
        self.documents.store().local().is_some_and(|local| local.is_in_memory())
    }

    /// Answers a call; `None` if it would have to wait for the disk and may not.
    fn try_answer(
        &self,
        call: &Call<'_>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Option<Completion> {
        let completion = self.route(call, caller, timeline);
        completion.unwrap_or_else(|error| Some(Completion::Reply(error.into_reply(call))))
    }

    /// Finds the database or collection of a call, authorises the caller, and calls the handler.
    fn route(
        &self,
        call: &Call<'_>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Result<Option<Completion>, CallError> {
        if call.is_async {
            return Err(not_implemented("jobs (x-arango-async: store) are not implemented").into());
        }
        if let Some(id) = &call.transaction {
            let id = String::from_utf8_lossy(id);
            let message = format!("transaction '{id}' not found");
            return Err(DocumentError::new(ErrorNumber::TRANSACTION_NOT_FOUND, message).into());
        }
        let Handler::Documents(handler) = call.route.handler else {
            return Err(unknown_path(call).into());
        };
        let reply = match handler {
            DocumentHandler::Server(handler) => {
                authorize_account(call, caller)?;
                self.about_server(handler, call, caller)?
            }
            DocumentHandler::Database(handler) => {
                let database = database_of(&self.documents, call, caller)?;
                self.about_database(handler, call, &database, caller, timeline)?
            }
            DocumentHandler::Collection(handler) => {
                let (database, collection) = collection_of(&self.documents, call, caller)?;
                let found = (&*database, &collection);
                return Ok(self.about_collection(handler, call, found, caller, timeline)?);
            }
        };
        Ok(Some(reply.into()))
    }

    fn about_server(&self, handler: ServerCall, call: &Call<'_>, caller: &Identity) -> ReplyResult {
        let (documents, accounts) = (&*self.documents, &*self.accounts);
        let version = &*self.settings.reported_version;
        match handler {
            ServerCall::Databases => {
                collections::answer_databases(documents, accounts, call, caller)
            }
            ServerCall::Users => users::answer(accounts, call, caller),
            ServerCall::Version => server_info::version(version, call),
            ServerCall::Admin => server_info::admin(documents, &self.pool, version, call),
            ServerCall::Backups => backups::answer(documents, version, call),
            ServerCall::Grants => Err(not_implemented(
                "grants of users are not implemented here: see `pellucid account --help`",
            )),
            // The row of the routes tells what is missing in the path.
            ServerCall::Incomplete => Err(bad_request(call.route.about)),
            ServerCall::BadIndex => Err(ErrorNumber::INDEX_HANDLE_BAD.into()),
        }
    }

    fn about_database(
        &self,
        handler: DatabaseCall,
        call: &Call<'_>,
        database: &Arc<Database>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> ReplyResult {
        let documents = &*self.documents;
        match handler {
            DatabaseCall::Cursors => self.queries.answer(call, database, caller, timeline),
            DatabaseCall::Explain => self.queries.explain(call, database, caller),
            DatabaseCall::Queries => query_calls::answer(&self.queries, call, database, caller),
            DatabaseCall::ListCollections => collections::list(documents, call, database, caller),
            DatabaseCall::CreateCollection => {
                collections::create(documents, call, database, caller)
            }
            DatabaseCall::Current => Ok(collections::current_database(database)),
            DatabaseCall::Unimplemented => unimplemented::answer(call),
        }
    }

    fn about_collection(
        &self,
        handler: CollectionCall,
        call: &Call<'_>,
        (database, collection): (&Database, &Arc<Collection>),
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Result<Option<Completion>, DocumentError> {
        let (documents, memory) = (&self.documents, &self.memory);
        let acknowledgement = self.acknowledgement;
        let reply = match handler {
            CollectionCall::Document if !call.is_array() => {
                // A parsed body takes several times its bytes.
                let _memory = memory.of_document(&call.body)?;
                return document::answer(
                    documents, acknowledgement, memory, call, collection, timeline,
                );
            }
            CollectionCall::Document | CollectionCall::Array => {
                array::answer(documents, acknowledgement, memory, call, collection, timeline)?
            }
            CollectionCall::Import => {
                import::answer(documents, acknowledgement, memory, call, collection, timeline)?
            }
            CollectionCall::ListIndexes => indexes::list(collection),
            CollectionCall::CreateIndex => {
                let running = self.queries.running();
                let made = indexes::create(documents, running, memory, call, collection, caller);
                made.unwrap_or_else(indexes::refusal)
            }
            CollectionCall::ShowIndex => indexes::show(call, collection)?,
            CollectionCall::DropIndex => indexes::drop_index(documents, call, collection)?,
            CollectionCall::Show => collections::view(documents, call, collection)?,
            CollectionCall::Change => collections::change(documents, call, collection)?,
            CollectionCall::Rename => {
                collections::rename(documents, call, database, collection, caller)?
            }
            CollectionCall::Drop => collections::drop_one(documents, call, database, collection)?,
        };
        Ok(Some(reply.into()))
    }
}
