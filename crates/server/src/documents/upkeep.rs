//! The thread that removes what was given up, and documents and cursors whose time is over.

use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_clock::WallTime;
use pellucid_document::Documents;
use pellucid_thread::{Condvar, Job, Mutex, start_job};

use crate::log::Log;

use super::api::DocumentApi;

/// Time between two looks for documents whose time is over, in steps of [`REST`].
const STEPS_BETWEEN_EXPIRIES: u32 = 30;

/// Time between two steps.
const REST: Duration = Duration::from_secs(1);

/// Steps of removal in a row before the thread rests for a moment.
const STEPS_MAX: usize = 64;

/// See the module. It ends with this handle.
pub(crate) struct Upkeep {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    pub(crate) fn start(api: &DocumentApi, log: Log) -> io::Result<Upkeep> {
        let (documents, queries) = (Arc::clone(&api.documents), Arc::clone(&api.queries));
        let stop = Arc::new((Mutex::new(false), Condvar::for_work()));
        let stopped = Arc::clone(&stop);
        let run = move || {
            static UPKEEP: Job = Job::new("upkeep");
            let _job = start_job(&UPKEEP);
            let mut step = 0;
            while !rest(&stopped) {
                queries.remove_expired(WallTime::now().unix_ms());
                step = (step + 1) % STEPS_BETWEEN_EXPIRIES;
                if let Err(error) = look_after(&documents, step == 0) {
                    log.write(&format!("the upkeep of documents failed: {error}"));
                }
            }
        };
        let thread = std::thread::Builder::new().name("pellucid-upkeep".to_owned()).spawn(run)?;
        Ok(Upkeep { stop, thread: Some(thread) })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Waits for the next step; says whether it is over.
fn rest(stop: &(Mutex<bool>, Condvar)) -> bool {
    let stopped = stop.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = stop.1.wait_timeout_while(stopped, REST, |stopped| !*stopped);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}

fn look_after(documents: &Arc<Documents>, expires: bool) -> pellucid_document::Result<()> {
    for _ in 0..STEPS_MAX {
        if !documents.remove_garbage()? {
            break;
        }
    }
    if expires {
        let now_seconds = WallTime::now().unix_ms() as f64 / 1e3;
        for _ in 0..STEPS_MAX {
            if documents.remove_expired(now_seconds)? == 0 {
                break;
            }
        }
    }
    Ok(())
}
