//! The cost of TLS: counts, and the time of cryptography within the phases `receive` and `write`.

use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_clock::Clock;

/// Figures of all TLS connections since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsFigures {
    /// Handshakes that were completed.
    pub handshakes: u64,
    /// Connections that ended before their handshake was complete.
    pub handshakes_failed: u64,
    /// The server's time in handshakes, without the waits for the client.
    pub handshake_ns: u64,
    /// Time spent decrypting, part of the phase `receive`.
    pub decrypt_ns: u64,
    /// Time spent encrypting, part of the phase `write`.
    pub encrypt_ns: u64,
    /// Bytes that were decrypted.
    pub decrypted_bytes: u64,
    /// Bytes that were encrypted.
    pub encrypted_bytes: u64,
}

/// The counters of one event loop, in ticks and bytes; only that loop adds to them.
#[derive(Debug, Default)]
pub(crate) struct TlsMeter {
    pub(crate) handshakes: AtomicU64,
    pub(crate) handshakes_failed: AtomicU64,
    pub(crate) handshake_ticks: AtomicU64,
    pub(crate) decrypt_ticks: AtomicU64,
    pub(crate) encrypt_ticks: AtomicU64,
    pub(crate) decrypted_bytes: AtomicU64,
    pub(crate) encrypted_bytes: AtomicU64,
}

impl TlsMeter {
    /// Adds the figures of one loop to `sum`.
    pub(crate) fn add_to(&self, sum: &mut TlsFigures, clock: &Clock) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        sum.handshakes += count(&self.handshakes);
        sum.handshakes_failed += count(&self.handshakes_failed);
        sum.handshake_ns += clock.nanoseconds(count(&self.handshake_ticks));
        sum.decrypt_ns += clock.nanoseconds(count(&self.decrypt_ticks));
        sum.encrypt_ns += clock.nanoseconds(count(&self.encrypt_ticks));
        sum.decrypted_bytes += count(&self.decrypted_bytes);
        sum.encrypted_bytes += count(&self.encrypted_bytes);
    }
}

/// Adds to a counter that only one thread writes and others read, so that no atomic
/// read-modify-write is needed.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}
