//! The session that all requests share, the threads that drive it, and the bounds on both.

use std::collections::HashSet;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pellucid_account::{EngineCounts, PARTS_MAX, Part, Timeline};
use pellucid_clock::{Clock, Ticks};
use pellucid_store::{Answer, Arrival, PartTime, Pending, Result, StoreError, Table};
use pellucid_thread::{Mutex, RwLock};
use scylla::client::session::Session;
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::bound::BoundStatement;
use tokio::runtime::{Builder, Runtime};

use crate::away;
use crate::connect::connect;
use crate::entry::Values;
use crate::error::Failed;
use crate::options::CqlOptions;
use crate::parts;
use crate::place::Space;
use crate::retry::Again;
use crate::schema::{Statements, make, prepare};
use crate::traces::{RoundTrip, Sample, Traces};
use crate::turns::Turns;
use crate::versions::Versions;

/// The name of the threads that talk to the ring.
const THREAD: &str = "pellucid-cql";

/// See the module.
pub(crate) struct Ring {
    pub(crate) session: Session,
    pub(crate) statements: Statements,
    pub(crate) versions: Versions,
    pub(crate) replication: u32,
    pub(crate) value_bytes_max: usize,
    pub(crate) spaces: RwLock<Vec<Arc<Space>>>,
    /// Partitions of parts that the ring is known to list.
    pub(crate) listed: Mutex<HashSet<(u16, Vec<u8>)>>,
    pub(crate) traces: Traces,
    pub(crate) asked: AtomicU64,
    pub(crate) buckets: u16,
    /// The longest wait for an answer.
    pub(crate) timeout: Duration,
    pub(crate) turns: Turns,
    /// Whose transactions the ring notes as this process's.
    pub(crate) writer: i64,
    trace_share: f64,
    clock: Clock,
    in_flight: AtomicUsize,
    in_flight_max: usize,
    is_closed: AtomicBool,
    runtime: Option<Runtime>,
}

/// The times of a request on the threads that talk to the ring.
pub(crate) struct Laps {
    clock: Clock,
    /// By the slot of the part that they are of.
    ticks: [u64; PARTS_MAX],
    last: Ticks,
    sample: Sample,
}

