//! A thread that repeats a step with pauses in between, until its handle is dropped.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::activity::{Job, start_job};
use crate::condvar::Condvar;
use crate::lock::Mutex;

/// The flag that the handle is dropped, and the condition at which the thread pauses.
type StopSignal = (Mutex<bool>, Condvar);

/// The handle of a thread that repeats a step. Dropping it ends the pause, waits for a step that is
/// under way, and ends the thread.
#[must_use = "the thread ends when this is dropped"]
pub struct PeriodicThread {
    stop: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
}

impl PeriodicThread {
    /// Starts a thread called `name` that pauses and calls `step` in turns, labelled with `job`.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start(
        name: &str,
        job: &'static Job,
        pause: Duration,
        mut step: impl FnMut() + Send + 'static,
    ) -> io::Result<PeriodicThread> {
        let stop = Arc::new((Mutex::new(false), Condvar::for_work()));
        let stopped = Arc::clone(&stop);
        let run = move || {
            let _job = start_job(job);
            while !is_over_after(&stopped, pause) {
                step();
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(PeriodicThread { stop, thread: Some(thread) })
    }
}

impl Drop for PeriodicThread {
    fn drop(&mut self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn is_over_after(stop: &StopSignal, pause: Duration) -> bool {
    let stopped = stop.0.lock();
    let waited = stop.1.wait_timeout_while(stopped, pause, |stopped| !*stopped);
    *waited.0
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{TryRecvError, channel};

    use super::*;

    static JOB: Job = Job::new("recurring");

    #[test]
    fn steps_repeat_until_the_handle_is_dropped() {
        let (done, steps) = channel();
        let step = move || done.send(()).unwrap();
        let thread =
            PeriodicThread::start("recurring", &JOB, Duration::from_millis(1), step).unwrap();
        (0..3).for_each(|_| steps.recv().unwrap());
        drop(thread);
        // Earlier messages may still be in the channel, but the thread with its sender is gone.
        while steps.try_recv().is_ok() {}
        assert_eq!(steps.try_recv(), Err(TryRecvError::Disconnected));
    }

    #[test]
    fn dropping_the_handle_does_not_wait_for_the_pause() {
        let began = std::time::Instant::now();
        drop(PeriodicThread::start("recurring", &JOB, Duration::from_secs(3_600), || {}).unwrap());
        assert!(began.elapsed() < Duration::from_secs(1_800));
    }
}
