//! Worker threads for requests that would block an event loop, with a bounded queue.
#![allow(clippy::disallowed_types, reason = "threads that wait for this lock are idle")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use pellucid_thread::run_contained;

use crate::error::{Result, StoreError};

type Job = Box<dyn FnOnce() + Send>;

/// A slot in the queue, which is counted until it is dropped.
struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A pool of threads with a bounded queue. Jobs that are queued when it is dropped still run.
pub struct Workers {
    sender: Option<Sender<(Slot, Job)>>,
    queued: Arc<AtomicUsize>,
    /// The slots for next steps, counted apart: they must not keep out jobs that have not begun.
    queued_beyond: Arc<AtomicUsize>,
    queue_max: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` threads, named after `name`, with a queue for `queue_max` jobs besides those
    /// that run.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start(name: &str, count: usize, queue_max: usize) -> Result<Workers> {
        assert!(count > 0, "somebody has to work");
        let (sender, receiver) = channel::<(Slot, Job)>();
        let receiver = Arc::new(Mutex::new(receiver));
        let threads = (0..count).map(|index| {
            let receiver = Arc::clone(&receiver);
            let builder = std::thread::Builder::new().name(format!("{name}-{index}"));
            builder.spawn(move || work(&receiver))
        });
        let threads = threads
            .collect::<std::io::Result<_>>()
            .map_err(|error| StoreError::Failed(format!("cannot start a thread: {error}")))?;
        let (queued, queued_beyond) = (Arc::default(), Arc::default());
        Ok(Workers { sender: Some(sender), queued, queued_beyond, queue_max, threads })
    }

    /// Reserves a slot in the queue; `None` if it is full.
    #[must_use]
    pub fn reserve(&self) -> Option<ReservedSlot> {
        self.reserve_up_to(self.queue_max, &self.queued)
    }

    /// Reserves a slot for the next step of a job that has begun, even if the queue is full. The
    /// caller bounds the number of such jobs.
    #[must_use]
    pub fn reserve_beyond(&self) -> Option<ReservedSlot> {
        self.reserve_up_to(usize::MAX, &self.queued_beyond)
    }

    fn reserve_up_to(&self, most: usize, queued: &Arc<AtomicUsize>) -> Option<ReservedSlot> {
        let sender = self.sender.clone()?;
        let before = queued.fetch_add(1, Ordering::Relaxed);
        let slot = Slot(Arc::clone(queued));
        (before < most).then_some(ReservedSlot { sender, slot })
    }

    /// The number of queued jobs and reserved slots.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed) + self.queued_beyond.load(Ordering::Relaxed)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.sender = None;
        for thread in self.threads.drain(..) {
            // A panic was already reported on standard error.
            let _ = thread.join();
        }
    }
}

fn work(receiver: &Mutex<Receiver<(Slot, Job)>>) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((slot, job)) = next else { return };
        drop(slot);
        run_contained(job);
    }
}

/// A slot in the queue of [`Workers`]. If it is dropped unused, the slot is free again.
pub struct ReservedSlot {
    sender: Sender<(Slot, Job)>,
    slot: Slot,
}

impl ReservedSlot {
    /// Queues `job` in this slot.
    pub fn run(self, job: impl FnOnce() + Send + 'static) {
        // The threads end only after all senders are dropped, so this one finds a receiver.
        let _ = self.sender.send((self.slot, Box::new(job)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::Workers;

    /// If the only thread ended with the panic, the next job would never run.
    #[test]
    fn a_job_that_panics_does_not_end_its_thread() {
        let workers = Workers::start("test", 1, 2).unwrap();
        workers.reserve().unwrap().run(|| panic!("on purpose"));
        let (sender, done) = channel();
        workers.reserve().unwrap().run(move || sender.send(7).unwrap());
        assert_eq!(done.recv(), Ok(7));
        assert_eq!(workers.queued(), 0);
    }

    #[test]
    fn a_full_queue_refuses_jobs_and_queued_jobs_still_run() {
        let workers = Workers::start("test", 1, 2).unwrap();
        let (gate, closed) = channel::<()>();
        let (began, begun) = channel();
        let (sender, done) = channel();
        workers.reserve().unwrap().run(move || {
            began.send(()).unwrap();
            let _ = closed.recv();
        });
        begun.recv().unwrap();
        drop(workers.reserve().unwrap());
        let steps = [(); 3].map(|()| workers.reserve_beyond().unwrap());
        for number in 0..2 {
            let sender = sender.clone();
            workers.reserve().unwrap().run(move || sender.send(number).unwrap());
        }
        assert!(workers.reserve().is_none(), "two wait already");
        assert_eq!(workers.queued(), 5);
        drop(steps);
        workers.reserve_beyond().unwrap().run(move || sender.send(2).unwrap());
        drop(gate);
        drop(workers);
        assert_eq!(done.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }
}
