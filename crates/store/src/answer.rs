//! Answers of a store, which are ready at once or arrive later.

use pellucid_account::{EngineCounts, Part, Stamp, Timeline};
use pellucid_clock::Ticks;

use crate::error::Result;

/// The answer of a store.
pub enum Answer<T> {
    /// The answer is ready.
    Now(Result<T>),
    /// The answer will arrive, on another thread.
    Later(DeferredAnswer<T>),
}

impl<T: Send + 'static> Answer<T> {
    /// Converts the value of the answer by `change`, as soon as it is ready.
    #[must_use]
    pub fn map<U: Send + 'static>(self, change: impl FnOnce(T) -> U + Send + 'static) -> Answer<U> {
        match self {
            Answer::Now(result) => Answer::Now(result.map(change)),
            Answer::Later(DeferredAnswer { start, is_handed_over }) => {
                let start = Box::new(move |callback: Callback<U>, thread| {
                    let deliver = move |arrival: DeliveredAnswer<T>| {
                        let DeliveredAnswer { result, parts, started, counts } = arrival;
                        callback(DeliveredAnswer {
                            result: result.map(change),
                            parts,
                            started,
                            counts,
                        });
                    };
                    start(Box::new(deliver), thread);
                });
                Answer::Later(DeferredAnswer { start, is_handed_over })
            }
        }
    }

    /// Waits for the answer. It blocks, so event loops must not call it.
    ///
    /// # Errors
    /// The error of the store.
    #[inline]
    pub fn wait(self) -> Result<T> {
        match self {
            Answer::Now(result) => result,
            Answer::Later(pending) => pending.arrive().result,
        }
    }

    /// As [`Answer::wait`], and adds the parts that another thread measured to `timeline`.
    ///
    /// # Errors
    /// The error of the store.
    pub fn wait_for(self, timeline: &mut Timeline) -> Result<T> {
        match self {
            Answer::Now(result) => result,
            Answer::Later(pending) => {
                let arrival = pending.arrive();
                arrival.parts.iter().for_each(|part| part.add_to(timeline));
                arrival.result
            }
        }
    }
}

pub(crate) type Callback<T> = Box<dyn FnOnce(DeliveredAnswer<T>) + Send>;

/// The thread that begins the work for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeginningThread {
    /// An event loop, or another thread that must not wait.
    NeverWaits,
    /// A thread that may wait for the disk, and can do the work itself.
    MayWait,
}

/// An answer that arrives later. Its work may begin only with [`DeferredAnswer::when_ready`] or
/// [`DeferredAnswer::begin_here`]: if it is dropped before, it may never be done.
pub struct DeferredAnswer<T> {
    start: Box<dyn FnOnce(Callback<T>, BeginningThread) + Send>,
    is_handed_over: bool,
}

impl<T> DeferredAnswer<T> {
    /// Makes an answer from `start`, which has to call the callback that it gets exactly once.
    #[must_use]
    pub fn new(start: impl FnOnce(Callback<T>) + Send + 'static) -> DeferredAnswer<T> {
        let start = Box::new(move |callback: Callback<T>, _| start(callback));
        DeferredAnswer { start, is_handed_over: false }
    }

    /// As [`DeferredAnswer::new`], of work that `start` hands over, or does on its own thread.
    pub(crate) fn by(
        start: impl FnOnce(Callback<T>, BeginningThread) + Send + 'static,
    ) -> DeferredAnswer<T> {
        DeferredAnswer { start: Box::new(start), is_handed_over: true }
    }

    /// True if nothing was done yet: the work begins with [`DeferredAnswer::when_ready`].
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        self.is_handed_over
    }

    /// Calls `callback` with the answer, on the thread on which it arrives.
    pub fn when_ready(self, callback: impl FnOnce(DeliveredAnswer<T>) + Send + 'static) {
        (self.start)(Box::new(callback), BeginningThread::NeverWaits);
    }

    /// As [`DeferredAnswer::when_ready`], on a thread that may wait for the disk: work that would
    /// be handed over to a worker is done on this thread, however many requests wait for one.
    pub fn begin_here(self, callback: impl FnOnce(DeliveredAnswer<T>) + Send + 'static) {
        (self.start)(Box::new(callback), BeginningThread::MayWait);
    }

    fn arrive(self) -> DeliveredAnswer<T>
    where
        T: Send + 'static,
    {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.begin_here(move |arrival| {
            // Sending cannot fail, because the receiver below waits.
            let _ = sender.send(arrival);
        });
        receiver.recv().expect("a pending answer always arrives")
    }
}

/// A late answer, with the time that it took on other threads.
pub struct DeliveredAnswer<T> {
    /// The answer.
    pub result: Result<T>,
    /// The parts of the phase `execute` that other threads measured, in order.
    pub parts: Vec<PartMeasurement>,
    /// The time at which another thread took the request from a queue, if it was queued.
    pub started: Option<Ticks>,
    /// The counts that other threads made.
    pub counts: EngineCounts,
}

impl<T> DeliveredAnswer<T> {
    /// Makes an answer with no other measurements than `parts`.
    #[must_use]
    pub fn new(result: Result<T>, parts: Vec<PartMeasurement>) -> DeliveredAnswer<T> {
        DeliveredAnswer { result, parts, started: None, counts: EngineCounts::default() }
    }

    /// Adds the measurements to the request's timeline.
    pub fn add_to(&self, timeline: &mut Timeline) {
        if let Some(started) = self.started {
            timeline.stamp_at(Stamp::Started, started);
            timeline.counts = self.counts;
        }
        self.parts.iter().for_each(|part| part.add_to(timeline));
    }
}

/// A time that another thread measured for a part of a request.
#[derive(Clone, Copy, Debug)]
pub struct PartMeasurement {
    /// The part of the request.
    pub part: Part,
    /// The length of the time.
    pub ticks: u64,
    /// The end of the time.
    pub until: Ticks,
    /// The number of the background job for which the request waited; zero for none.
    pub waited_for: u64,
}

impl PartMeasurement {
    /// Adds the time to the part on `timeline`.
    pub fn add_to(&self, timeline: &mut Timeline) {
        timeline.add_part(self.part, self.ticks, self.until);
        timeline.wait_for(self.waited_for, self.ticks);
    }
}
