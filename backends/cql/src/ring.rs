//! The session that all requests share, the threads that drive it, and the limits of both.

use std::collections::HashSet;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use pellucid_account::{EngineCounts, PARTS_MAX, Part, Timeline};
use pellucid_clock::{Clock, Ticks};
use pellucid_store::{
    Answer, DeferredAnswer, DeliveredAnswer, PartMeasurement, Result, StoreError, Table,
};
use pellucid_thread::{Mutex, RwLock};
use scylla::client::session::Session;
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::bound::BoundStatement;
use tokio::runtime::{Builder, Runtime};

use crate::connect::connect;
use crate::entry::Values;
use crate::error::FailedRequest;
use crate::options::CqlOptions;
use crate::partition_locks::PartitionLocks;
use crate::partitioned_table::PartitionedTable;
use crate::parts;
use crate::retry::RequestRetryPolicy;
use crate::schema::{Statements, make, prepare};
use crate::traces::{RoundTrip, Sample, Traces};
use crate::unreachable_nodes;
use crate::versions::Versions;

/// The name of the threads that talk to the ring.
const THREAD: &str = "pellucid-cql";

/// The connection of a store to its ring, shared by all requests.
pub(crate) struct Ring {
    pub(crate) session: Session,
    pub(crate) statements: Statements,
    pub(crate) versions: Versions,
    pub(crate) replication: u32,
    pub(crate) value_bytes_max: usize,
    pub(crate) spaces: RwLock<Vec<Arc<PartitionedTable>>>,
    /// The parts that the ring is known to list, each with its table's number.
    pub(crate) listed: Mutex<HashSet<(u16, Vec<u8>)>>,
    pub(crate) traces: Traces,
    /// Number of requests sent to the ring.
    pub(crate) asked: AtomicU64,
    /// Number of buckets of new tables.
    pub(crate) buckets: u16,
    /// The longest wait for an answer.
    pub(crate) timeout: Duration,
    pub(crate) turns: PartitionLocks,
    /// A random number that identifies this process in the notes of its transactions.
    pub(crate) writer: i64,
    trace_share: f64,
    clock: Clock,
    in_flight: AtomicUsize,
    in_flight_max: usize,
    is_closed: AtomicBool,
    runtime: Option<Runtime>,
}

/// The times of a request on the threads that talk to the ring.
pub(crate) struct RequestTimer {
    clock: Clock,
    /// The time of each part, by slot.
    ticks: [u64; PARTS_MAX],
    last: Ticks,
    sample: Sample,
}

