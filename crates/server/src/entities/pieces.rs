//! Ranges of stores that have worker threads for blocking reads. If a range has to wait for the
//! disk, or may be long, the workers read it, one piece ahead of the client: so no event loop
//! blocks, and memory stays bounded. A short range whose entries are in memory is read on the event
//! loop.

use std::borrow::Cow;
use std::sync::Arc;

use pellucid_account::Stamp;
use pellucid_budget::Budget;
use pellucid_clock::{Clock, Ticks};
use pellucid_http::{BodySource, BodyWaker, FillResult};
use pellucid_store::{
    DeliveredAnswer, Range, ReadMode, Result as StoreResult, Scan, Store, StoreError, Table,
    Workers,
};
use pellucid_thread::{Mutex, contain};

use super::multi_get::{KeyList, KeyReads};
use super::ranges::{Entries, Form, NextEntry, Query, RangeBody};
use crate::answer::{Answer, DeferredReply, HandlerResult, LoopExchange, LoopMessage};
use crate::log::Log;
use crate::reply::{Failure, Reply};

/// The highest `limit` with which a range is tried on its event loop. Reading as many entries takes
/// some tens of microseconds, about as long as a hand-over.
const ROWS_AT_ONCE_MAX: u64 = 128;

/// The time within which a client that keeps up takes a piece. A scan is released behind the next
/// piece of a client that does not. One that kept up and then stops holds its scan until its
/// response is cut for the lowest rate.
const PIECE_TAKEN_WITHIN_NS: u64 = 10_000_000;

/// The entities that a request asks for.
pub(crate) enum EntitySelection<'q> {
    Range(Query<'q>),
    Keys(Arc<KeyList>),
}

impl EntitySelection<'_> {
    /// The limit of entries in the reply.
    fn entries_max(&self) -> u64 {
        match self {
            EntitySelection::Range(query) => query.left,
            EntitySelection::Keys(list) => list.keys.len() as u64,
        }
    }

    /// A copy for a thread, which does not borrow from the request.
    fn into_owned(self) -> EntitySelection<'static> {
        match self {
            EntitySelection::Range(query) => EntitySelection::Range(query.into_owned()),
            EntitySelection::Keys(list) => EntitySelection::Keys(list),
        }
    }
}

/// The entries that one store has of a range or a list of keys.
pub(crate) enum StoreEntries {
    Range(Box<dyn Scan>),
    Keys(Box<KeyReads>),
}

impl Entries for StoreEntries {
    const NAME: &'static str = "a range";

    fn next(&mut self) -> StoreResult<NextEntry<'_>> {
        match self {
            StoreEntries::Keys(reads) => reads.next(),
            StoreEntries::Range(scan) => Ok(match Scan::next(&mut **scan)? {
                Some((key, object)) => NextEntry::Here(Cow::Borrowed(key), object),
                None => NextEntry::Over,
            }),
        }
    }

    fn release(&mut self) {
        if let StoreEntries::Range(scan) = self {
            scan.release();
        }
    }

    fn expires_at_ms(&self) -> Option<u64> {
        match self {
            StoreEntries::Keys(_) => None,
            StoreEntries::Range(scan) => scan.expires_at_ms(),
        }
    }

    fn read_ns(&self) -> Option<u64> {
        match self {
            StoreEntries::Keys(reads) => reads.read_ns(),
            StoreEntries::Range(_) => None,
        }
    }
}

/// The entries of one store as the body of a reply.
type StoreRange = RangeBody<StoreEntries>;

/// A walk over the entities that a request asks for.
pub(crate) struct RangeWalk<'q> {
    pub(crate) asked: EntitySelection<'q>,
    pub(crate) form: Form,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) table: Table,
    /// The memory of all requests.
    pub(crate) memory: Budget,
}

/// The first piece of a reply, and the body that makes the following ones.
struct FirstPiece {
    piece: Vec<u8>,
    filled: FillResult,
    body: StoreRange,
}

