//! The owner's answer as seen by the asker: as a store's result, and as times for the account. The
//! event loops that forward requests and the store of kind `sharded` use it.

use pellucid_account::{PARTS_MAX, Part};
use pellucid_clock::Clock;
use pellucid_store::{Head, PartMeasurement, StoreError};

use crate::frame::{Answer, AnswerStatus};
use crate::outcome::{AskTimes, Failure};

/// The part before the kernel had the ask: the wait for the connection to the owner, and for the
/// end of the wake-up.
pub const PEER_WAIT: Part = Part::new(0);
/// The part of the round trip that the owner does not account for: the network, both ways.
pub const NETWORK: Part = Part::new(1);
/// At the owner, from the wake-up to the end of the read that completed the ask.
pub const OWNER_RECEIVE: Part = Part::new(2);
/// At the owner, waiting behind other asks of the same read, or for another thread.
pub const OWNER_QUEUE: Part = Part::new(3);
/// At the owner, looking the key up.
pub const OWNER_LEDGER: Part = Part::new(4);
/// At the owner, reading or writing the record.
pub const OWNER_JOURNAL: Part = Part::new(5);
/// At the owner, waiting: for flushes and merges, other writers, a sync.
pub const OWNER_WAIT: Part = Part::new(6);
/// At the owner, all other time: the memtable, and the answer until it was sent.
pub const OWNER_OTHER: Part = Part::new(7);

/// The names of the parts of `execute` of a forwarded request.
pub const FORWARD_PARTS: [&str; PARTS_MAX] = [
    "peer_wait", "network", "owner_receive", "owner_queue", "owner_ledger", "owner_journal",
    "owner_wait", "owner_other",
];

/// An owner's answer without its payload, and its times here.
#[derive(Clone, Copy, Debug)]
pub struct OwnerAnswer {
    /// The answer; its payload is empty.
    pub answer: Answer<'static>,
    /// The times of the ask at this node.
    pub times: AskTimes,
}

impl OwnerAnswer {
    /// The fixed fields of an answer, with the times of its ask at this node.
    #[must_use]
    pub fn new(answer: &Answer<'_>, times: AskTimes) -> OwnerAnswer {
        OwnerAnswer { answer: Answer { payload: b"", ..*answer }, times }
    }

    /// The parts of `execute`: the wait at this node, the network, and the parts at the owner. Only
    /// durations of the owner's clock are used. If they add up to more than the round trip, they
    /// are cut to it, the last parts first.
    #[must_use]
    pub fn parts(&self, clock: Clock) -> [PartMeasurement; PARTS_MAX] {
        let AskTimes { asked, sent, received } = self.times;
        let mut left = received.since(sent);
        let owner = self.answer.times;
        let ns = |slots: &[usize]| {
            slots.iter().map(|slot| u64::from(owner.parts_ns[*slot])).sum::<u64>()
        };
        let (ledger_ns, journal_ns, wait_ns) = (ns(&[2]), ns(&[3, 4]), ns(&[0, 1, 6, 7]));
        let execute_ns = u64::from(owner.execute_ns);
        let other_ns =
            execute_ns.saturating_sub(ledger_ns + journal_ns + wait_ns) + u64::from(owner.reply_ns);
        let time = |part, ticks| PartMeasurement { part, ticks, until: received, waited_for: 0 };
        let mut at_owner = |part, part_ns| {
            let ticks = clock.ticks(part_ns).min(left);
            left -= ticks;
            time(part, ticks)
        };
        let owner = [
            at_owner(OWNER_RECEIVE, u64::from(owner.receive_ns)),
            at_owner(OWNER_QUEUE, u64::from(owner.queue_ns)),
            at_owner(OWNER_LEDGER, ledger_ns),
            at_owner(OWNER_JOURNAL, journal_ns),
            at_owner(OWNER_WAIT, wait_ns),
            at_owner(OWNER_OTHER, other_ns),
        ];
        let [receive, queue, ledger, journal, wait, other] = owner;
        let (waited, network) = (time(PEER_WAIT, sent.since(asked)), time(NETWORK, left));
        [waited, network, receive, queue, ledger, journal, wait, other]
    }

