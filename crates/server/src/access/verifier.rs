//! The thread that verifies passwords. After each, and at least every second, it also reads the
//! file of the accounts if that has changed. [`Attempts`] limits the passwords that wait.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use pellucid_clock::{Clock, Stopwatch};
use pellucid_http::ClientOrigin;
use pellucid_thread::{Mutex, ParkedWork, WaitKind};

use crate::access::accounts::Accounts;
use crate::access::attempts::{Attempts, PENDING_MAX, RateLimitError};
use crate::access::credentials::Credentials;
use crate::access::identity::Identity;
use crate::access::verification_cache::Digest;
use crate::log::{Log, RepeatedFailure};

/// The longest time between two checks of the file for changes.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// A password in the queue of the thread.
struct Attempt {
    digest: Digest,
    origin: ClientOrigin,
    name: String,
    password: String,
}

/// A handle that passes passwords to the thread. The thread ends when the last handle is dropped.
#[derive(Clone)]
pub(crate) struct Verifier {
    accounts: Arc<Accounts>,
    attempts: Arc<Mutex<Attempts>>,
    queue: SyncSender<Attempt>,
    /// The stopwatch since the start, by which attempts are timed.
    time: Stopwatch,
}

impl Verifier {
    pub(crate) fn start(accounts: Arc<Accounts>, log: Log) -> io::Result<Verifier> {
        let (queue, received) = sync_channel(PENDING_MAX);
        let attempts = Arc::new(Mutex::new(Attempts::default()));
        let time = Clock::system().stopwatch();
        let verifier = Verifier { accounts, attempts, queue, time };
        let (accounts, attempts) = (Arc::clone(&verifier.accounts), Arc::clone(&verifier.attempts));
        let run = move || {
            static ACCESS: pellucid_thread::Job = pellucid_thread::Job::new("access");
            let _job = pellucid_thread::start_job(&ACCESS);
            // Requests that need no verification go first. If the kernel refuses this, the thread
            // runs at the usual priority.
            let _ = pellucid_thread::schedule_for_background();
            run(&received, &accounts, (&attempts, time), &log);
        };
        std::thread::Builder::new().name("pellucid-access".to_owned()).spawn(run)?;
        Ok(verifier)
    }

    /// As [`Verifier::verify`], for the name and password in a header `Authorization`. A header
    /// without them gives `None` at once.
    #[track_caller]
    pub(crate) fn verify_header(
        &self,
        authorization: &[u8],
        from: Option<IpAddr>,
        then: impl FnOnce(Option<Identity>) + Send + 'static,
    ) -> Result<(), RateLimitError> {
        match Credentials::parse(authorization) {
            Some(Credentials::Basic { name, password }) => self.verify(name, password, from, then),
            Some(Credentials::Bearer(_)) | None => {
                then(None);
                Ok(())
            }
        }
    }

    /// Queues a name and password from the address `from`. The thread later calls `then` with the
    /// account, or with `None` if the password is wrong. The profile of waits counts the time as a
    /// wait of the present request.
    ///
    /// # Errors
    /// If too many passwords wait, or there were too many wrong ones for this name; `then` is not
    /// called.
    #[track_caller]
    pub(crate) fn verify(
        &self,
        name: String,
        password: String,
        from: Option<IpAddr>,
        then: impl FnOnce(Option<Identity>) + Send + 'static,
    ) -> Result<(), RateLimitError> {
        let put_down = ParkedWork::put_down(WaitKind::Thread);
        let waiter = move |identity| {
            // Ends the wait before `then` tells the event loop, which may answer at once.
            put_down.end();
            then(identity);
        };
        let (digest, origin) = (self.accounts.digest(&name, &password), ClientOrigin::of(from));
        let mut attempts = self.attempts.lock();
        let is_first =
            attempts.enter(digest, &name, origin, Box::new(waiter), now_by(self.time))?;
        // This fails only if the thread has ended: `attempts` admits no more than the queue holds.
        if is_first && self.queue.try_send(Attempt { digest, origin, name, password }).is_err() {
            attempts.leave(digest, origin, true, now_by(self.time));
            return Err(RateLimitError { seconds: 1 });
        }
        Ok(())
    }
}

fn now_by(time: Stopwatch) -> Duration {
    Duration::from_nanos(time.elapsed_ns())
}

/// The loop of the thread.
fn run(
    queue: &Receiver<Attempt>,
    accounts: &Accounts,
    (attempts, time): (&Mutex<Attempts>, Stopwatch),
    log: &Log,
) {
    let mut trouble = RepeatedFailure::default();
    loop {
        match queue.recv_timeout(REFRESH_EVERY) {
            Ok(Attempt { digest, origin, name, password }) => {
                let identity = accounts.verify_password(&name, &password);
                let mut attempts = attempts.lock();
                let waiters = attempts.leave(digest, origin, identity.is_some(), now_by(time));
                drop(attempts);
                waiters.into_iter().for_each(|waiter| waiter(identity.clone()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // This reads only the metadata if nothing has changed: cheap compared with a password.
        match accounts.refresh() {
            Ok(false) => {}
            Ok(true) => {
                trouble = RepeatedFailure::default();
                log.info("the accounts were changed and are in force");
            }
            Err(error) => trouble.tell(log, format!("{error}; those from before stay in force")),
        }
    }
}
