//! Keeps the TLS certificate up to date: reads it again when its files change, and when the
//! operator asks for it.

use std::sync::Arc;
use std::time::Duration;

use pellucid_http::{CertificateError, Certificates};
use pellucid_thread::{Job, PeriodicThread};

use crate::log::{Log, RepeatedFailure};

/// The interval at which the files are checked for changes.
const LOOK_PAUSE: Duration = Duration::from_secs(5);
/// The name of the watching thread.
const THREAD: &str = "pellucid-tls";

/// The thread that watches the certificate's files. It ends when this is dropped.
pub(crate) struct CertificateWatch {
    certificates: Arc<Certificates>,
    log: Log,
    _watch: PeriodicThread,
}

impl CertificateWatch {
    pub(crate) fn start(
        certificates: Arc<Certificates>,
        log: Log,
    ) -> std::io::Result<CertificateWatch> {
        static CERTIFICATES: Job = Job::new("certificates");
        let (watched, lines) = (Arc::clone(&certificates), log.clone());
        let mut trouble = RepeatedFailure::default();
        let watch = PeriodicThread::start(THREAD, &CERTIFICATES, LOOK_PAUSE, move || {
            if let Some(outcome) = watched.reload_if_changed() {
                report(&lines, outcome, &mut trouble);
            }
        })?;
        Ok(CertificateWatch { certificates, log, _watch: watch })
    }

    /// Reads the files now, even if they have not changed, and logs the outcome.
    pub(crate) fn reload(&self) {
        report(&self.log, self.certificates.reload(), &mut RepeatedFailure::default());
    }
}

fn report(log: &Log, outcome: Result<(), CertificateError>, trouble: &mut RepeatedFailure) {
    match outcome {
        Ok(()) => {
            *trouble = RepeatedFailure::default();
            log.info("new connections get the certificate that was read just now");
        }
        Err(error) => trouble.tell(log, format!("the certificate stays what it was: {error}")),
    }
}
