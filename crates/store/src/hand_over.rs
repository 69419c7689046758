//! Hand-over of requests from their event loop to worker threads, and the return of their answers.

use pellucid_account::{EngineCounts, Part, Phase, Timeline};
use pellucid_clock::Ticks;
use pellucid_thread::{ParkedWork, WaitKind};

use crate::answer::{
    Answer, BeginningThread, Callback, DeferredAnswer, DeliveredAnswer, PartMeasurement,
};
use crate::error::{Result, StoreError};
use crate::model::{Condition, Operation, WriteOutcome};
use crate::workers::Workers;

/// The part in which writers wait for background jobs, in all kinds of stores that hand over.
pub const STALL: Part = Part::new(0);

/// The rule by which requests are handed over to another thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandOverPolicy {
    /// Hand over only requests that would block. Other requests are fast, and none holds up its
    /// event loop.
    #[default]
    Auto,
    /// Hand over every request, like servers whose event loops only read and write sockets.
    Always,
    /// Hand over no request, like servers that run each request on the thread where it arrived.
    Never,
}

/// Makes an answer that one of `workers` finds by `find`, with a timeline of its own. The beginning
/// of that timeline becomes the request's `started`, so that the wait before it is the phase
/// `queue`. The job is queued when the answer is asked for; a thread that may wait does it itself.
pub fn hand_over<T: Send + 'static>(
    workers: &Workers,
    timeline: &Timeline,
    find: impl FnOnce(&mut Timeline) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let (place, clock, is_on) = (workers.reserve(), timeline.clock(), timeline.is_on());
    // A request that is refused does not wait.
    let put_down = place.is_some().then(|| ParkedWork::put_down(WaitKind::Thread));
    Answer::Later(DeferredAnswer::by(move |callback, thread| {
        let work = move |callback: Callback<T>| {
            let _taken_up = put_down.map(|wait| wait.take_up(Phase::Execute.label()));
            let started = clock.now();
            let mut timeline =
                if is_on { Timeline::begin(clock, started) } else { Timeline::off() };
            match find(&mut timeline) {
                Answer::Now(result) => {
                    callback(arrival(result, &timeline, is_on.then_some(started), clock.now()));
                }
                Answer::Later(pending) => {
                    let begun = is_on.then_some(started);
                    let mut first = arrival(Ok(()), &timeline, begun, clock.now());
                    pending.when_ready(move |second| {
                        first.parts.extend(second.parts);
                        let DeliveredAnswer { parts, started, counts, .. } = first;
                        callback(DeliveredAnswer { result: second.result, parts, started, counts });
                    });
                }
            }
        };
        match (thread, place) {
            (BeginningThread::MayWait, place) => {
                drop(place);
                work(callback);
            }
            (BeginningThread::NeverWaits, Some(place)) => place.run(move || work(callback)),
            (BeginningThread::NeverWaits, None) => {
                callback(DeliveredAnswer::new(Err(busy()), Vec::new()));
            }
        }
    }))
}

/// As [`hand_over`], for a write. The operations are copied, because they have to outlive the bytes
/// of the request.
pub fn hand_over_write(
    workers: &Workers,
    timeline: &Timeline,
    operations: &[Operation<'_>],
    write: impl FnOnce(&[Operation<'_>], &mut Timeline) -> Answer<WriteOutcome> + Send + 'static,
) -> Answer<WriteOutcome> {
    let owned: Vec<_> = operations.iter().map(OwnedOperation::of).collect();
    hand_over(workers, timeline, move |timeline| {
        let operations: Vec<_> = owned.iter().map(OwnedOperation::borrowed).collect();
        write(&operations, timeline)
    })
}

/// An operation that outlives its request's bytes.
struct OwnedOperation {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    condition: Condition,
    lifetime_ms: Option<u64>,
}

impl OwnedOperation {
    fn of(operation: &Operation<'_>) -> OwnedOperation {
        OwnedOperation {
            key: operation.key.to_vec(),
            value: operation.value.map(<[u8]>::to_vec),
            condition: operation.condition,
            lifetime_ms: operation.lifetime_ms,
        }
    }

    fn borrowed(&self) -> Operation<'_> {
        let OwnedOperation { key, value, condition, lifetime_ms } = self;
        let (condition, lifetime_ms) = (*condition, *lifetime_ms);
        Operation { key, value: value.as_deref(), condition, lifetime_ms }
    }
}

fn busy() -> StoreError {
    StoreError::Busy("too many requests wait for the medium: try again in a moment".to_owned())
}

fn arrival<T>(
    result: Result<T>,
    timeline: &Timeline,
    started: Option<Ticks>,
    until: Ticks,
) -> DeliveredAnswer<T> {
    let all = (0..pellucid_account::PARTS_MAX as u8).map(Part::new);
    let times = all.map(|part| {
        // Only in a stall do writers wait for background jobs.
        let waited_for = if part == STALL { timeline.waited_for() } else { 0 };
        PartMeasurement { part, ticks: timeline.part_ticks(part), until, waited_for }
    });
    let parts = times.filter(|time| time.ticks > 0).collect();
    let counts: EngineCounts = timeline.counts;
    DeliveredAnswer { result, parts, started, counts }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::current;

    use super::*;

    /// Regression: a thread that may wait for the disk was refused while the queue of the workers
    /// was full, and a worker queued the write of its large batch again.
    #[test]
    fn a_thread_that_may_wait_does_the_work_itself() {
        let workers = Workers::start("test", 1, 0).unwrap();
        let answer = || {
            let found = hand_over(&workers, &Timeline::off(), |_| Answer::Now(Ok(current())));
            found.map(|thread| thread.id())
        };
        assert_eq!(answer().wait().unwrap(), current().id());
        let (sender, refused) = channel();
        let Answer::Later(pending) = answer() else { panic!("it depends on the thread") };
        pending.when_ready(move |arrival| sender.send(arrival.result.is_err()).unwrap());
        assert_eq!(refused.recv(), Ok(true));
    }
}