impl RangeWalk<'_> {
    /// Begins the walk and returns it as a body; `mode` says whether reads may block.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn begin(&self, log: &Log, mode: ReadMode) -> StoreResult<StoreRange> {
        let entries = match &self.asked {
            EntitySelection::Range(query) => StoreEntries::Range(self.scan(query, mode)?),
            EntitySelection::Keys(list) => {
                let snapshot = self.store.snapshot_in(mode)?;
                StoreEntries::Keys(Box::new(KeyReads::new(snapshot, self.table, Arc::clone(list))))
            }
        };
        Ok(RangeBody::new(entries, self.form, self.asked.entries_max(), &self.memory, log))
    }

    fn scan(&self, query: &Query<'_>, mode: ReadMode) -> StoreResult<Box<dyn Scan>> {
        let Query { start, end, reverse, .. } = query;
        let range = Range { start, end: end.as_deref(), reverse: *reverse };
        match mode {
            ReadMode::MayBlock => self.store.scan(self.table, range),
            ReadMode::InMemory | ReadMode::Brief => {
                self.store.snapshot_in(mode)?.scan(self.table, range)
            }
        }
    }

    /// Answers with the range, read here if it is short and in memory, and otherwise on a worker of
    /// `own`.
    pub(crate) fn by_need(
        self,
        own: &Arc<dyn Store>,
        log: &Log,
        exchange: &mut LoopExchange<'_>,
    ) -> HandlerResult {
        let (makers, reminder) = (Arc::clone(own), exchange.reminder());
        let clock = exchange.timeline.clock();
        if let Some(first) = self.first_piece_here(own, log) {
            exchange.timeline.stamp(Stamp::Executed);
            return Ok(first?.reply(makers, reminder, clock).into());
        }
        let Some(place) = own.workers().and_then(Workers::reserve) else {
            let line = "too many ranges are read: try again in a moment";
            return Err(Failure::Busy(line.into()));
        };
        let log = log.clone();
        let RangeWalk { asked, form, store, table, memory } = self;
        let walk = RangeWalk { asked: asked.into_owned(), form, store, table, memory };
        Ok(Answer::pending(move |completer| {
            place.run(move || {
                let started = clock.now();
                let first =
                    DeliveredAnswer::new(walk.first_piece(&log, ReadMode::MayBlock), Vec::new());
                let made = DeferredReply::by(first, |first| first.reply(makers, reminder, clock));
                completer.complete(LoopMessage::Made(Box::new(made.started_at(started))));
            });
        }))
    }

    /// Begins the walk and makes the first piece before the reply begins, so that a failing store
    /// can still be reported with the status.
    fn first_piece(&self, log: &Log, mode: ReadMode) -> StoreResult<FirstPiece> {
        let mut body = self.begin(log, mode)?;
        let mut piece = Vec::new();
        let filled = body.try_fill(&mut piece)?;
        Ok(FirstPiece { piece, filled, body })
    }

    /// The whole of a range in one piece, if it is short and in memory; `None` if it is not.
    fn first_piece_here(&self, own: &Arc<dyn Store>, log: &Log) -> Option<StoreResult<FirstPiece>> {
        if self.asked.entries_max() > ROWS_AT_ONCE_MAX || own.properties().ranges_wait {
            return None;
        }
        let mut made = None;
        let is_here = own.local()?.all_in_memory(&mut |mode| {
            let first = made.insert(self.first_piece(log, mode));
            !matches!(first, Err(StoreError::NotInMemory))
        });
        // Later pieces may have to wait for the disk: a worker starts again from the beginning.
        let is_whole = |first: &FirstPiece| first.filled == FillResult::Last;
        made.filter(|first| is_here && first.as_ref().map_or(true, is_whole))
    }
}

