//! The lease of the documents of a store to which several processes write.
//!
//! The process that serves the documents keeps the catalogue in memory: the collections, their
//! numbers, and the indexes that each write has to maintain. Two such processes at once would give
//! out the same numbers, and would not write the entries of indexes that only the other one knows.
//! Conditions on documents do not detect that. So only one process at a time has the lease of a
//! store's documents: an entry with its name, which it renews regularly.
//!
//! Clocks of different machines are never compared. The holder serves for [`SERVES_FOR`] after the
//! beginning of its last successful renewal. Another process takes the lease if it is absent, or if
//! it was unchanged for [`FREE_AFTER`] by that process's own clock. The time between the two is for
//! work that the holder has begun. A process that loses the lease never serves again, because its
//! catalogue may be out of date.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pellucid_account::Timeline;
use pellucid_clock::{Clock, Ticks};
use pellucid_store::{
    Acknowledgement, Condition, Operation, Result as StoreResult, Store, StoreError, Table,
};
use pellucid_thread::{Job, Mutex, PeriodicThread};
use serde::{Deserialize, Serialize};

use crate::error::{DocumentError, ErrorNumber, Result};

/// The table of the lease. It is not the table of the documents, so that copies of those do not
/// contain it.
const TABLE: &str = "document_lease";
const KEY: &[u8] = b"holder";

/// The interval at which a process looks at the lease.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(1);
/// The age at which the holder renews the lease.
const RENEWED_AFTER: Duration = Duration::from_secs(5);
/// The time for which the holder serves after the beginning of a renewal.
pub(crate) const SERVES_FOR: Duration = Duration::from_secs(25);
/// The time for which another process must see the lease unchanged before it takes it. The holder's
/// work must be over by then.
pub(crate) const FREE_AFTER: Duration = Duration::from_secs(60);
/// The largest time limit of a request to the store. A transaction takes at most three times that.
pub const STORE_TIMEOUT_MAX: Duration =
    Duration::from_secs(FREE_AFTER.saturating_sub(SERVES_FOR).as_secs() / 3);

/// The value in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    /// The name in messages.
    name: String,
    /// A random number that tells processes of the same name apart.
    process: u64,
}

/// The lease as one process knows it.
pub(crate) struct Lease {
    store: Arc<dyn Store>,
    table: Table,
    clock: Clock,
    own: Holder,
    /// The time until which this process holds the lease, in ticks; zero if it does not hold it.
    until: AtomicU64,
    /// Held while the store is read or written.
    stored: Mutex<StoredLease>,
    /// Never held during a call of the store, because requests wait for it.
    reasons: Mutex<RefusalReasons>,
}

/// The last known state of the lease in the store.
#[derive(Default)]
struct StoredLease {
    /// The beginning of the last renewal that succeeded, and the sequence number that it wrote.
    renewed: Option<(Ticks, u64)>,
    /// The sequence number of another process's entry, and the time since which it is unchanged.
    seen: Option<(u64, Ticks)>,
    /// True once this process has lost or released the lease.
    is_over: bool,
}

/// Reasons to refuse requests for documents.
#[derive(Default)]
struct RefusalReasons {
    /// The name of the process that holds the lease, or held it last.
    other: Option<String>,
    /// True once this process has lost or released the lease.
    is_lost: bool,
    /// The error of the last look at the lease.
    failure: Option<StoreError>,
}

impl Lease {
    /// The lease for a process of this name; `None` if no other process can write to the store.
    pub(crate) fn of(
        store: &Arc<dyn Store>,
        name: &str,
        clock: Clock,
    ) -> StoreResult<Option<Lease>> {
        // Only stores to which several processes write have such a number.
        if store.replicated().and_then(|store| store.sequence_now()).is_none() {
            return Ok(None);
        }
        let process = RandomState::new().hash_one(std::process::id());
        Ok(Some(Lease {
            store: Arc::clone(store),
            table: store.table(TABLE)?,
            clock,
            own: Holder { name: name.to_owned(), process },
            until: AtomicU64::new(0),
            stored: Mutex::default(),
            reasons: Mutex::default(),
        }))
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.clock.now().0 < self.until.load(Ordering::Acquire)
    }

    /// Renews the lease if that is due, or takes it if it is free. It blocks on the store.
    pub(crate) fn look(&self) -> StoreResult<()> {
        let mut stored = self.stored.lock();
        let looked = self.look_from(&mut stored);
        self.reasons.lock().failure = looked.as_ref().err().cloned();
        looked
    }

