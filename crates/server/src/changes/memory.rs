//! The memory of large documents that streams send.

use pellucid_budget::{Budget, BudgetError, Share};

/// The divisor of the memory of all requests that gives the memory of all streams.
const STREAMS_DIVISOR: usize = 2;

/// The memory of all streams, which is a part of that of all requests. The rest is for others, and
/// for connections, which are cut if they have no memory for their unsent bytes.
#[derive(Clone)]
pub(crate) struct StreamMemory {
    streams: Budget,
    requests: Budget,
}

/// The memory of a document, taken from both budgets.
pub(super) struct DocumentMemory([Share; 2]);

impl StreamMemory {
    pub(super) fn of(requests: Budget) -> StreamMemory {
        let streams = Budget::new(requests.bytes_max() / STREAMS_DIVISOR);
        StreamMemory { streams, requests }
    }

    /// Returns true if as many bytes are left now.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        has_room(&self.streams, bytes) && has_room(&self.requests, bytes)
    }

    /// Takes the memory of a document.
    ///
    /// # Errors
    /// [`BudgetError::Share`] if it is more than all streams may take, [`BudgetError::Server`] if
    /// it is more than is left now.
    pub(super) fn take(&self, bytes: usize) -> Result<DocumentMemory, BudgetError> {
        let mut of_streams = self.streams.share(self.streams.bytes_max());
        of_streams.take(bytes)?;
        // The budget counts refused requests, and a stream that waits is none.
        if !has_room(&self.requests, bytes) {
            return Err(BudgetError::Server { bytes_max: self.requests.bytes_max() });
        }
        let mut of_requests = self.requests.share(usize::MAX);
        of_requests.take(bytes)?;
        Ok(DocumentMemory([of_streams, of_requests]))
    }
}

impl DocumentMemory {
    pub(super) fn held_bytes(&self) -> usize {
        self.0[0].held_bytes()
    }

    pub(super) fn give_back(&mut self, bytes: usize) {
        self.0.iter_mut().for_each(|share| share.give_back(bytes));
    }
}

fn has_room(budget: &Budget, bytes: usize) -> bool {
    bytes <= budget.bytes_max().saturating_sub(budget.used_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: streams took the memory of all requests to its last byte, and their connections
    /// were cut for lack of it.
    #[test]
    fn streams_leave_half_of_the_memory_to_other_requests() {
        let requests = Budget::new(100);
        let memory = StreamMemory::of(requests.clone());
        assert!(matches!(memory.take(51), Err(BudgetError::Share { bytes_max: 50 })));
        let mut document = memory.take(50).unwrap();
        assert_eq!((document.held_bytes(), requests.used_bytes()), (50, 50));
        assert!(!memory.has_room(1) && memory.take(1).is_err());
        document.give_back(20);
        assert_eq!(document.held_bytes(), 30);
        drop(document);
        let mut others = requests.share(usize::MAX);
        others.take(60).unwrap();
        assert!(memory.has_room(40) && !memory.has_room(50) && memory.take(50).is_err());
        assert_eq!((requests.used_bytes(), requests.refusals()), (60, 0));
    }
}
