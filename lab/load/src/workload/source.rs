//! The request source of one thread, by a description of work.

use crate::source::{Acceptance, RequestSource, ThreadShare};
use crate::workload::keys::KeyGenerator;
use crate::workload::operation::Operation;
use pellucid_client::http::CapturedResponse;
use pellucid_io::SeededRandom;

/// The request source of one thread.
pub(super) struct Source {
    operations: Vec<(Operation, KeyGenerator)>,
    /// The sums of the weights up to each operation, inclusive.
    bounds: Vec<u64>,
    random: SeededRandom,
    current: usize,
}

impl Source {
    pub(super) fn new(operations: &[Operation], seed: u64, share: ThreadShare) -> Source {
        let (thread, threads) = (share.thread as u64, share.threads as u64);
        let mut sum = 0;
        let bounds = operations.iter().map(|operation| {
            sum += operation.weight;
            sum
        });
        let bounds = bounds.collect();
        let made = operations.iter().map(|operation| {
            let mut operation = operation.clone();
            if operation.values.is_none() {
                let end: &[u8] =
                    if operation.bodiless { b"\r\n" } else { b"Content-Length: 0\r\n\r\n" };
                operation.head.push(end);
            }
            let hand = KeyGenerator::new(operation.keys, thread, threads);
            (operation, hand)
        });
        Source {
            operations: made.collect(),
            bounds,
            random: SeededRandom::of_stream(seed, thread),
            current: 0,
        }
    }
}

impl RequestSource for Source {
    #[inline]
    fn next(&mut self, out: &mut Vec<u8>) {
        if self.bounds.len() > 1 {
            let sum = self.bounds[self.bounds.len() - 1];
            let drawn = self.random.below(sum);
            self.current = self.bounds.partition_point(|bound| *bound <= drawn);
        }
        let (operation, hand) = &mut self.operations[self.current];
        let key = hand.draw(&mut self.random);
        operation.head.write(key, out);
        if let Some(values) = &operation.values {
            values.write(key, &mut self.random, out);
        }
    }

    fn operation(&self) -> usize {
        self.current
    }

    fn check(
        &mut self,
        operation: usize,
        status: u16,
        answer: Option<&CapturedResponse>,
    ) -> Acceptance {
        self.operations[operation].0.check.judge(status, answer)
    }
}
