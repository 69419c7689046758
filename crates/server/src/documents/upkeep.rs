//! The thread that removes garbage, and expired documents and cursors. While another process serves
//! the documents of the store, it only removes expired cursors and tries to take over.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pellucid_clock::WallTime;
use pellucid_document::Documents;
use pellucid_thread::{Job, Recurring};

use crate::log::Log;

use super::cursors::{Cursors, uptime_ms};

/// The interval at which expired documents are removed, in steps of [`REST`].
const STEPS_BETWEEN_EXPIRIES: u32 = 30;

/// The time between two steps.
const REST: Duration = Duration::from_secs(1);

/// The most removals in a row within one step.
const STEPS_MAX: usize = 64;

/// Starts the thread.
pub(super) fn start(
    documents: &Arc<Documents>,
    cursors: &Arc<Cursors>,
    log: Log,
) -> io::Result<Recurring> {
    static UPKEEP: Job = Job::new("upkeep");
    let (documents, cursors) = (Arc::clone(documents), Arc::clone(cursors));
    let (mut step, mut refusal) = (0, None);
    Recurring::start("pellucid-upkeep", &UPKEEP, REST, move || {
        cursors.remove_expired(uptime_ms());
        step = (step + 1) % STEPS_BETWEEN_EXPIRIES;
        let refused = documents.serve().err().map(|error| error.to_string());
        if refused != refusal {
            let served = "the documents of the store are served by this server now";
            log.write(refused.as_deref().unwrap_or(served));
            refusal = refused;
        }
        if refusal.is_some() {
            return;
        }
        if let Err(error) = look_after(&documents, step == 0) {
            log.write(&format!("the upkeep of documents failed: {error}"));
        }
    })
}

fn look_after(documents: &Arc<Documents>, expires: bool) -> pellucid_document::Result<()> {
    let cleared = remove_garbage(documents);
    if expires {
        let now_seconds = WallTime::now().unix_ms() as f64 / 1e3;
        for _ in 0..STEPS_MAX {
            if pellucid_document::remove_expired(documents, now_seconds)? == 0 {
                break;
            }
        }
    }
    cleared
}

fn remove_garbage(documents: &Arc<Documents>) -> pellucid_document::Result<()> {
    for _ in 0..STEPS_MAX {
        if !documents.remove_garbage()? {
            break;
        }
    }
    Ok(())
}