    /// The head of the object that was found; `None` for any other status.
    #[must_use]
    pub fn head(&self) -> Option<Head> {
        let Answer { status, sequence, written_at_ms, value_length, .. } = self.answer;
        let head = Head { sequence, written_at_ms, value_length };
        (status == AnswerStatus::Found).then_some(head)
    }

    /// The owner's error, with the reason from `payload`; `None` if the ask succeeded.
    #[must_use]
    pub fn error(&self, payload: &[u8]) -> Option<StoreError> {
        let text = || String::from_utf8_lossy(payload).into_owned();
        let Answer { status, detail, sequence, .. } = self.answer;
        Some(match status {
            AnswerStatus::Found | AnswerStatus::Missing | AnswerStatus::Written => return None,
            AnswerStatus::ConditionFailed => StoreError::ConditionFailed {
                index: detail as usize,
                current: (sequence > 0).then_some(sequence),
            },
            AnswerStatus::Unacceptable => StoreError::Unacceptable(text()),
            AnswerStatus::Full => StoreError::Full(text()),
            AnswerStatus::Corruption => StoreError::Corruption(text()),
            AnswerStatus::ReadOnly => StoreError::ReadOnly(text()),
            AnswerStatus::Busy => StoreError::Busy(text()),
            AnswerStatus::Late => StoreError::Unreachable(text()),
            AnswerStatus::Failed | AnswerStatus::NotOwner => StoreError::Failed(text()),
            AnswerStatus::Page => {
                StoreError::Failed("the owner has answered something else".to_owned())
            }
        })
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> StoreError {
        let text = failure.to_string();
        match failure {
            Failure::Full { .. } => StoreError::Busy(text),
            _ => StoreError::Unreachable(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use pellucid_clock::Ticks;

    use super::*;
    use crate::frame::OwnerTimes;

    fn parts_of(owner: OwnerTimes) -> [u64; PARTS_MAX] {
        let times = AskTimes { asked: Ticks(1_000), sent: Ticks(2_000), received: Ticks(8_000) };
        let answer = OwnerAnswer::new(
            &Answer { times: owner, ..Answer::plain(1, AnswerStatus::Missing) },
            times,
        );
        let parts = answer.parts(Clock::monotonic());
        for (slot, part) in (0..).zip(&parts) {
            assert_eq!((part.part, part.until), (Part::new(slot), Ticks(8_000)));
        }
        parts.map(|part| part.ticks)
    }

    #[test]
    fn the_parts_of_a_forwarded_request_fill_its_round_trip() {
        let mut owner = OwnerTimes {
            receive_ns: 100,
            queue_ns: 200,
            execute_ns: 1_000,
            reply_ns: 50,
            ..OwnerTimes::default()
        };
        owner.parts_ns[2] = 300;
        owner.parts_ns[3] = 400;
        assert_eq!(parts_of(owner), [1_000, 6_000 - 1_350, 100, 200, 300, 400, 0, 350]);
    }

    #[test]
    fn times_of_an_owner_beyond_the_round_trip_are_cut() {
        let owner = OwnerTimes { receive_ns: 5_000, execute_ns: u32::MAX, ..OwnerTimes::default() };
        assert_eq!(parts_of(owner), [1_000, 0, 5_000, 0, 0, 0, 0, 1_000]);
    }

    /// Regression: such an answer was reported as busy (503), which says that the owner was not
    /// asked.
    #[test]
    fn a_late_answer_is_reported_as_unreachable() {
        let times = AskTimes { asked: Ticks(0), sent: Ticks(0), received: Ticks(1) };
        let late = OwnerAnswer::new(&Answer::plain(1, AnswerStatus::Late), times);
        let error = late.error(b"too late");
        assert!(matches!(error, Some(StoreError::Unreachable(what)) if what == "too late"));
    }

    #[test]
    fn a_lost_peer_is_unreachable_and_a_full_one_is_busy() {
        let owner = || "http://a:1".to_owned();
        let full = StoreError::from(Failure::Full { owner: owner() });
        assert!(matches!(full, StoreError::Busy(_)));
        let gone = Failure::Lost { owner: owner(), reason: "it is off".to_owned() };
        let StoreError::Unreachable(text) = StoreError::from(gone) else { panic!() };
        assert!(text.contains("http://a:1") && text.contains("it is off"), "{text}");
    }
}
