//! The output of a connection: bytes that the kernel has not taken yet, and the queue of responses
//! that end within them.

use std::borrow::Cow;
use std::collections::VecDeque;

use pellucid_account::Record;
use pellucid_budget::{Budget, BudgetError, Share};

use crate::limits::{BATCH_CONNECTIONS_MAX, OUTPUT_BYTES_FREE, RESPONSE_BYTES_FREE};

/// Spare queues that a loop keeps for its connections: one more than a batch may need.
const SPARE_QUEUES_MAX: usize = BATCH_CONNECTIONS_MAX + 1;
/// A queue that has grown beyond this many responses, by pipelining, is given back.
const QUEUE_KEPT_RESPONSES: usize = 16;

/// A response that is encoded; it is sent once all bytes before `end` are.
struct EncodedResponse {
    /// The record of the request; none if accounting is off.
    record: Option<Record>,
    end: usize,
    /// Ticks that the connection had spent encrypting when the response was encoded.
    encrypted_ticks: u64,
}

/// Spare queues, which connections take when they need one, so that idle ones hold no memory.
pub(crate) struct SpareQueues(Vec<VecDeque<EncodedResponse>>);

impl Default for SpareQueues {
    fn default() -> SpareQueues {
        SpareQueues(Vec::with_capacity(SPARE_QUEUES_MAX))
    }
}

/// The output of one connection.
#[derive(Default)]
pub(crate) struct Output {
    /// Bytes that the kernel has not taken yet.
    unsent: Vec<u8>,
    /// Responses that end within `unsent`, or within the buffer that is being written behind it.
    finished: VecDeque<EncodedResponse>,
    /// The part of the server's memory that `unsent` holds.
    memory: Option<Share>,
    /// Ticks that were spent encrypting until now.
    encrypted_ticks: u64,
}

impl Output {
    pub(crate) fn is_empty(&self) -> bool {
        self.unsent.is_empty()
    }

    /// True if no response waits to be written.
    pub(crate) fn has_no_responses(&self) -> bool {
        self.finished.is_empty()
    }

    /// Appends bytes behind the unsent ones.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    /// Takes the unsent bytes out, to be written; [`Output::put_back`] returns the rest.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unsent)
    }

    /// Keeps the rest of `bytes`, of which the kernel took the first `sent`.
    pub(crate) fn put_back(&mut self, bytes: Cow<'_, [u8]>, sent: usize) {
        debug_assert!(self.unsent.is_empty(), "the bytes follow the unsent ones");
        match bytes {
            Cow::Borrowed(bytes) => self.unsent.extend_from_slice(&bytes[sent..]),
            Cow::Owned(mut bytes) => {
                bytes.drain(..sent);
                self.unsent = bytes;
            }
        }
    }

    /// Notes the ticks that the connection has spent encrypting.
    pub(crate) fn note_encrypted(&mut self, ticks: u64) {
        self.encrypted_ticks = ticks;
    }

    /// Queues a response that ends at `end` of the bytes behind the unsent ones.
    #[inline]
    pub(crate) fn finish(&mut self, record: Option<Record>, end: usize, spare: &mut SpareQueues) {
        if self.finished.capacity() == 0
            && let Some(queue) = spare.0.pop()
        {
            self.finished = queue;
        }
        let (end, encrypted_ticks) = (self.unsent.len() + end, self.encrypted_ticks);
        self.finished.push_back(EncodedResponse { record, end, encrypted_ticks });
    }

    /// Removes the responses that end within the first `sent` bytes, and calls `end` with the
    /// record of each and the ticks that its encryption took.
    #[inline]
    pub(crate) fn note_sent(
        &mut self,
        sent: usize,
        spare: &mut SpareQueues,
        mut end: impl FnMut(&mut Record, u64),
    ) {
        let out = self.finished.iter().take_while(|finished| finished.end <= sent).count();
        // Records are not moved out: they are large, and nearly always all of them are sent.
        for EncodedResponse { record, encrypted_ticks, .. } in self.finished.range_mut(..out) {
            if let Some(record) = record {
                end(record, self.encrypted_ticks - *encrypted_ticks);
            }
        }
        if out < self.finished.len() {
            self.finished.drain(..out);
            self.finished.iter_mut().for_each(|finished| finished.end -= sent);
            return;
        }
        let mut queue = std::mem::take(&mut self.finished);
        queue.clear();
        if queue.capacity() <= QUEUE_KEPT_RESPONSES && spare.0.len() < SPARE_QUEUES_MAX {
            spare.0.push(queue);
        }
    }

    /// Takes out the records of the responses that will not be sent.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = Record> + '_ {
        self.finished.drain(..).filter_map(|finished| finished.record)
    }

    /// Takes memory from the budget for a response that may have to wait for its client.
    pub(crate) fn hold(&mut self, bytes: usize, memory: &Budget) -> Result<(), BudgetError> {
        if bytes <= RESPONSE_BYTES_FREE {
            return Ok(());
        }
        self.memory.get_or_insert_with(|| memory.share(usize::MAX)).take(bytes)
    }

    /// Adjusts the held memory to the unsent bytes: takes more from the budget, or gives some back.
    #[inline]
    pub(crate) fn hold_unsent(&mut self, memory: &Budget) -> Result<(), BudgetError> {
        if self.unsent.len() <= OUTPUT_BYTES_FREE {
            self.unsent.shrink_to(OUTPUT_BYTES_FREE);
            self.memory = None;
            return Ok(());
        }
        let share = self.memory.get_or_insert_with(|| memory.share(usize::MAX));
        let (bytes, held) = (self.unsent.capacity(), share.held_bytes());
        if bytes > held {
            return share.take(bytes - held);
        }
        share.give_back(held - bytes);
        Ok(())
    }
}
