//! Makes the pieces of a stream of changes on worker threads, which may block. One piece is made
//! ahead of the client.

use std::sync::{Arc, PoisonError};

use pellucid_clock::Ticks;
use pellucid_http::{BodySource, Filled, Reminder};
use pellucid_store::{Store, Workers};
use pellucid_thread::{Mutex, contain};

use super::body::{ChangesBody, Occasion};
use super::followers::{FollowerPlace, Followers};
use crate::answer::Later;

/// The state that the body and the thread that makes its pieces share.
enum PieceState {
    /// A piece is ready.
    Here { piece: Vec<u8>, filled: Filled, body: ChangesBody },
    /// The stream waits for the next change; it has sent nothing since this time.
    Asleep { body: ChangesBody, since: Ticks },
    /// A piece is being made, or the stream has ended.
    Away,
    /// The code that made the next piece panicked.
    Broken,
}

impl PieceState {
    /// Makes the next piece, in the memory of the last one.
    fn next(mut piece: Vec<u8>, mut body: ChangesBody, occasion: Occasion) -> PieceState {
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
    reminder: Reminder<Later>,
    _place: Option<FollowerPlace>,
}

impl ChangesPieces {
    /// Creates the reply's body. The first piece is made when the transport asks for it.
    pub(super) fn new(
        body: ChangesBody,
        (store, followers): (Arc<dyn Store>, Arc<Followers>),
        reminder: Reminder<Later>,
        place: Option<FollowerPlace>,
    ) -> ChangesPieces {
        let state = PieceState::Here { piece: Vec::new(), filled: Filled::More, body };
        let state = Arc::new(Mutex::new(state));
        ChangesPieces { state, store, followers, reminder, _place: place }
    }

    /// Has a worker make the next piece; makes it here if the store has no workers.
    fn make(&self, state: &mut PieceState, piece: Vec<u8>, body: ChangesBody, occasion: Occasion) {
        let workers = self.store.workers();
        match workers.map(Workers::reserve) {
            None => {
                *state = PieceState::next(piece, body, occasion);
                self.reminder.go_on();
            }
            // All workers are busy and their queue is full: the stream sleeps, and is tried again
            // when it wakes.
            Some(None) => self.sleep(state, body, self.followers.now()),
            Some(Some(place)) => {
                let (state, reminder) = (Arc::clone(&self.state), self.reminder.clone());
                place.run(move || {
                    let next = PieceState::next(piece, body, occasion);
                    *state.lock().unwrap_or_else(PoisonError::into_inner) = next;
                    reminder.go_on();
                });
            }
        }
    }

    /// Puts the stream to sleep until there is a later change, or it was silent for too long.
    fn sleep(&self, state: &mut PieceState, body: ChangesBody, since: Ticks) {
        let sequence = body.sequence();
        *state = PieceState::Asleep { body, since };
        self.followers.wait(sequence, since, self.reminder.clone());
    }
}

impl BodySource for ChangesPieces {
    fn fill(&mut self, out: &mut Vec<u8>) -> Filled {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, PieceState::Away) {
            PieceState::Away => Filled::Waiting,
            PieceState::Broken => Filled::Broken,
            PieceState::Asleep { body, since } => {
                let occasion = match self.followers.is_stopping() {
                    true => Some(Occasion::Stop),
                    false if self.followers.is_news(body.sequence()) => Some(Occasion::Usual),
                    false => self.followers.is_silence(since).then_some(Occasion::Silence),
                };
                match occasion {
                    Some(occasion) => self.make(&mut state, Vec::new(), body, occasion),
                    // The transport asked for another reason; the stream is still registered to be
                    // woken.
                    None => *state = PieceState::Asleep { body, since },
                }
                Filled::Waiting
            }
            PieceState::Here { piece, filled, body } => {
                out.extend_from_slice(&piece);
                match filled {
                    Filled::More => self.make(&mut state, piece, body, Occasion::Usual),
                    Filled::Waiting => self.sleep(&mut state, body, self.followers.now()),
                    Filled::Last | Filled::Broken => return filled,
                }
                Filled::Waiting
            }
        }
    }
}
