//! Ranges of stores that have threads for what waits. A range that waits, or may be long, is made
//! on them, one piece ahead of what the client has taken, so that no event loop waits and memory
//! stays bounded. A short one whose entries are in memory is made on its event loop.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use pellucid_account::Stamp;
use pellucid_http::{BodySource, Filled, Reminder};
use pellucid_store::{
    Arrival, Range, ReadMode, Result as StoreResult, Scan, Store, StoreError, Table, Workers,
};
use pellucid_thread::{Mutex, contain};

use super::multi_get::{KeyList, KeyReads};
use super::ranges::{Entries, Form, NextEntry, Query, RangeBody, UNREADABLE};
use crate::answer::{Answer, Handling, Later, Loop, Made};
use crate::log::Log;
use crate::reply::{Failure, Reply};

/// Entries that a range may have, by its `limit`, to be tried on its event loop. It takes some tens
/// of microseconds for as many, as long as a hand-over does.
const ROWS_AT_ONCE_MAX: u64 = 128;

/// The entities that a request asks for.
pub(crate) enum Asked<'q> {
    Range(Query<'q>),
    Keys(Arc<KeyList>),
}

impl Asked<'_> {
    /// Entries that it may have.
    fn entries_max(&self) -> u64 {
        match self {
            Asked::Range(query) => query.left,
            Asked::Keys(list) => list.keys.len() as u64,
        }
    }

    /// The same for a thread that outlives the request's bytes.
    fn into_owned(self) -> Asked<'static> {
        match self {
            Asked::Range(query) => Asked::Range(query.into_owned()),
            Asked::Keys(list) => Asked::Keys(list),
        }
    }
}

/// The entries of one store.
pub(crate) enum StoreEntries {
    Range(Box<dyn Scan>),
    Keys(Box<KeyReads>),
}

impl Entries for StoreEntries {
    const NAME: &'static str = "a range";

    type Error = StoreError;

    fn next(&mut self) -> StoreResult<NextEntry<'_>> {
        match self {
            StoreEntries::Keys(reads) => reads.next(),
            StoreEntries::Range(scan) => Ok(match Scan::next(&mut **scan)? {
                Some((key, object)) => NextEntry::Here(Cow::Borrowed(key), object),
                None => NextEntry::Over,
            }),
        }
    }

    fn unreadable() -> StoreError {
        StoreError::Corruption(UNREADABLE.to_owned())
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

/// The entries of one store as a body.
type StoreRange = RangeBody<StoreEntries>;

/// A walk over the entities that a request asks for.
pub(crate) struct RangeWalk<'q> {
    pub(crate) asked: Asked<'q>,
    pub(crate) form: Form,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) table: Table,
}

/// The beginning of a range, and the walk behind it.
struct FirstPiece {
    piece: Vec<u8>,
    filled: Filled,
    body: StoreRange,
}

impl RangeWalk<'_> {
    /// Begins the walk.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn begin(&self, log: &Log, mode: ReadMode) -> StoreResult<StoreRange> {
        let entries = match &self.asked {
            Asked::Range(query) => StoreEntries::Range(self.scan(query, mode)?),
            Asked::Keys(list) => {
                let snapshot = self.store.snapshot_in(mode)?;
                StoreEntries::Keys(Box::new(KeyReads::new(snapshot, self.table, Arc::clone(list))))
            }
        };
        Ok(RangeBody::new(entries, self.form, self.asked.entries_max(), log))
    }

    fn scan(&self, query: &Query<'_>, mode: ReadMode) -> StoreResult<Box<dyn Scan>> {
        let Query { start, end, reverse, .. } = query;
        let range = Range { start, end: end.as_deref(), reverse: *reverse };
        match mode {
            ReadMode::MayBlock => self.store.scan(self.table, range),
            ReadMode::InMemory => self.store.snapshot_in(mode)?.scan(self.table, range),
            ReadMode::Brief => {
                let mut scan = self.store.scan(self.table, range)?;
                scan.set_mode(mode);
                Ok(scan)
            }
        }
    }

    /// Answers by the rule for reads: the range is handed over if something of it is not in memory,
    /// or nobody knows how long it takes. The workers are those of `own`.
    pub(crate) fn by_need(
        self,
        own: &Arc<dyn Store>,
        log: &Log,
        exchange: &mut Loop<'_>,
    ) -> Handling {
        let (makers, reminder) = (Arc::clone(own), exchange.reminder());
        if let Some(first) = self.first_piece_here(own, log) {
            exchange.timeline.stamp(Stamp::Executed);
            return Ok(first?.reply(makers, reminder).into());
        }
        let Some(place) = own.workers().and_then(Workers::reserve) else {
            let line = "too many ranges are read: try again in a moment";
            return Err(Failure::Busy(line.into()));
        };
        let (clock, log) = (exchange.timeline.clock(), log.clone());
        let RangeWalk { asked, form, store, table } = self;
        let walk = RangeWalk { asked: asked.into_owned(), form, store, table };
        Ok(Answer::pending(move |completer| {
            place.run(move || {
                let started = clock.now();
                let first = Arrival::new(walk.first_piece(&log, ReadMode::MayBlock), Vec::new());
                let made = Made::by(first, |first| first.reply(makers, reminder));
                completer.complete(Later::Made(made.started_at(started)));
            });
        }))
    }

    /// Begins the walk, so that a store that cannot be read is told by the status.
    fn first_piece(&self, log: &Log, mode: ReadMode) -> StoreResult<FirstPiece> {
        let mut body = self.begin(log, mode)?;
        let mut piece = Vec::new();
        let filled = body.try_fill(&mut piece)?;
        Ok(FirstPiece { piece, filled, body })
    }

    /// The first piece of a range that is short and in memory.
    fn first_piece_here(&self, own: &Arc<dyn Store>, log: &Log) -> Option<StoreResult<FirstPiece>> {
        if self.asked.entries_max() > ROWS_AT_ONCE_MAX || own.properties().ranges_wait {
            return None;
        }
        let mut made = None;
        let is_here = own.local()?.all_in_memory(&mut |mode| {
            let first = self.first_piece(log, mode);
            let is_here = match (&self.asked, &first) {
                (_, Err(StoreError::NotInMemory)) => false,
                // Later pieces may wait: a thread that may makes them from the beginning.
                (_, Ok(first)) => first.filled == Filled::Last,
                (_, Err(_)) => true,
            };
            made = Some(first);
            is_here
        });
        made.filter(|_| is_here)
    }
}

