//! Bodies of responses that are brought piece by piece.

/// A body that is brought piece by piece, as the client takes it.
pub trait BodySource {
    /// Appends the next piece, of about 64 KiB, to `out`.
    fn fill(&mut self, out: &mut Vec<u8>) -> Filled;

    /// Whether a piece takes so long that other connections have their turn after each.
    fn is_costly(&self) -> bool {
        false
    }

    /// Bytes of memory that the body takes until it is out, beside the pieces of it.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Ticks of the account's clock that went into compressing the pieces so far: zero for a body
    /// that the transport does not compress.
    fn compress_ticks(&self) -> u64 {
        0
    }
}

/// The result of [`BodySource::fill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// There is more to come.
    More,
    /// There is more, and it is not here yet: the body is asked again after
    /// [`crate::LinkTurn::go_on`] or [`crate::Reminder::go_on`].
    Waiting,
    /// This was the last piece.
    Last,
    /// The body cannot be completed. The connection is cut, so that the client does not take what
    /// it has for the whole.
    Broken,
}

/// The way in which a request left the service.
pub enum Handled {
    /// The response is finished.
    Done,
    /// The headers are finished, and the source brings the body.
    Stream(Box<dyn BodySource>),
    /// The response is not begun: the [`crate::Completer`] taken from the exchange will bring the
    /// request back. Until then, later requests of the same connection wait.
    Later,
    /// The response is finished, and behind it the connection is the service's: only where
    /// [`crate::Exchange::may_upgrade`].
    Upgrade,
}