/// A guard that counts as one request in flight.
struct InFlightGuard(Arc<Ring>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ring {
    /// Connects to the ring, and creates the keyspace and its tables if they are missing.
    pub(crate) fn open(options: &CqlOptions) -> Result<Arc<Ring>> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .thread_name(THREAD)
            .enable_all()
            .build()
            .map_err(|error| StoreError::Failed(format!("cannot start a thread: {error}")))?;
        let (session, replication, statements) = runtime.block_on(async {
            let session = connect(options).await?;
            let replication = make(&session, options).await?;
            let statements = prepare(&session, &options.keyspace).await?;
            Ok::<_, StoreError>((session, replication, statements))
        })?;
        Ok(Arc::new(Ring {
            session,
            statements,
            versions: Versions::new(),
            replication,
            value_bytes_max: options.value_bytes_max,
            spaces: RwLock::default(),
            listed: Mutex::default(),
            traces: Traces::default(),
            asked: AtomicU64::new(0),
            buckets: options.buckets.max(1),
            timeout: options.timeout,
            // Half of the requests, so that those that wait keep no others out.
            turns: PartitionLocks::new(options.in_flight_max / 2),
            writer: RandomState::new().hash_one(std::process::id()) as i64,
            trace_share: options.trace_share,
            clock: Clock::monotonic(),
            in_flight: AtomicUsize::new(0),
            in_flight_max: options.in_flight_max,
            is_closed: AtomicBool::new(false),
            runtime: Some(runtime),
        }))
    }

    pub(crate) fn space(&self, table: Table) -> Result<Arc<PartitionedTable>> {
        let spaces = self.spaces.read();
        let found = spaces.get(usize::from(table.number())).cloned();
        found.ok_or_else(|| StoreError::Unacceptable("the store has no such table".to_owned()))
    }

    /// Number of requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Runs a future on the ring's threads.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let runtime = self.runtime.as_ref().expect("it is taken only when the ring is dropped");
        drop(runtime.spawn(work));
    }

    fn place(self: &Arc<Self>) -> Result<InFlightGuard> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(StoreError::ReadOnly("the store was closed".to_owned()));
        }
        let place = InFlightGuard(Arc::clone(self));
        if self.in_flight.fetch_add(1, Ordering::Relaxed) >= self.in_flight_max {
            let what = "too many requests wait for the ring: try again in a moment";
            return Err(StoreError::Busy(what.to_owned()));
        }
        Ok(place)
    }

    /// Runs `ask` on the ring's threads, for an answer that comes later. The time until now counts
    /// as [`parts::ENCODE`].
    pub(crate) fn later<T, F>(
        self: &Arc<Self>,
        timeline: &mut Timeline,
        ask: impl FnOnce(Arc<Ring>, RequestTimer) -> F,
    ) -> Result<Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = (Result<T>, RequestTimer)> + Send + 'static,
    {
        timeline.lap(parts::ENCODE);
        let place = self.place()?;
        let (clock, ring, asked) = (self.clock, Arc::clone(self), Arc::clone(self));
        let handed_over = clock.now();
        let mut laps = RequestTimer::begun(clock, handed_over);
        if self.traces.is_due(self.trace_share) {
            laps.sample = Sample::of(timeline);
        }
        let found = ask(Arc::clone(self), laps);
        Ok(Answer::Later(DeferredAnswer::new(move |callback| {
            ring.spawn(async move {
                let begun = clock.now();
                let (result, mut laps) = found.await;
                drop(place);
                let sample = std::mem::take(&mut laps.sample);
                callback(laps.arrival(result, handed_over, begun));
                asked.look(sample);
            });
        })))
    }

    /// Runs `work` on the ring's threads, and waits for its result. These threads must not call it.
    pub(crate) fn wait<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let place = self.place()?;
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.spawn(async move {
            let result = work.await;
            drop(place);
            // The receiver below is waiting, so the send succeeds.
            let _ = sender.send(result);
        });
        // This wait ends, because every request of the work has a timeout.
        let ended = |_| StoreError::Failed("the threads that talk to the ring have ended".into());
        receiver.recv().map_err(ended)?
    }

    /// Sends a statement to the ring, and requests a trace if `laps` has a sample.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        mut statement: BoundStatement,
        laps: &mut RequestTimer,
    ) -> std::result::Result<QueryResult, FailedRequest> {
        let policy = RequestRetryPolicy::default();
        statement.set_retry_policy(Some(Arc::new(policy.clone())));
        self.asked.fetch_add(1, Ordering::Relaxed);
        if laps.sample.is_traced() {
            statement.set_tracing(true);
        }
        laps.begin();
        let answer = self.session.execute_bound_unpaged(&statement).await;
        self.note(&answer, laps);
        answer.map_err(|error| {
            let unconnected = unreachable_nodes::of_statement(&self.session, &statement);
            let is_read = statement.prepared().get_statement().starts_with("SELECT");
            FailedRequest { error, earlier: policy.earlier_error(), is_read, unconnected }
        })
    }

    /// Like [`Ring::ask`], for a batch.
    pub(crate) async fn ask_batch(
        self: &Arc<Self>,
        mut batch: Batch,
        values: Vec<Values<'_>>,
        laps: &mut RequestTimer,
    ) -> std::result::Result<QueryResult, FailedRequest> {
        let policy = RequestRetryPolicy::default();
        batch.set_retry_policy(Some(Arc::new(policy.clone())));
        self.asked.fetch_add(1, Ordering::Relaxed);
        batch.set_tracing(laps.sample.is_traced());
        // A logged batch is one over several partitions.
        let is_spread = batch.get_type() == BatchType::Logged;
        let partition = values.first().filter(|_| !is_spread).map(Values::partition);
        laps.begin();
        let answer = self.session.batch(&batch, values).await;
        self.note(&answer, laps);
        answer.map_err(|error| {
            let table = self.statements.contents();
            let unconnected = unreachable_nodes::of_partition(&self.session, table, partition);
            FailedRequest { error, earlier: policy.earlier_error(), is_read: false, unconnected }
        })
    }

    /// Adds the time of a round trip to `laps`, and keeps the id of its trace.
    fn note<E>(
        self: &Arc<Self>,
        answer: &std::result::Result<QueryResult, E>,
        laps: &mut RequestTimer,
    ) {
        let took_us = self.clock.nanoseconds(laps.end(parts::RING)) / 1_000;
        if let Ok(answer) = answer
            && let Some(id) = answer.tracing_id()
        {
            let ring = Arc::clone(self);
            let trace = async move { ring.session.get_tracing_info(&id).await.ok() };
            let round_trip = RoundTrip::new(trace, took_us);
            match &mut laps.sample {
                Sample::Request { round_trips, .. } => round_trips.push(round_trip),
                // The round trip has no record, and others may share its laps: look at once.
                Sample::Sums => self.look(Sample::alone(round_trip)),
                Sample::None => {}
            }
        }
    }

    /// Reads the traces of an answered request in the background.
    fn look(self: &Arc<Self>, sample: Sample) {
        let Sample::Request { request, round_trips } = sample else { return };
        let ring = Arc::clone(self);
        self.spawn(async move { ring.traces.look(request, round_trips, ring.clock).await });
    }

    /// Like [`Ring::ask`], with the store's errors.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        statement: BoundStatement,
        laps: &mut RequestTimer,
    ) -> Result<QueryResult> {
        Ok(self.ask(statement, laps).await?)
    }

    /// Laps for work that no request accounts for.
    pub(crate) fn no_laps(&self) -> RequestTimer {
        let mut laps = RequestTimer::begun(self.clock, self.clock.now());
        if self.traces.is_due(self.trace_share) {
            laps.sample = Sample::Sums;
        }
        laps
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The last owner may be a thread of the runtime, which must not wait for its own end.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl RequestTimer {
    fn begun(clock: Clock, last: Ticks) -> RequestTimer {
        RequestTimer { clock, ticks: [0; PARTS_MAX], last, sample: Sample::None }
    }

    /// Starts a measurement that ends with [`RequestTimer::end`].
    pub(crate) fn begin(&mut self) {
        self.last = self.clock.now();
    }

    /// Adds the time since the last call to a part. Returns that time in ticks.
    pub(crate) fn end(&mut self, part: Part) -> u64 {
        let now = self.clock.now();
        let ticks = now.since(self.last);
        self.ticks[part.slot()] += ticks;
        self.last = now;
        ticks
    }

    fn arrival<T>(
        mut self,
        result: Result<T>,
        handed_over: Ticks,
        begun: Ticks,
    ) -> DeliveredAnswer<T> {
        self.ticks[parts::THREAD_WAIT.slot()] = begun.since(handed_over);
        let time = |part: Part| {
            let ticks = self.ticks[part.slot()];
            PartMeasurement { part, ticks, until: self.last, waited_for: 0 }
        };
        let parts = [parts::THREAD_WAIT, parts::RING, parts::DECODE, parts::TURN_WAIT];
        let times = parts.map(time).to_vec();
        DeliveredAnswer { result, parts: times, started: None, counts: EngineCounts::default() }
    }
}
