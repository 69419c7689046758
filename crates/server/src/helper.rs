//! A thread for what would hold up an event loop: adding up the account, writing metrics.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use pellucid_thread::{run_contained, start_job};

/// Jobs that may wait. They come from people and scrapers, so few are many.
const JOBS_MAX: usize = 32;

static PAGES: pellucid_thread::Job = pellucid_thread::Job::new("pages");

type Job = Box<dyn FnOnce() + Send>;

/// Hands jobs to the helper thread, which ends with the last of these handles.
#[derive(Clone)]
pub(crate) struct Helper {
    jobs: SyncSender<Job>,
}

impl Helper {
    pub(crate) fn start() -> io::Result<Helper> {
        let (jobs, received): (SyncSender<Job>, Receiver<Job>) = sync_channel(JOBS_MAX);
        let run = move || {
            let _job = start_job(&PAGES);
            received.into_iter().for_each(run_contained);
        };
        std::thread::Builder::new().name("pellucid-helper".to_owned()).spawn(run)?;
        Ok(Helper { jobs })
    }

    /// Has `job` done soon; says no if too many wait.
    pub(crate) fn try_run(&self, job: impl FnOnce() + Send + 'static) -> bool {
        match self.jobs.try_send(Box::new(job)) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }
}
