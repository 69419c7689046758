//! Keeps the certificate up to date: it is read again when its files change, and when the operator
//! says so.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_http::{CertificateError, Certificates};
use pellucid_thread::{Job, start_job};

use crate::log::Log;

/// How often the files are looked at.
const LOOK_PAUSE: Duration = Duration::from_secs(5);
/// The name of the thread.
const THREAD: &str = "pellucid-tls";

/// The thread that looks at the files.
pub(crate) struct CertificateWatch {
    certificates: Arc<Certificates>,
    log: Log,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl CertificateWatch {
    pub(crate) fn start(
        certificates: Arc<Certificates>,
        log: Log,
    ) -> std::io::Result<CertificateWatch> {
        let (stop, stopped) = channel();
        let (watched, lines) = (Arc::clone(&certificates), log.clone());
        let run = move || {
            static CERTIFICATES: Job = Job::new("certificates");
            let _job = start_job(&CERTIFICATES);
            while stopped.recv_timeout(LOOK_PAUSE) == Err(RecvTimeoutError::Timeout) {
                if let Some(outcome) = watched.reload_if_changed() {
                    report(&lines, outcome);
                }
            }
        };
        let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(run)?;
        Ok(CertificateWatch { certificates, log, stop: Some(stop), thread: Some(thread) })
    }

    /// Reads the files now, whether they changed or not.
    pub(crate) fn reload(&self) {
        report(&self.log, self.certificates.reload());
    }
}

impl Drop for CertificateWatch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

fn report(log: &Log, outcome: Result<(), CertificateError>) {
    match outcome {
        Ok(()) => log.info("new connections get the certificate that was read just now"),
        Err(error) => log.write(&format!("the certificate stays what it was: {error}")),
    }
}
