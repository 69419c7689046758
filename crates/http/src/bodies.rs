//! Memory for request bodies that are coming in.
//!
//! A body takes memory as its bytes arrive, independent of its declared length. It takes from
//! several budgets at once: those of its connection, its address, its account, all bodies together,
//! and the server. A body that comes with its head in one read takes none.

use pellucid_budget::{Budget, BudgetError, Share};
use pellucid_clock::{Clock, Ticks};

use crate::limits::{BODY_BYTES_FREE, BODY_BYTES_PER_SECOND_MIN};
use crate::refusal::Refusal;

/// The memory that one body holds, until this is dropped, and the time by which more must arrive.
pub(crate) struct BodyHold {
    /// The shares of the budgets, each with its name in a refusal.
    shares: Vec<(Share, &'static str)>,
    held_bytes: usize,
    /// The moment by which more of the body must arrive.
    due: Ticks,
    exchange_ticks: u64,
}

impl BodyHold {
    /// A hold of zero bytes from each of `budgets`. The body may pause for `exchange_ticks`.
    pub(crate) fn new(
        budgets: &[(Option<&Budget>, &'static str)],
        exchange_ticks: u64,
        now: Ticks,
    ) -> BodyHold {
        let share = |(budget, whose): &(Option<&Budget>, &'static str)| {
            budget.map(|budget| (budget.share(budget.bytes_max()), *whose))
        };
        let due = Ticks(now.0.saturating_add(exchange_ticks));
        let shares = budgets.iter().filter_map(share).collect();
        BodyHold { shares, held_bytes: 0, due, exchange_ticks }
    }

    /// Makes room for `more` bytes at the end of `buffer`. `end_bytes` is the final length of the
    /// body, if it is known. The capacity doubles if there is memory for that.
    pub(crate) fn grow(
        &mut self,
        buffer: &mut Vec<u8>,
        more: usize,
        end_bytes: Option<usize>,
    ) -> Result<(), Refusal> {
        let least = buffer.len() + more;
        if least <= BODY_BYTES_FREE || least <= self.held_bytes && least <= buffer.capacity() {
            return Ok(());
        }
        let doubled = least.max(buffer.len() * 2);
        let wanted = end_bytes.map_or(doubled, |end| doubled.min(end.max(least)));
        let wanted = match self.take(wanted) {
            Ok(()) => wanted,
            Err(_) => self.take(least).map(|()| least)?,
        };
        let spare = wanted - buffer.len();
        buffer.try_reserve_exact(spare).map_err(|_| Refusal::BodiesFull("to this server"))
    }

    /// Takes memory until `bytes` are held: from every budget, or from none.
    fn take(&mut self, bytes: usize) -> Result<(), Refusal> {
        let more = bytes.saturating_sub(self.held_bytes);
        for at in 0..self.shares.len() {
            let (share, whose) = &mut self.shares[at];
            if let Err(over) = share.take(more) {
                let refusal = match over {
                    BudgetError::Share { bytes_max } => {
                        Refusal::BodyOverMemory { bytes_max, whose }
                    }
                    BudgetError::Server { .. } => Refusal::BodiesFull(whose),
                };
                self.shares[..at].iter_mut().for_each(|(share, _)| share.give_back(more));
                return Err(refusal);
            }
        }
        self.held_bytes += more;
        Ok(())
    }

    /// Notes that `bytes` arrived. They extend the due time by the time that they take at the
    /// lowest rate, but never beyond the longest pause from now. `bodies` share the rate of the
    /// connection.
    pub(crate) fn note_arrived(&mut self, bytes: usize, bodies: usize, clock: &Clock, now: Ticks) {
        let bytes = (bytes as u64).saturating_mul(bodies as u64);
        let earned_ns = bytes.saturating_mul(1_000_000_000) / BODY_BYTES_PER_SECOND_MIN;
        let latest = now.0.saturating_add(self.exchange_ticks);
        self.due = Ticks(self.due.0.saturating_add(clock.ticks(earned_ns)).min(latest));
    }

    /// Lets the body pause anew from `now` on.
    pub(crate) fn put_off(&mut self, now: Ticks) {
        self.due = Ticks(now.0.saturating_add(self.exchange_ticks));
    }

    /// True if the body is overdue.
    pub(crate) fn is_late(&self, now: Ticks) -> bool {
        now > self.due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pellucid_budget::LEASE_BYTES;

    use super::*;

    const MIB: usize = 1 << 20;

    fn hold(budgets: &[&Budget]) -> BodyHold {
        let budgets: Vec<_> = budgets.iter().map(|budget| (Some(*budget), "here")).collect();
        BodyHold::new(&budgets, 0, Ticks(0))
    }

    /// Regression: the memory of the declared length was taken at once.
    #[test]
    fn a_body_takes_memory_as_it_arrives_and_gives_it_back() {
        let (all, own) = (Budget::new(10 * MIB), Budget::new(8 * MIB));
        let (mut body, mut buffer) = (hold(&[&all, &own]), Vec::new());
        for _ in 0..32 {
            body.grow(&mut buffer, 64 << 10, Some(1 << 30)).unwrap();
            buffer.resize(buffer.len() + (64 << 10), 0);
            let used = all.used_bytes();
            assert!(used >= buffer.capacity() && used <= 2 * buffer.len(), "{used}");
            assert_eq!(own.used_bytes(), used);
        }
        drop(body);
        assert_eq!((all.used_bytes(), own.used_bytes()), (0, 0));
    }

    #[test]
    fn a_body_grows_up_to_its_smallest_budget() {
        let (all, own) = (Budget::new(10 * MIB), Budget::new(5 * MIB));
        let (mut body, mut buffer) = (hold(&[&all, &own]), vec![0; 3 * MIB]);
        body.grow(&mut buffer, MIB, None).unwrap();
        buffer.resize(4 * MIB, 0);
        body.grow(&mut buffer, MIB, None).unwrap();
        buffer.resize(5 * MIB, 0);
        let over = Refusal::BodyOverMemory { bytes_max: 5 * MIB, whose: "here" };
        assert_eq!(body.grow(&mut buffer, 1, None), Err(over));
        assert_eq!(own.used_bytes(), 5 * MIB);
        assert!(all.used_bytes() <= 5 * MIB + 2 * LEASE_BYTES, "of all or of none");
        let (mut next, mut after) = (hold(&[&all, &own]), Vec::new());
        assert_eq!(next.grow(&mut after, MIB, None), Err(Refusal::BodiesFull("here")));
        let (mut short, mut buffer) = (hold(&[&all]), Vec::new());
        short.grow(&mut buffer, BODY_BYTES_FREE, Some(30_000)).unwrap();
        assert_eq!(buffer.capacity(), 0, "a little is taken from nobody");
        buffer.resize(BODY_BYTES_FREE, 0);
        short.grow(&mut buffer, 1, Some(30_000)).unwrap();
        assert_eq!(buffer.capacity(), 30_000, "no more than the declared end");
    }

    /// Regression: a stalled body of 1 GiB was cut only after eighteen hours.
    #[test]
    fn arriving_bytes_extend_the_due_time_up_to_the_longest_pause() {
        let clock = Clock::monotonic();
        let at = |seconds: u64| Ticks(clock.ticks(seconds * 1_000_000_000));
        let exchange_ticks = clock.ticks(Duration::from_secs(30).as_nanos() as u64);
        let begin = || BodyHold { due: at(30), exchange_ticks, ..hold(&[]) };
        let mut silent = begin();
        silent.note_arrived(1 << 30, 1, &clock, at(1));
        assert!(!silent.is_late(at(31)) && silent.is_late(at(32)), "30 s after its last byte");
        let (mut steady, mut slow, mut shared) = (begin(), begin(), begin());
        for second in (10..=600).step_by(10) {
            steady.note_arrived(10 * 16 * 1024, 1, &clock, at(second));
            slow.note_arrived(1, 1, &clock, at(second));
            shared.note_arrived(10 * 1024, 16, &clock, at(second));
            assert!(!steady.is_late(at(second + 10)) && !shared.is_late(at(second + 10)));
        }
        assert!(slow.is_late(at(31)), "bytes now and then earn next to nothing");
    }
}
