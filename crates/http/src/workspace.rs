//! The service, the batch and the buffers of one event loop, which its connections use one at a
//! time.

use crate::batch::Batch;
use crate::dispatch::Dispatcher;
use crate::limits::READ_BYTES_MAX;
use crate::service::Service;
use crate::tls::WIRE_BYTES_MAX;
use crate::transport::OUTPUT_KEPT_BYTES;

/// The things of one event loop that a connection has the use of in its turn.
pub(crate) struct Workspace<S: Service> {
    pub(crate) dispatcher: Dispatcher<S>,
    pub(crate) batch: Batch,
    /// For the responses of one connection; empty between two uses.
    pub(crate) out: Vec<u8>,
    /// For the bodies of streams, before the protocol frames them.
    pub(crate) body: Vec<u8>,
    /// For ciphertext; empty without TLS.
    pub(crate) wire: Box<[u8]>,
    /// For the bytes that are read, and, if they are whole requests, parsed in their places.
    scratch: Box<[u8]>,
}

impl<S: Service> Workspace<S> {
    pub(crate) fn new(dispatcher: Dispatcher<S>) -> Workspace<S> {
        let accounts = &dispatcher.accounts;
        let is_encrypted = accounts.shared().certificates.is_some();
        Workspace {
            batch: Batch::new(accounts.clock()),
            dispatcher,
            out: Vec::new(),
            body: Vec::new(),
            wire: vec![0; if is_encrypted { WIRE_BYTES_MAX } else { 0 }].into(),
            scratch: Box::default(),
        }
    }

    /// Lends the buffer for reads to `call`.
    #[inline]
    pub(crate) fn with_scratch<T>(&mut self, call: impl FnOnce(&mut Self, &mut [u8]) -> T) -> T {
        let mut scratch = std::mem::take(&mut self.scratch);
        if scratch.is_empty() {
            scratch = vec![0; READ_BYTES_MAX].into_boxed_slice();
        }
        let value = call(self, &mut scratch);
        self.scratch = scratch;
        value
    }
}

/// Empties a buffer for its next use, and gives its memory back if it has grown large.
#[inline]
pub(crate) fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > OUTPUT_KEPT_BYTES {
        *buffer = Vec::new();
    }
}
