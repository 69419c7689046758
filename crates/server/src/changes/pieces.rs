//! Makes the pieces of a stream of changes on worker threads, which may block. One piece is made
//! ahead of the client.

use std::sync::Arc;

use pellucid_clock::Ticks;
use pellucid_http::{BodySource, BodyWaker, FillResult};
use pellucid_store::{Store, Workers};
use pellucid_thread::{Mutex, contain};

use super::body::{ChangesBody, PieceTrigger};
use super::followers::{AwaitedEvent, Followers};
use crate::answer::LoopMessage;
use crate::places::Place;

/// The state that the body and the thread that makes its pieces share.
enum PieceState {
    /// A piece is ready.
    Here { piece: Vec<u8>, filled: FillResult, body: ChangesBody },
    /// The stream waits for this event; for a change, since its last output.
    Asleep { body: ChangesBody, awaited: AwaitedEvent, since: Ticks },
    /// A piece is being made, or the stream has ended.
    Away,
    /// The code that made the next piece panicked.
    Broken,
}

impl PieceState {
    /// Makes the next piece, in the memory of the last one.
    fn next(mut piece: Vec<u8>, mut body: ChangesBody, occasion: PieceTrigger) -> PieceState {
        let made = contain(move || {
            piece.clear();
            let filled = body.fill(&mut piece, occasion);
            PieceState::Here { piece, filled, body }
        });
        made.unwrap_or_else(|panicked| {
            panicked.tell();
            PieceState::Broken
        })
    }
}

/// The body of a reply with changes, whose pieces workers make.
pub(super) struct ChangesPieces {
    state: Arc<Mutex<PieceState>>,
    store: Arc<dyn Store>,
    followers: Arc<Followers>,
    reminder: BodyWaker<LoopMessage>,
    /// The time of the last output.
    sent_at: Ticks,
    _place: Option<Place>,
}

impl ChangesPieces {
    /// Creates the reply's body. The first piece is made when the transport asks for it.
    pub(super) fn new(
        body: ChangesBody,
        (store, followers): (Arc<dyn Store>, Arc<Followers>),
        reminder: BodyWaker<LoopMessage>,
        place: Option<Place>,
    ) -> ChangesPieces {
        let state = PieceState::Here { piece: Vec::new(), filled: FillResult::More, body };
        let (state, sent_at) = (Arc::new(Mutex::new(state)), followers.now());
        ChangesPieces { state, store, followers, reminder, sent_at, _place: place }
    }

    /// Has a worker make the next piece; makes it here if the store has no workers.
    fn make(
        &self,
        state: &mut PieceState,
        piece: Vec<u8>,
        body: ChangesBody,
        occasion: PieceTrigger,
    ) {
        let workers = self.store.workers();
        match workers.map(Workers::reserve) {
            None => {
                *state = PieceState::next(piece, body, occasion);
                self.reminder.go_on();
            }
            // All workers are busy and their queue is full.
            Some(None) => self.sleep(state, body, AwaitedEvent::Look),
            Some(Some(place)) => {
                let (state, reminder) = (Arc::clone(&self.state), self.reminder.clone());
                place.run(move || {
                    let next = PieceState::next(piece, body, occasion);
                    *state.lock() = next;
                    reminder.go_on();
                });
            }
        }
    }

    /// Puts the stream to sleep until the event.
    fn sleep(&self, state: &mut PieceState, body: ChangesBody, awaited: AwaitedEvent) {
        let since = match awaited {
            AwaitedEvent::Change(_) => self.sent_at,
            AwaitedEvent::Look | AwaitedEvent::Memory => self.followers.now(),
        };
        *state = PieceState::Asleep { body, awaited, since };
        self.followers.wait(awaited, since, self.reminder.clone());
    }

    /// The occasion to wake the stream; `None` if the event has not come.
    fn occasion(&self, awaited: AwaitedEvent, since: Ticks) -> Option<PieceTrigger> {
        if self.followers.is_stopping() {
            return Some(PieceTrigger::Stop);
        }
        let is_silent = self.followers.is_silent(self.sent_at);
        let occasion = if is_silent { PieceTrigger::Silence } else { PieceTrigger::Usual };
        self.followers.is_due(awaited, since).then_some(occasion)
    }
}

impl BodySource for ChangesPieces {
    fn fill(&mut self, out: &mut Vec<u8>) -> FillResult {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, PieceState::Away) {
            PieceState::Away => FillResult::Waiting,
            PieceState::Broken => FillResult::Broken,
            PieceState::Asleep { body, awaited, since } => {
                match self.occasion(awaited, since) {
                    Some(occasion) => self.make(&mut state, Vec::new(), body, occasion),
                    // The transport asked for another reason; the stream is still registered to be
                    // woken.
                    None => *state = PieceState::Asleep { body, awaited, since },
                }
                FillResult::Waiting
            }
            PieceState::Here { piece, filled, body } => {
                out.extend_from_slice(&piece);
                if !piece.is_empty() {
                    self.sent_at = self.followers.now();
                }
                match filled {
                    FillResult::More => self.make(&mut state, piece, body, PieceTrigger::Usual),
                    FillResult::Waiting => {
                        let awaited = body.awaited();
                        self.sleep(&mut state, body, awaited);
                    }
                    FillResult::Last | FillResult::Broken => return filled,
                }
                FillResult::Waiting
            }
        }
    }
}
