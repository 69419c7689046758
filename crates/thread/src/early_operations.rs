//! Operations of requests that were sampled before their operation was known.
//!
//! The operation of a request is known only after it has been read, and a sample of the reading is
//! processed independently of that. So the sample carries a number, and this table has the
//! operation for the number as soon as it is known.

use std::sync::atomic::{AtomicU64, Ordering};

/// The capacity of the table: so many requests with early samples may begin while one of them is
/// still being read.
pub const EARLY_MAX: u64 = 8_192;

/// The next number; zero stands for none.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// The entries, at the numbers modulo the capacity: the number, and in the lower eight bits the
/// operation.
static OPERATIONS: [AtomicU64; EARLY_MAX as usize] =
    [const { AtomicU64::new(0) }; EARLY_MAX as usize];

fn place_of(number: u64) -> &'static AtomicU64 {
    &OPERATIONS[(number % EARLY_MAX) as usize]
}

/// A new number. May be called in a signal handler.
pub(crate) fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Notes the operation of the request with this number.
#[cold]
pub(crate) fn resolve(number: u64, operation: u8) {
    let resolved = number << 8 | u64::from(operation);
    // A later request may have taken the place; it keeps it.
    place_of(number).fetch_max(resolved, Ordering::Relaxed);
}

/// The operation of the request with this number; none if it is not known yet, or if a later
/// request has taken its place ([`EARLY_MAX`]).
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
    fn a_number_has_its_operation_until_another_takes_its_place() {
        // This is far from the numbers that other tests draw.
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