impl FirstPiece {
    fn reply(
        self,
        makers: Arc<dyn Store>,
        reminder: BodyWaker<LoopMessage>,
        clock: Clock,
    ) -> Reply {
        let FirstPiece { piece, filled, body } = self;
        let content_type = body.form().content_type();
        let state = Arc::new(Mutex::new(State::here(piece, filled, body, clock)));
        Reply::streamed(content_type, Pieces { state, makers, reminder, clock })
    }
}

/// The state that the body and the thread that makes its pieces share.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each piece")]
enum State {
    Here {
        piece: Vec<u8>,
        filled: FillResult,
        /// The body, unless this is its last piece.
        body: Option<StoreRange>,
        /// The time at which the piece was made.
        made: Ticks,
    },
    /// The next piece is being made, or all pieces were taken.
    Away,
    /// The code that made the next piece panicked.
    Broken,
}

impl State {
    /// A piece that was made now.
    fn here(piece: Vec<u8>, filled: FillResult, body: StoreRange, clock: Clock) -> State {
        let body = (filled == FillResult::More).then_some(body);
        State::Here { piece, filled, body, made: clock.now() }
    }

    /// Makes the next piece, in the memory of the last one, which the client took `taken_after_ns`
    /// after it was made.
    fn next(mut piece: Vec<u8>, mut body: StoreRange, clock: Clock, taken_after_ns: u64) -> State {
        let made = contain(move || {
            piece.clear();
            let filled = body.fill(&mut piece);
            if taken_after_ns > PIECE_TAKEN_WITHIN_NS {
                body.release();
            }
            State::here(piece, filled, body, clock)
        });
        made.unwrap_or_else(|panicked| {
            panicked.tell();
            State::Broken
        })
    }
}

/// The body of a reply whose pieces workers make.
struct Pieces {
    state: Arc<Mutex<State>>,
    /// The store whose workers make the pieces.
    makers: Arc<dyn Store>,
    reminder: BodyWaker<LoopMessage>,
    clock: Clock,
}

