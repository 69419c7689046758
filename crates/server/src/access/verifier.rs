//! The thread that verifies passwords, and follows the file of the accounts between two of them.
//! How many may wait for it, and who, is the business of [`Attempts`].

use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pellucid_clock::{Clock, Stopwatch};
use pellucid_thread::{HandedOver, Mutex, WaitKind};

use crate::access::accounts::Accounts;
use crate::access::attempts::{Attempts, Origin, PENDING_MAX, TooMany};
use crate::access::credentials::Credentials;
use crate::access::identity::Identity;
use crate::access::verified::Digest;
use crate::log::{Log, Trouble};

/// The time between two looks at the file.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// A password that is to be verified.
struct Attempt {
    digest: Digest,
    origin: Origin,
    name: String,
    password: String,
}

/// Hands passwords to the thread, which ends with the last of these handles.
#[derive(Clone)]
pub(crate) struct Verifier {
    accounts: Arc<Accounts>,
    attempts: Arc<Mutex<Attempts>>,
    queue: SyncSender<Attempt>,
    /// The time of attempts, since its start.
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
            // Requests of those who are known go before; a system that refuses makes it no worse.
            let _ = pellucid_thread::schedule_for_background();
            run(&received, &accounts, (&attempts, time), &log);
        };
        std::thread::Builder::new().name("pellucid-access".to_owned()).spawn(run)?;
        Ok(verifier)
    }

    /// As [`Verifier::verify`], with a name and password as the header `Authorization` has them.
    #[track_caller]
    pub(crate) fn verify_header(
        &self,
        authorization: &[u8],
        from: Option<IpAddr>,
        then: impl FnOnce(Option<Identity>) + Send + 'static,
    ) -> Result<(), TooMany> {
        match Credentials::parse(authorization) {
            Some(Credentials::Basic { name, password }) => self.verify(name, password, from, then),
            Some(Credentials::Bearer(_)) | None => {
                then(None);
                Ok(())
            }
        }
    }

    /// Has a name and password from this address verified soon, and `then` called with whose they
    /// are. The request that this thread is at waits for it.
    ///
    /// # Errors
    /// If too many wait, or this name has to wait; `then` is not called.
    #[track_caller]
    pub(crate) fn verify(
        &self,
        name: String,
        password: String,
        from: Option<IpAddr>,
        then: impl FnOnce(Option<Identity>) + Send + 'static,
    ) -> Result<(), TooMany> {
        let put_down = HandedOver::put_down(WaitKind::Thread);
        let waiter = move |identity| {
            // Before its event loop hears of it, which may answer before this thread goes on.
            put_down.end();
            then(identity);
        };
        let (digest, origin) = (self.accounts.digest(&name, &password), Origin::of(from));
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first =
            attempts.enter(digest, &name, origin, Box::new(waiter), now_by(self.time))?;
        // There are no more of them than the queue has room for.
        if is_first && self.queue.try_send(Attempt { digest, origin, name, password }).is_err() {
            attempts.leave(digest, origin, true, now_by(self.time));
            return Err(TooMany { seconds: 1 });
        }
        Ok(())
    }
}

fn now_by(time: Stopwatch) -> Duration {
    Duration::from_nanos(time.elapsed_ns())
}

fn run(
    queue: &Receiver<Attempt>,
    accounts: &Accounts,
    (attempts, time): (&Mutex<Attempts>, Stopwatch),
    log: &Log,
) {
    let mut trouble = Trouble::default();
    loop {
        match queue.recv_timeout(REFRESH_EVERY) {
            Ok(Attempt { digest, origin, name, password }) => {
                let identity = accounts.verify_password(&name, &password);
                let mut attempts = attempts.lock().unwrap_or_else(PoisonError::into_inner);
                let waiters = attempts.leave(digest, origin, identity.is_some(), now_by(time));
                drop(attempts);
                waiters.into_iter().for_each(|waiter| waiter(identity.clone()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // One look at the file's metadata: cheap beside a password.
        match accounts.refresh() {
            Ok(false) => {}
            Ok(true) => {
                trouble = Trouble::default();
                log.info("the accounts were changed and are in force");
            }
            Err(error) => trouble.tell(log, format!("{error}; those from before stay in force")),
        }
    }
}
