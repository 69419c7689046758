//! Response bodies that are produced piece by piece, and the results of a service.

/// A response body that is produced piece by piece, as the client takes it.
pub trait BodySource {
    /// Appends the next piece, of about 64 KiB, to `out`.
    fn fill(&mut self, out: &mut Vec<u8>) -> FillResult;

    /// True if a piece takes so long to make that other connections have their turn after each.
    fn is_costly(&self) -> bool {
        false
    }

    /// Bytes of memory that the body holds until it is sent, beside its pieces.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Ticks of the account's clock spent compressing so far; zero for a body that the transport
    /// does not compress.
    fn compress_ticks(&self) -> u64 {
        0
    }
}

/// The result of [`BodySource::fill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillResult {
    /// There is more to come.
    More,
    /// More will come, but is not ready: the body is asked again after
    /// [`crate::LinkContext::go_on`] or [`crate::BodyWaker::go_on`].
    Waiting,
    /// This was the last piece.
    Last,
    /// The body cannot be completed. The connection is cut, so that the client does not mistake the
    /// part for the whole.
    Broken,
}

/// The result of a service's call for a request.
pub enum ServiceResult {
    /// The response is finished.
    Done,
    /// The headers are finished, and the source brings the body.
    Stream(Box<dyn BodySource>),
    /// The response is not begun: the [`crate::Completer`] taken from the exchange will bring the
    /// request back. Until then, later requests of the same HTTP/1.1 connection wait.
    Later,
    /// The response is finished, and behind it the service owns the connection. Only allowed if
    /// [`crate::Exchange::may_upgrade`].
    Upgrade,
}
