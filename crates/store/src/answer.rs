//! Answers that are there at once, and answers that come later.

use pellucid_account::{EngineCounts, Part, Stamp, Timeline};
use pellucid_clock::Ticks;

use crate::error::Result;

/// The answer of a store.
pub enum Answer<T> {
    /// It is here.
    Now(Result<T>),
    /// It will come, on another thread.
    Later(Pending<T>),
}

impl<T: Send + 'static> Answer<T> {
    /// The answer as `change` makes it, whenever it is there.
    #[must_use]
    pub fn map<U: Send + 'static>(self, change: impl FnOnce(T) -> U + Send + 'static) -> Answer<U> {
        match self {
            Answer::Now(result) => Answer::Now(result.map(change)),
            Answer::Later(pending) => Answer::Later(Pending::new(move |callback| {
                pending.when_ready(move |arrival| {
                    let Arrival { result, parts, started, counts } = arrival;
                    callback(Arrival { result: result.map(change), parts, started, counts });
                });
            })),
        }
    }

    /// Waits for the answer. For tools and tests: an event loop must not.
    ///
    /// # Errors
    /// The answer of the store.
    #[inline]
    pub fn wait(self) -> Result<T> {
        match self {
            Answer::Now(result) => result,
            Answer::Later(pending) => pending.arrive().result,
        }
    }

    /// As [`Answer::wait`], on a thread that may block: what was measured elsewhere comes to the
    /// parts of the waiting request.
    ///
    /// # Errors
    /// The answer of the store.
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

type Callback<T> = Box<dyn FnOnce(Arrival<T>) + Send>;

/// An answer that is under way.
pub struct Pending<T> {
    start: Box<dyn FnOnce(Callback<T>) + Send>,
}

impl<T> Pending<T> {
    /// An answer that arrives by calling what `start` is given, exactly once.
    #[must_use]
    pub fn new(start: impl FnOnce(Callback<T>) + Send + 'static) -> Pending<T> {
        Pending { start: Box::new(start) }
    }

    /// Has `callback` called with the answer, on whichever thread it arrives.
    pub fn when_ready(self, callback: impl FnOnce(Arrival<T>) + Send + 'static) {
        (self.start)(Box::new(callback));
    }

    fn arrive(self) -> Arrival<T>
    where
        T: Send + 'static,
    {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.when_ready(move |arrival| {
            // The receiver is below and waits.
            let _ = sender.send(arrival);
        });
        receiver.recv().expect("a pending answer always arrives")
    }
}

/// A late answer, and where the time until it went.
pub struct Arrival<T> {
    /// The answer.
    pub result: Result<T>,
    /// Parts of `execute` that were measured elsewhere, in order.
    pub parts: Vec<PartTime>,
    /// The time at which another thread began with the request: until then it was queued.
    pub started: Option<Ticks>,
    /// Counts of the store from elsewhere.
    pub counts: EngineCounts,
}

impl<T> Arrival<T> {
    /// An answer of which nothing but `parts` was measured.
    #[must_use]
    pub fn new(result: Result<T>, parts: Vec<PartTime>) -> Arrival<T> {
        Arrival { result, parts, started: None, counts: EngineCounts::default() }
    }

    /// Brings times that were measured elsewhere to the request's timeline.
    pub fn add_to(&self, timeline: &mut Timeline) {
        if let Some(started) = self.started {
            timeline.stamp_at(Stamp::Started, started);
            timeline.counts = self.counts;
        }
        self.parts.iter().for_each(|part| part.add_to(timeline));
    }
}

/// A stretch of time that another thread measured for a request.
#[derive(Clone, Copy, Debug)]
pub struct PartTime {
    /// The part that it is given to.
    pub part: Part,
    /// Its length.
    pub ticks: u64,
    /// Its end.
    pub until: Ticks,
    /// The number of the background job that was waited for; zero for none.
    pub waited_for: u64,
}

impl PartTime {
    /// Gives the stretch to the part on `timeline`.
    pub fn add_to(&self, timeline: &mut Timeline) {
        timeline.add_part(self.part, self.ticks, self.until);
        timeline.wait_for(self.waited_for, self.ticks);
    }
}
