//! Sources of requests that the caller writes in Rust.

use pellucid_client::http::CapturedResponse;

/// The share of a thread in a run, by which a source can make its part of a fixed sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadShare {
    /// The number of the thread, from zero.
    pub thread: usize,
    /// The number of threads.
    pub threads: usize,
    /// The index of the thread's first request in the sequence of a run that is limited by
    /// [`crate::Limit::Requests`]; zero otherwise.
    pub first_request: u64,
    /// The number of requests that this thread sends in such a run.
    pub requests: Option<u64>,
}

impl ThreadShare {
    /// Divides a run of `total` requests, so that the shares differ by one request at most.
    pub(crate) fn of(thread: usize, threads: usize, total: Option<u64>) -> ThreadShare {
        let boundary = |index: usize| {
            let product = u128::from(total.unwrap_or(0)) * index as u128 / threads as u128;
            u64::try_from(product).expect("a part of a u64 is a u64")
        };
        let first_request = boundary(thread);
        let requests = total.map(|_| boundary(thread + 1) - first_request);
        ThreadShare { thread, threads, first_request, requests }
    }
}

/// Makes the requests of one thread, one after the other.
pub trait RequestSource: Send {
    /// Appends the bytes of the next request, exactly one, to `out`.
    fn next(&mut self, out: &mut Vec<u8>);

    /// The index in [`RequestSources::operations`] of the operation of the request that was made
    /// last.
    fn operation(&self) -> usize {
        0
    }

    /// Checks the answer to a request of `operation`. `answer` is the whole answer, if
    /// [`RequestSources::wants_answers`].
    fn check(
        &mut self,
        operation: usize,
        status: u16,
        answer: Option<&CapturedResponse>,
    ) -> Acceptance {
        let _ = (operation, status, answer);
        Acceptance::ByStatus
    }
}

impl<F: FnMut(&mut Vec<u8>) + Send> RequestSource for F {
    fn next(&mut self, out: &mut Vec<u8>) {
        self(out);
    }
}

/// A source's judgement of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// A status of 400 or above is an error.
    ByStatus,
    /// The answer is right, whatever its status.
    Passed,
    /// The answer is wrong.
    Failed,
}

/// Makes a [`RequestSource`] for every thread of a run.
pub trait RequestSources: Send + Sync {
    /// The source of one thread.
    fn source(&self, share: ThreadShare) -> Box<dyn RequestSource>;

    /// The names of the operations of the requests. If there are several, figures are recorded for
    /// each.
    fn operations(&self) -> Vec<String> {
        Vec::new()
    }

    /// True if the checks need the head and the body of the answers.
    fn wants_answers(&self) -> bool {
        false
    }
}

impl<F> RequestSources for F
where
    F: Fn(ThreadShare) -> Box<dyn RequestSource> + Send + Sync,
{
    fn source(&self, share: ThreadShare) -> Box<dyn RequestSource> {
        self(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_the_sequence_without_gaps() {
        for (total, threads) in [(0, 1), (1, 3), (10, 3), (u64::MAX, 7)] {
            let mut next = 0;
            for thread in 0..threads {
                let share = ThreadShare::of(thread, threads, Some(total));
                assert_eq!(share.first_request, next);
                next += share.requests.unwrap();
            }
            assert_eq!(next, total);
        }
    }
}