    fn look_from(&self, stored: &mut StoredLease) -> StoreResult<()> {
        let began = self.clock.now();
        let is_fresh = |(renewed, _)| self.age(renewed) < RENEWED_AFTER;
        if stored.is_over || stored.renewed.is_some_and(is_fresh) {
            return Ok(());
        }
        let found = self.store.get(self.table, KEY, &mut Timeline::off()).wait()?;
        let found = found.map(|object| (object.head.sequence, holder_of(&object.value)));
        let condition = match found {
            Some((sequence, Some(holder))) if holder == self.own => Condition::Sequence(sequence),
            found if stored.renewed.is_some() => {
                let other = found.and_then(|(_, holder)| holder);
                self.lose(stored, other.map(|holder| holder.name));
                return Ok(());
            }
            None => Condition::Absent,
            Some((sequence, holder)) => {
                self.reasons.lock().other = holder.map(|holder| holder.name);
                let since = match stored.seen {
                    Some((seen, since)) if seen == sequence => since,
                    _ => self.clock.now(),
                };
                stored.seen = Some((sequence, since));
                if self.age(since) < FREE_AFTER {
                    return Ok(());
                }
                Condition::Sequence(sequence)
            }
        };
        match self.write(Some(&self.own), condition) {
            Ok(sequence) => {
                (stored.renewed, stored.seen) = (Some((began, sequence)), None);
                let until = began.0.saturating_add(self.clock.ticks(nanoseconds(SERVES_FOR)));
                self.until.store(until, Ordering::Release);
                Ok(())
            }
            // Another process was faster. The next look reads its entry.
            Err(StoreError::ConditionFailed { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Ends the lease of this process for good.
    fn lose(&self, stored: &mut StoredLease, other: Option<String>) {
        self.until.store(0, Ordering::Release);
        stored.is_over = true;
        let mut reasons = self.reasons.lock();
        (reasons.is_lost, reasons.other) = (true, other);
    }

    /// Removes the lease, so that others need not wait. No use of the documents may follow.
    pub(crate) fn release(&self) {
        let mut stored = self.stored.lock();
        let is_ours = self.is_ours();
        self.lose(&mut stored, None);
        if let Some((_, sequence)) = stored.renewed.filter(|_| is_ours) {
            // If the removal fails, others wait for `FREE_AFTER`.
            let _ = self.write(None, Condition::Sequence(sequence));
        }
    }

    /// Ends the lease of this process but leaves its entry, so that others wait for [`FREE_AFTER`]:
    /// a write of this process may be under way.
    pub(crate) fn abandon(&self) {
        let mut stored = self.stored.lock();
        self.lose(&mut stored, None);
    }

    /// The refusal of a request for documents.
    pub(crate) fn refusal(&self) -> DocumentError {
        let reasons = self.reasons.lock();
        let other = reasons.other.as_deref().unwrap_or("another server");
        let message = match &reasons.failure {
            _ if reasons.is_lost => {
                format!("this server has lost the documents of the store to {other}: restart it")
            }
            Some(failure) => {
                format!("it is unknown who serves the documents of the store: {failure}")
            }
            None => format!(
                "the documents of the store are served by {other}; this server serves entities \
                 alone, and documents once that one has ended"
            ),
        };
        DocumentError::new(ErrorNumber::HTTP_SERVICE_UNAVAILABLE, message)
    }

    fn write(&self, holder: Option<&Holder>, condition: Condition) -> StoreResult<u64> {
        let value = holder.map(serde_json::to_vec).transpose();
        let value = value.map_err(|error| StoreError::Failed(error.to_string()))?;
        let operation =
            Operation { key: KEY, value: value.as_deref(), condition, lifetime_ms: None };
        let mut timeline = Timeline::off();
        let written =
            self.store.write(self.table, &[operation], Acknowledgement::Os, &mut timeline);
        Ok(written.wait()?.sequence)
    }

    fn age(&self, since: Ticks) -> Duration {
        Duration::from_nanos(self.clock.nanoseconds(self.clock.now().since(since)))
    }
}

/// A process that fails to start, or ends, leaves no lease behind.
impl Drop for Lease {
    fn drop(&mut self) {
        self.release();
    }
}

/// Parses the holder in an entry; `None` if it cannot be parsed, such as one of a later version.
fn holder_of(value: &[u8]) -> Option<Holder> {
    serde_json::from_slice(value).ok()
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Starts the thread that looks at a lease regularly.
pub(crate) fn keep(lease: &Arc<Lease>) -> Result<PeriodicThread> {
    static JOB: Job = Job::new("lease");
    let lease = Arc::clone(lease);
    // An error is reported by `Lease::refusal`.
    let look = move || drop(lease.look());
    PeriodicThread::start("pellucid-lease", &JOB, LOOKED_AT_EVERY, look).map_err(|error| {
        let message = format!("cannot start a thread: {error}");
        DocumentError::new(ErrorNumber::INTERNAL, message)
    })
}
