//! The thread that verifies passwords, and follows the file of the accounts between two of them.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use pellucid_thread::{HandedOver, WaitKind};

use crate::access::accounts::Accounts;
use crate::log::Log;

/// Passwords that may wait to be verified: what one thread does in about a second.
const JOBS_MAX: usize = 64;
/// How often the file is looked at.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce(&Accounts) + Send>;

/// Hands passwords to the thread, which ends with the last of these handles.
#[derive(Clone)]
pub(crate) struct Verifier {
    jobs: SyncSender<Job>,
}

impl Verifier {
    pub(crate) fn start(accounts: Arc<Accounts>, log: Log) -> io::Result<Verifier> {
        let (jobs, received) = sync_channel(JOBS_MAX);
        let run = move || {
            static ACCESS: pellucid_thread::Job = pellucid_thread::Job::new("access");
            let _job = pellucid_thread::start_job(&ACCESS);
            run(&received, &accounts, &log);
        };
        std::thread::Builder::new().name("pellucid-access".to_owned()).spawn(run)?;
        Ok(Verifier { jobs })
    }

    /// Has `verify` done soon, and `then` with its verdict; says no if too many wait. The request
    /// that this thread is at waits for it, first in the queue and then for the verdict.
    #[track_caller]
    pub(crate) fn try_run<V>(
        &self,
        verify: impl FnOnce(&Accounts) -> V + Send + 'static,
        then: impl FnOnce(V) + Send + 'static,
    ) -> bool {
        let put_down = HandedOver::put_down(WaitKind::Thread);
        let job = move |accounts: &Accounts| {
            put_down.count();
            let verdict = verify(accounts);
            // Before its event loop hears of it, which may answer before this thread goes on.
            drop(put_down);
            then(verdict);
        };
        match self.jobs.try_send(Box::new(job)) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }
}

fn run(jobs: &Receiver<Job>, accounts: &Accounts, log: &Log) {
    loop {
        match jobs.recv_timeout(REFRESH_EVERY) {
            Ok(job) => job(accounts),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // One look at the file's metadata: cheap beside a password.
        match accounts.refresh() {
            Ok(false) => {}
            Ok(true) => log.info("the accounts were changed and are in force"),
            Err(error) => log.write(&format!("{error}; those from before stay in force")),
        }
    }
}
