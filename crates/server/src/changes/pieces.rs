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
    /// The stream waits since this time: for the next change, or for the next look, which makes the
    /// piece of this occasion.
    Asleep { body: ChangesBody, since: Ticks, put_off: Option<PieceTrigger> },
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
        let state = Arc::new(Mutex::new(state));
        ChangesPieces { state, store, followers, reminder, _place: place }
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
            Some(None) => self.sleep(state, body, Some(occasion)),
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

    /// Puts the stream to sleep until there is a later change, or it was silent for too long; if a
    /// piece is put off, only until the next look.
    fn sleep(&self, state: &mut PieceState, body: ChangesBody, put_off: Option<PieceTrigger>) {
        let (awaited, since) = (awaited(&body, put_off), self.followers.now());
        *state = PieceState::Asleep { body, since, put_off };
        self.followers.wait(awaited, since, self.reminder.clone());
    }
}

fn awaited(body: &ChangesBody, put_off: Option<PieceTrigger>) -> AwaitedEvent {
    if put_off.is_some() { AwaitedEvent::Look } else { AwaitedEvent::Change(body.sequence()) }
}

impl BodySource for ChangesPieces {
    fn fill(&mut self, out: &mut Vec<u8>) -> FillResult {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, PieceState::Away) {
            PieceState::Away => FillResult::Waiting,
            PieceState::Broken => FillResult::Broken,
            PieceState::Asleep { body, since, put_off } => {
                let occasion = match put_off {
                    _ if self.followers.is_stopping() => Some(PieceTrigger::Stop),
                    _ if !self.followers.is_due(awaited(&body, put_off), since) => None,
                    Some(occasion) => Some(occasion),
                    None if self.followers.is_news(body.sequence()) => Some(PieceTrigger::Usual),
                    None => Some(PieceTrigger::Silence),
                };
                match occasion {
                    Some(occasion) => self.make(&mut state, Vec::new(), body, occasion),
                    // The transport asked for another reason; the stream is still registered to be
                    // woken.
                    None => *state = PieceState::Asleep { body, since, put_off },
                }
                FillResult::Waiting
            }
            PieceState::Here { piece, filled, body } => {
                out.extend_from_slice(&piece);
                match filled {
                    FillResult::More => self.make(&mut state, piece, body, PieceTrigger::Usual),
                    FillResult::Waiting => {
                        let put_off = body.is_put_off().then_some(PieceTrigger::Usual);
                        self.sleep(&mut state, body, put_off);
                    }
                    FillResult::Last | FillResult::Broken => return filled,
                }
                FillResult::Waiting
            }
        }
    }
}
