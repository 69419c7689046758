//! Detects clients that are gone before their requests are answered.
//!
//! A request that was handed over may take minutes, and nobody reads from its connection meanwhile.
//! When its client is gone, its work can be stopped.

use std::sync::Arc;

use pellucid_thread::Mutex;

/// Tells whether the client of a request that was handed over is gone: its connection, or its
/// HTTP/2 stream, was reset, closed or cut.
///
/// A client that has only closed its sending side (FIN) looks like one that has closed its socket.
/// It counts as waiting for its answer for [`crate::HALF_CLOSE_GRACE`], and then as gone.
#[derive(Clone, Default)]
pub struct ClientWatch(Arc<Mutex<State>>);

#[derive(Default)]
enum State {
    /// The client is there.
    #[default]
    There,
    /// The client is there; this is called when it is gone.
    Watched(Box<dyn FnOnce() + Send>),
    Gone,
}

impl ClientWatch {
    /// True if the client is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(*self.0.lock(), State::Gone)
    }

    /// Registers `call`, which the event loop calls once, when the client is gone; it must not
    /// block. If the client is gone already, calls it now. Replaces a `call` registered before.
    pub fn when_gone(&self, call: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        if !matches!(*state, State::Gone) {
            *state = State::Watched(Box::new(call));
            return;
        }
        drop(state);
        call();
    }

    /// Notes that the client is gone, and calls the registered function.
    pub(crate) fn tell(&self) {
        let mut state = self.0.lock();
        let before = std::mem::replace(&mut *state, State::Gone);
        drop(state);
        if let State::Watched(call) = before {
            call();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn the_last_registered_call_is_called_once() {
        let (watch, count) = (ClientWatch::default(), Arc::new(AtomicUsize::new(0)));
        let add = |amount| {
            let count = Arc::clone(&count);
            move || {
                count.fetch_add(amount, Ordering::Relaxed);
            }
        };
        watch.when_gone(add(100));
        watch.clone().when_gone(add(1));
        assert!(!watch.is_gone());
        (0..2).for_each(|_| watch.tell());
        assert!(watch.is_gone());
        assert_eq!(count.load(Ordering::Relaxed), 1, "the last one, once");
        watch.when_gone(add(10));
        assert_eq!(count.load(Ordering::Relaxed), 11, "at once");
    }
}
