//! Ranges of stores that have threads for what waits. A range that waits, or may be long, is made
//! on them, one piece ahead of what the client has taken, so that no event loop waits and memory
//! stays bounded. A short one whose entries are in memory is made on its event loop.

use std::sync::{Arc, PoisonError};

use pellucid_account::Stamp;
use pellucid_http::{BodySource, Filled, Handled, Reminder, Response};
use pellucid_store::{Arrival, ReadMode, Result as StoreResult, Store, StoreError, Workers};
use pellucid_thread::Mutex;

use crate::ranges::{self, Form, Query, StoreRange};
use crate::service::{Api, Later, Loop, Shared, arrive, busy};
use crate::timing::add_server_timing;

/// Entries that a range may have, by its `limit`, to be tried on its event loop. It takes some tens
/// of microseconds for as many, as long as a hand-over does.
const ROWS_AT_ONCE_MAX: u64 = 128;

/// A range that a request asks for.
pub(crate) struct Asked<'q> {
    pub(crate) query: Query<'q>,
    pub(crate) form: Form,
    /// The store, if it is another than the usual one.
    pub(crate) other: Option<Arc<dyn Store>>,
}

/// The beginning of a range, and the walk behind it.
pub(crate) struct FirstPiece {
    piece: Vec<u8>,
    filled: Filled,
    body: StoreRange,
}

impl Asked<'_> {
    /// Begins the walk, so that a store that cannot be read is told by the status.
    fn first_piece(&self, shared: &Shared, mode: ReadMode) -> StoreResult<FirstPiece> {
        let store = self.other.as_deref().unwrap_or(&*shared.store);
        let entities = (shared.entities, mode);
        let mut body = ranges::begin(&self.query, self.form, store, entities, &shared.log)?;
        let mut piece = Vec::new();
        let filled = body.try_fill(&mut piece)?;
        body.let_block();
        Ok(FirstPiece { piece, filled, body })
    }

    /// The first piece of a range that is short and in memory.
    fn first_piece_here(&self, shared: &Shared) -> Option<StoreResult<FirstPiece>> {
        let store = &shared.store;
        if self.query.left > ROWS_AT_ONCE_MAX || store.properties().ranges_wait {
            return None;
        }
        let mut made = None;
        let is_here = store.local()?.all_in_memory(&mut |mode| {
            let first = self.first_piece(shared, mode);
            let is_here = !matches!(first, Err(StoreError::NotInMemory));
            made = Some(first);
            is_here
        });
        made.filter(|_| is_here)
    }
}

impl Api {
    /// Answers with a range, which is handed over by the rule for reads: if something of it is not
    /// in memory, or nobody knows how long it takes.
    pub(crate) fn range_by_need(
        &self,
        workers: &Workers,
        asked: Asked<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        if let Some(first) = asked.first_piece_here(&self.shared) {
            exchange.timeline.stamp(Stamp::Executed);
            return match first {
                Ok(first) => self.send_range(first, response, exchange),
                Err(error) => self.store_error(&error, response, exchange),
            };
        }
        let Some(place) = workers.reserve() else {
            return busy(response, exchange, "too many ranges are read: try again in a moment");
        };
        let (completer, clock) = (exchange.completer(), exchange.timeline.clock());
        let shared = Arc::clone(&self.shared);
        let Asked { query, form, other } = asked;
        let asked = Asked { query: query.into_owned(), form, other };
        place.run(move || {
            let started = clock.now();
            let result = asked.first_piece(&shared, ReadMode::MayBlock).map(Box::new);
            let arrival = Arrival { started: Some(started), ..Arrival::new(result, Vec::new()) };
            completer.complete(Later::Range(arrival));
        });
        Handled::Later
    }

    /// Answers with a range whose first piece is here.
    pub(crate) fn first_piece(
        &mut self,
        arrival: Arrival<Box<FirstPiece>>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        match arrive(arrival, exchange) {
            Ok(first) => self.send_range(*first, response, exchange),
            Err(error) => self.store_error(&error, response, exchange),
        }
    }

    fn send_range(
        &self,
        first: FirstPiece,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let FirstPiece { piece, filled, body } = first;
        response.status(200).header("Content-Type", body.form().content_type());
        add_server_timing(response, exchange.timeline);
        response.finish_streamed(None);
        let state = Arc::new(Mutex::new(State::Here { piece, filled, body }));
        let (shared, reminder) = (Arc::clone(&self.shared), exchange.reminder());
        Handled::Stream(Box::new(Pieces { state, shared, reminder }))
    }
}

/// What the body and the thread that makes its pieces share.
enum State {
    Here {
        piece: Vec<u8>,
        filled: Filled,
        body: StoreRange,
    },
    /// The next piece is being made, or there is none.
    Away,
}

impl State {
    /// The next piece; the memory of the last one is used again.
    fn next(mut piece: Vec<u8>, mut body: StoreRange) -> State {
        piece.clear();
        let filled = body.fill(&mut piece);
        State::Here { piece, filled, body }
    }
}

struct Pieces {
    state: Arc<Mutex<State>>,
    shared: Arc<Shared>,
    reminder: Reminder<Later>,
}

impl BodySource for Pieces {
    fn fill(&mut self, out: &mut Vec<u8>) -> Filled {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (piece, body) = match std::mem::replace(&mut *state, State::Away) {
            State::Away => return Filled::Waiting,
            State::Here { piece, filled, body } => {
                out.extend_from_slice(&piece);
                if filled != Filled::More {
                    return filled;
                }
                (piece, body)
            }
        };
        match self.shared.store.workers().and_then(Workers::reserve) {
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
