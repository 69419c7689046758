//! Operations of requests that were sampled before their operation was known.
//!
//! What a request is turns out when it has been read, and a sample of the reading may long be out
//! of the sampler's hands by then. So the sample carries a number, and what the number stands for
//! is asked for here as often as it takes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that are known at a time: as many requests with early samples may begin while one of
/// them is still being read.
pub const EARLY_MAX: u64 = 8_192;

/// The next number; zero is none.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// Of each number, at its remainder: the number, and below it, in eight bits, the operation.
static OPERATIONS: [AtomicU64; EARLY_MAX as usize] =
    [const { AtomicU64::new(0) }; EARLY_MAX as usize];

fn place_of(number: u64) -> &'static AtomicU64 {
    &OPERATIONS[(number % EARLY_MAX) as usize]
}

/// A number that no request has had. May be called in a signal handler.
pub(crate) fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Notes the operation of the request with this number.
#[cold]
pub(crate) fn resolve(number: u64, operation: u8) {
    let resolved = number << 8 | u64::from(operation);
    // A later request may have taken the place, and keeps it.
    place_of(number).fetch_max(resolved, Ordering::Relaxed);
}

/// The operation of the request with this number, once it is known, and as long as no more than
/// [`EARLY_MAX`] others have come after it.
#[must_use]
pub fn early_operation(number: u64) -> Option<u8> {
    let resolved = place_of(number).load(Ordering::Relaxed);
    (number != 0 && resolved >> 8 == number).then_some(resolved as u8)
}

/// True if the operation of the request with this number can still become known.
#[must_use]
pub fn is_early_awaited(number: u64) -> bool {
    number != 0 && NEXT.load(Ordering::Relaxed) - number <= EARLY_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_told_until_another_takes_its_place() {
        // Far from the numbers that other tests draw.
        let number = 1 << 40;
        assert_eq!(early_operation(number), None);
        resolve(number + EARLY_MAX, 9);
        resolve(number, 4);
        assert_eq!(early_operation(number), None, "the place belongs to the later one");
        assert_eq!(early_operation(number + EARLY_MAX), Some(9));
        assert_eq!(early_operation(0), None);
        assert!(is_early_awaited(next()) && !is_early_awaited(0));
    }
}
