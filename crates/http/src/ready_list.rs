//! The descriptors that are ready in a wake-up.

use mio::event::Event;
use mio::{Events, Token};
use pellucid_clock::Ticks;

use crate::links::link_of;

/// The state of the other end of a connection, by its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PeerState {
    Open,
    /// The peer sends no more (FIN).
    Ended,
    /// The peer neither sends nor receives (RST, or FIN after both sides have sent theirs).
    Gone,
}

impl PeerState {
    fn of(event: &Event) -> PeerState {
        if event.is_error() || event.is_write_closed() {
            PeerState::Gone
        } else if event.is_read_closed() {
            PeerState::Ended
        } else {
            PeerState::Open
        }
    }
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadyDescriptor {
    pub(crate) token: Token,
    pub(crate) peer: PeerState,
    /// The moment of the wake-up, or of the later look, that found it.
    pub(crate) woke: Ticks,
}

/// The descriptors that are ready in a wake-up, each once.
#[derive(Default)]
pub(crate) struct ReadyList(pub(crate) Vec<ReadyDescriptor>);

impl ReadyList {
    /// Adds the events of a look. A descriptor that an earlier look of the same wake-up found is
    /// not added again, because it was not handled yet.
    pub(crate) fn add(&mut self, events: &Events, woke: Ticks) {
        let known = self.0.len();
        for event in events {
            let (token, peer) = (event.token(), PeerState::of(event));
            match self.0[..known].iter_mut().find(|ready| ready.token == token) {
                Some(ready) => ready.peer = ready.peer.max(peer),
                None => self.0.push(ReadyDescriptor { token, peer, woke }),
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// True if the list has links of the service.
    pub(crate) fn has_links(&self) -> bool {
        self.0.iter().any(|ready| link_of(ready.token).is_some())
    }

    /// Takes all entries out, in order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = ReadyDescriptor> + '_ {
        self.0.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use mio::net::UnixStream;
    use mio::{Interest, Poll};

    use super::*;

    #[test]
    fn a_descriptor_found_twice_is_one_entry() {
        let mut poll = Poll::new().unwrap();
        let (mut near, mut far): (Vec<_>, Vec<_>) = (0..3)
            .map(|token| {
                let (mut near, far) = UnixStream::pair().unwrap();
                let registry = poll.registry();
                registry.register(&mut near, Token(token), Interest::READABLE).unwrap();
                (near, Some(far))
            })
            .unzip();
        let mut events = Events::with_capacity(8);
        let mut look = |list: &mut ReadyList, woke| {
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            list.add(&events, Ticks(woke));
        };
        let mut list = ReadyList::default();
        for far in far.iter_mut().take(2).flatten() {
            far.write_all(b"x").unwrap();
        }
        look(&mut list, 1);
        // One peer closes, and another sends.
        far[1] = None;
        far[2].as_mut().unwrap().write_all(b"x").unwrap();
        look(&mut list, 2);
        assert_eq!(list.len(), 3);
        let mut ready: Vec<ReadyDescriptor> = list.drain().collect();
        ready.sort_by_key(|ready| ready.token.0);
        // A Unix socket is never half closed by a close of its peer, so that `Ended` does not
        // occur.
        let expected = [(0, PeerState::Open, 1), (1, PeerState::Gone, 1), (2, PeerState::Open, 2)];
        let expected = expected.map(|(token, peer, woke)| ReadyDescriptor {
            token: Token(token),
            peer,
            woke: Ticks(woke),
        });
        assert_eq!(ready, expected);
        near.clear();
        assert_eq!(list.len(), 0);
    }
}