impl FirstPiece {
    fn reply(self, makers: Arc<dyn Store>, reminder: Reminder<Later>) -> Reply {
        let FirstPiece { piece, filled, body } = self;
        let content_type = body.form().content_type();
        let state = Arc::new(Mutex::new(State::Here { piece, filled, body }));
        Reply::streamed(content_type, Pieces { state, makers, reminder })
    }
}

/// The state that the body and the thread that makes its pieces share.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each piece")]
enum State {
    Here {
        piece: Vec<u8>,
        filled: Filled,
        body: StoreRange,
    },
    /// The next piece is being made, or there is none.
    Away,
    /// The code that made the next piece panicked.
    Broken,
}

impl State {
    /// The next piece; the memory of the last one is used again.
    fn next(mut piece: Vec<u8>, mut body: StoreRange) -> State {
        let made = contain(move || {
            piece.clear();
            let filled = body.fill(&mut piece);
            State::Here { piece, filled, body }
        });
        made.unwrap_or_else(|panicked| {
            panicked.tell();
            State::Broken
        })
    }
}

struct Pieces {
    state: Arc<Mutex<State>>,
    /// The store whose workers make the pieces.
    makers: Arc<dyn Store>,
    reminder: Reminder<Later>,
}

impl BodySource for Pieces {
    fn fill(&mut self, out: &mut Vec<u8>) -> Filled {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (piece, body) = match std::mem::replace(&mut *state, State::Away) {
            State::Away => return Filled::Waiting,
            State::Broken => return Filled::Broken,
            State::Here { piece, filled, body } => {
                out.extend_from_slice(&piece);
                if filled != Filled::More {
                    return filled;
                }
                (piece, body)
            }
        };
        match self.makers.workers().and_then(Workers::reserve) {
            // Where all are busy and many wait, the piece is made here.
            None => *state = State::next(piece, body),
            Some(place) => {
                let (state, reminder) = (Arc::clone(&self.state), self.reminder.clone());
                place.run(move || {
                    let next = State::next(piece, body);
                    *state.lock().unwrap_or_else(PoisonError::into_inner) = next;
                    reminder.go_on();
                });
            }
        }
        Filled::More
    }
}

#[cfg(test)]
mod tests {
    use pellucid_store::{Head, Object};

    use super::*;

    struct Panicking;

    impl Scan for Panicking {
        fn next(&mut self) -> StoreResult<Option<(&[u8], Object)>> {
            panic!("on purpose");
        }

        fn next_head(&mut self) -> StoreResult<Option<(&[u8], Head)>> {
            Ok(None)
        }
    }

    /// Nobody was told, and the client waited for the rest of its range for ever.
    #[test]
    fn a_piece_whose_making_panics_ends_its_response() {
        let log = Log::new(|_| {});
        let entries = StoreEntries::Range(Box::new(Panicking));
        let body = RangeBody::new(entries, Form::Ndjson, 10, &log);
        assert!(matches!(State::next(Vec::new(), body), State::Broken));
    }
}