/// A place among the requests in flight.
struct Place(Arc<Ring>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ring {
    /// Connects, and makes what is missing in the ring.
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
            turns: Turns::new(),
            writer: RandomState::new().hash_one(std::process::id()) as i64,
            trace_share: options.trace_share,
            clock: Clock::monotonic(),
            in_flight: AtomicUsize::new(0),
            in_flight_max: options.in_flight_max,
            is_closed: AtomicBool::new(false),
            runtime: Some(runtime),
        }))
    }

    pub(crate) fn space(&self, table: Table) -> Result<Arc<Space>> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        let found = spaces.get(usize::from(table.number())).cloned();
        found.ok_or_else(|| StoreError::Unacceptable("the store has no such table".to_owned()))
    }

    /// Requests that are on their way.
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

    fn place(self: &Arc<Self>) -> Result<Place> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(StoreError::ReadOnly("the store was closed".to_owned()));
        }
        let place = Place(Arc::clone(self));
        if self.in_flight.fetch_add(1, Ordering::Relaxed) >= self.in_flight_max {
            let what = "too many requests wait for the ring: try again in a moment";
            return Err(StoreError::Busy(what.to_owned()));
        }
        Ok(place)
    }

    /// The answer that `ask` finds, on another thread. What was done so far encoded the request.
    pub(crate) fn later<T, F>(
        self: &Arc<Self>,
        timeline: &mut Timeline,
        ask: impl FnOnce(Arc<Ring>, Laps) -> F,
    ) -> Result<Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = (Result<T>, Laps)> + Send + 'static,
    {
        timeline.lap(parts::ENCODE);
        let place = self.place()?;
        let (clock, ring, asked) = (self.clock, Arc::clone(self), Arc::clone(self));
        let handed_over = clock.now();
        let mut laps = Laps::begun(clock, handed_over);
        if self.traces.is_due(self.trace_share) {
            laps.sample = Sample::of(timeline);
        }
        let found = ask(Arc::clone(self), laps);
        Ok(Answer::Later(Pending::new(move |callback| {
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

    /// Waits for what `work` comes to. Not for threads that talk to the ring.
    pub(crate) fn wait<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let place = self.place()?;
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.spawn(async move {
            let result = work.await;
            drop(place);
            // The receiver is below and waits.
            let _ = sender.send(result);
        });
        // Every request of the work has a timeout.
        let ended = |_| StoreError::Failed("the threads that talk to the ring have ended".into());
        receiver.recv().map_err(ended)?
    }

    /// Asks the ring, and has it trace the request if one is due.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        mut statement: BoundStatement,
        laps: &mut Laps,
    ) -> std::result::Result<QueryResult, Failed> {
        let again = Again::default();
        statement.set_retry_policy(Some(Arc::new(again.clone())));
        self.asked.fetch_add(1, Ordering::Relaxed);
        if laps.sample.is_traced() {
            statement.set_tracing(true);
        }
        laps.begin();
        let answer = self.session.execute_bound_unpaged(&statement).await;
        self.note(&answer, laps);
        answer.map_err(|error| {
            let away = away::of_statement(&self.session, &statement);
            Failed { error, said: again.said(), away }
        })
    }

    /// As [`Ring::ask`], for several statements at once.
    pub(crate) async fn ask_batch(
        self: &Arc<Self>,
        mut batch: Batch,
        values: Vec<Values<'_>>,
        laps: &mut Laps,
    ) -> std::result::Result<QueryResult, Failed> {
        let again = Again::default();
        batch.set_retry_policy(Some(Arc::new(again.clone())));
        self.asked.fetch_add(1, Ordering::Relaxed);
        batch.set_tracing(laps.sample.is_traced());
        // One over several partitions is logged.
        let is_spread = batch.get_type() == BatchType::Logged;
        let partition = values.first().filter(|_| !is_spread).map(Values::partition);
        laps.begin();
        let answer = self.session.batch(&batch, values).await;
        self.note(&answer, laps);
        answer.map_err(|error| {
            let table = self.statements.contents();
            let away = away::of_partition(&self.session, table, partition);
            Failed { error, said: again.said(), away }
        })
    }

    /// Notes how long the ring took, and where it says what it did meanwhile.
    fn note<E>(self: &Arc<Self>, answer: &std::result::Result<QueryResult, E>, laps: &mut Laps) {
        let took_us = self.clock.nanoseconds(laps.end(parts::RING)) / 1_000;
        if let Ok(answer) = answer
            && let Some(id) = answer.tracing_id()
        {
            let ring = Arc::clone(self);
            let trace = async move { ring.session.get_tracing_info(&id).await.ok() };
            let round_trip = RoundTrip::new(trace, took_us);
            match &mut laps.sample {
                Sample::Request { round_trips, .. } => round_trips.push(round_trip),
                // It may be one of many requests with the same laps, and has no record.
                Sample::Sums => self.look(Sample::alone(round_trip)),
                Sample::None => {}
            }
        }
    }

    /// Looks at the traces of a request that was answered, beside what else goes on.
    fn look(self: &Arc<Self>, sample: Sample) {
        let Sample::Request { request, round_trips } = sample else { return };
        let ring = Arc::clone(self);
        self.spawn(async move { ring.traces.look(request, round_trips, ring.clock).await });
    }

    /// As [`Ring::ask`], with the store's errors.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        statement: BoundStatement,
        laps: &mut Laps,
    ) -> Result<QueryResult> {
        Ok(self.ask(statement, laps).await?)
    }

    /// Laps for work of which nobody keeps an account.
    pub(crate) fn no_laps(&self) -> Laps {
        let mut laps = Laps::begun(self.clock, self.clock.now());
        if self.traces.is_due(self.trace_share) {
            laps.sample = Sample::Sums;
        }
        laps
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The last owner may be one of the runtime's own threads, which must not wait for itself.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Laps {
    fn begun(clock: Clock, last: Ticks) -> Laps {
        Laps { clock, ticks: [0; PARTS_MAX], last, sample: Sample::None }
    }

    /// Begins a time that ends with [`Laps::end`].
    pub(crate) fn begin(&mut self) {
        self.last = self.clock.now();
    }

    /// Ends a time of this part, and says how long it was.
    pub(crate) fn end(&mut self, part: Part) -> u64 {
        let now = self.clock.now();
        let ticks = now.since(self.last);
        self.ticks[part.slot()] += ticks;
        self.last = now;
        ticks
    }

    fn arrival<T>(mut self, result: Result<T>, handed_over: Ticks, begun: Ticks) -> Arrival<T> {
        self.ticks[parts::CONNECTION_WAIT.slot()] = begun.since(handed_over);
        let time = |part: Part| {
            let ticks = self.ticks[part.slot()];
            PartTime { part, ticks, until: self.last, waited_for: 0 }
        };
        let parts = [parts::CONNECTION_WAIT, parts::RING, parts::DECODE, parts::TURN_WAIT];
        let times = parts.map(time).to_vec();
        Arrival { result, parts: times, started: None, counts: EngineCounts::default() }
    }
}
