//! The cost of TLS: counts, and the time of cryptography within the phases `receive` and `write`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Figures of all TLS connections since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsFigures<N = u64> {
    /// Handshakes that were completed.
    pub handshakes: N,
    /// Connections that ended before their handshake was complete.
    pub handshakes_failed: N,
    /// The server's time in handshakes, without the waits for the client.
    pub handshake_ns: N,
    /// Time spent decrypting, part of the phase `receive`.
    pub decrypt_ns: N,
    /// Time spent encrypting, part of the phase `write`.
    pub encrypt_ns: N,
    /// Bytes that were decrypted.
    pub decrypted_bytes: N,
    /// Bytes that were encrypted.
    pub encrypted_bytes: N,
}

/// The counters of one event loop; only that loop adds to them.
pub(crate) type TlsMeter = TlsFigures<AtomicU64>;

impl TlsMeter {
    /// Adds the figures of one loop to `sum`.
    pub(crate) fn add_to(&self, sum: &mut TlsFigures) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        sum.handshakes += count(&self.handshakes);
        sum.handshakes_failed += count(&self.handshakes_failed);
        sum.handshake_ns += count(&self.handshake_ns);
        sum.decrypt_ns += count(&self.decrypt_ns);
        sum.encrypt_ns += count(&self.encrypt_ns);
        sum.decrypted_bytes += count(&self.decrypted_bytes);
        sum.encrypted_bytes += count(&self.encrypted_bytes);
    }
}

/// Adds to a counter that only one thread writes and others read, so that no atomic
/// read-modify-write is needed.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}
