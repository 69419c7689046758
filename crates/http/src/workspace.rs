//! The service, the batch and the buffers of one event loop, which its connections use one at a
//! time.

use crate::batch::Batch;
use crate::dispatch::Dispatcher;
use crate::limits::READ_BYTES_MAX;
use crate::service::Service;
use crate::tls::WIRE_BYTES_MAX;
use crate::transport::OUTPUT_KEPT_BYTES;

/// The shared resources of one event loop, which a connection uses in its turn.
pub(crate) struct Workspace<S: Service> {
    pub(crate) dispatcher: Dispatcher<S>,
    pub(crate) batch: Batch,
    /// The buffer for the responses of one connection; empty between two uses.
    pub(crate) out: Vec<u8>,
    /// The buffer for the body of an HTTP/2 response, before the protocol frames it.
    pub(crate) body: Vec<u8>,
    /// The buffer for ciphertext; empty without TLS.
    pub(crate) wire: Box<[u8]>,
    /// The buffer for reads; complete requests are parsed in place.
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

    /// Calls `call` with the buffer for reads.
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