impl BodySource for Pieces {
    fn fill(&mut self, out: &mut Vec<u8>) -> FillResult {
        let mut state = self.state.lock();
        let (piece, body, made) = match std::mem::replace(&mut *state, State::Away) {
            State::Away => return FillResult::Waiting,
            State::Broken => return FillResult::Broken,
            State::Here { piece, filled, body, made } => {
                out.extend_from_slice(&piece);
                let Some(body) = body else { return filled };
                (piece, body, made)
            }
        };
        let clock = self.clock;
        let taken_after_ns = clock.nanoseconds(clock.now().since(made));
        // Each stream has one job at a time, and the limit of requests in flight bounds streams.
        match self.makers.workers().and_then(Workers::reserve_beyond) {
            None => *state = State::next(piece, body, clock, taken_after_ns),
            Some(place) => {
                let (state, reminder) = (Arc::clone(&self.state), self.reminder.clone());
                place.run(move || {
                    let next = State::next(piece, body, clock, taken_after_ns);
                    *state.lock() = next;
                    reminder.go_on();
                });
            }
        }
        FillResult::More
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

    use pellucid_store::{Head, Object, Value};

    use super::*;

    struct PanickingScan;

    impl Scan for PanickingScan {
        fn next(&mut self) -> StoreResult<Option<(&[u8], Object)>> {
            panic!("on purpose");
        }

        fn next_head(&mut self) -> StoreResult<Option<(&[u8], Head)>> {
            Ok(None)
        }
    }

    /// Regression: the panic was not reported, and the client waited for the rest for ever.
    #[test]
    fn a_piece_whose_making_panics_ends_its_response() {
        let log = Log::new(|_| {});
        let entries = StoreEntries::Range(Box::new(PanickingScan));
        let body = RangeBody::new(entries, Form::Ndjson, 10, &Budget::unbounded(), &log);
        let next = State::next(Vec::new(), body, Clock::monotonic(), 0);
        assert!(matches!(next, State::Broken));
    }

    /// An endless scan that counts how often it is released.
    struct EndlessScan(Arc<AtomicU32>);

    impl Scan for EndlessScan {
        fn next(&mut self) -> StoreResult<Option<(&[u8], Object)>> {
            let head = Head { sequence: 1, written_at_ms: 1, value_length: 1_000 };
            Ok(Some((b"k", Object { head, value: Value::Owned(vec![0; 1_000]) })))
        }

        fn next_head(&mut self) -> StoreResult<Option<(&[u8], Head)>> {
            Ok(None)
        }

        fn release(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Regression: each piece of a fast client began with a search, and the scan behind the last
    /// piece waited for the client.
    #[test]
    fn a_scan_is_released_for_a_slow_client_and_dropped_at_its_end() {
        const LATE_NS: u64 = PIECE_TAKEN_WITHIN_NS + 1;
        let (log, releases) = (Log::new(|_| {}), Arc::new(AtomicU32::new(0)));
        let body = |left| {
            let scan = EndlessScan(Arc::clone(&releases));
            let entries = StoreEntries::Range(Box::new(scan));
            RangeBody::new(entries, Form::Ndjson, left, &Budget::unbounded(), &log)
        };
        let next = |body, taken_after_ns| {
            State::next(Vec::new(), body, Clock::monotonic(), taken_after_ns)
        };
        let mut endless = body(u64::MAX);
        for (taken_after_ns, released) in [(0, 0), (LATE_NS, 1), (0, 1)] {
            let State::Here { body: Some(rest), .. } = next(endless, taken_after_ns) else {
                panic!("more pieces follow");
            };
            assert_eq!(releases.load(Ordering::Relaxed), released);
            endless = rest;
        }
        drop(endless);
        let last = next(body(1), 0);
        assert!(matches!(last, State::Here { filled: FillResult::Last, .. }));
        assert_eq!(Arc::strong_count(&releases), 1, "the scan waits for the client");
    }

    const LARGE_BYTES: usize = 1 << 20;

    /// An endless scan of large values in memory of their own. It notes the memory that requests
    /// hold when it is asked for the next one.
    struct LargeScan(Budget, Arc<AtomicUsize>);

    impl Scan for LargeScan {
        fn next(&mut self) -> StoreResult<Option<(&[u8], Object)>> {
            self.1.store(self.0.used_bytes(), Ordering::Relaxed);
            let value = Value::Owned(vec![0; LARGE_BYTES]);
            let head = Head { sequence: 1, written_at_ms: 1, value_length: LARGE_BYTES as u64 };
            Ok(Some((b"k", Object { head, value })))
        }

        fn next_head(&mut self) -> StoreResult<Option<(&[u8], Head)>> {
            Ok(None)
        }
    }

    /// Regression: the values that ranges held for slow clients counted nowhere. Later, others
    /// could take the memory of a range between two of its values, and it was cut short.
    #[test]
    fn a_large_value_counts_in_the_memory_of_requests_while_it_is_sent() {
        let (memory, log) = (Budget::new(LARGE_BYTES + LARGE_BYTES / 2), Log::new(|_| {}));
        let between_bytes = Arc::new(AtomicUsize::new(0));
        let body = || {
            let scan = LargeScan(memory.clone(), Arc::clone(&between_bytes));
            let entries = StoreEntries::Range(Box::new(scan));
            RangeBody::new(entries, Form::Plain, 2, &memory, &log)
        };
        let (mut first, mut second, mut out) = (body(), body(), Vec::new());
        assert!(matches!(first.try_fill(&mut out), Ok(FillResult::More)));
        assert!(memory.used_bytes() >= LARGE_BYTES);
        assert!(matches!(second.try_fill(&mut out), Err(StoreError::Busy(_))));
        while first.fill(&mut out) == FillResult::More {}
        assert!(between_bytes.load(Ordering::Relaxed) >= LARGE_BYTES);
        drop(first);
        assert!(memory.used_bytes() < LARGE_BYTES, "both values are sent");
        assert!(matches!(second.try_fill(&mut out), Ok(FillResult::More)));
    }
}
