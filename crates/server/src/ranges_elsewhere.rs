//! Ranges of stores whose walks wait for others: their pieces are made on the store's workers, one
//! ahead of what the client has taken, so that no event loop waits and memory stays bounded.

use std::sync::{Arc, PoisonError};

use pellucid_http::{BodySource, Filled, Handled, Reminder, Response};
use pellucid_store::{Arrival, Workers};
use pellucid_thread::Mutex;

use crate::ranges::StoreRange;
use crate::service::{Api, Later, Loop, Shared, arrive, busy};
use crate::timing::add_server_timing;

/// The beginning of a range, and the walk behind it.
pub(crate) struct FirstPiece {
    piece: Vec<u8>,
    filled: Filled,
    body: StoreRange,
}

/// Has the first piece made, so that a store that cannot be read is told by the status.
pub(crate) fn begin(
    workers: &Workers,
    mut body: StoreRange,
    response: &mut Response<'_>,
    exchange: &mut Loop<'_>,
) -> Handled {
    let Some(place) = workers.reserve() else {
        return busy(response, exchange, "too many ranges are read: try again in a moment");
    };
    let (completer, clock) = (exchange.completer(), exchange.timeline.clock());
    place.run(move || {
        let started = clock.now();
        let mut piece = Vec::new();
        let filled = body.try_fill(&mut piece);
        let result = filled.map(|filled| Box::new(FirstPiece { piece, filled, body }));
        let arrival = Arrival { started: Some(started), ..Arrival::new(result, Vec::new()) };
        completer.complete(Later::Range(arrival));
    });
    Handled::Later
}

impl Api {
    /// Answers with a range whose first piece is here.
    pub(crate) fn first_piece(
        &mut self,
        arrival: Arrival<Box<FirstPiece>>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let FirstPiece { piece, filled, body } = match arrive(arrival, exchange) {
            Ok(first) => *first,
            Err(error) => return self.store_error(&error, response, exchange),
        };
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
