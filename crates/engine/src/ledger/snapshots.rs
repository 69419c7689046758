//! Versions of keys that may still be read: the newest published ones, and those of snapshots.

use std::cmp::Ordering as Order;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_thread::Mutex;

use super::{Entry, EntryKind, Verdict};

/// The published sequence number and the registered snapshots.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    published: AtomicU64,
    /// The number of snapshots at each sequence number, ascending.
    registered: Mutex<Vec<(u64, usize)>>,
}

impl Snapshots {
    /// Makes everything up to `sequence` visible to readers.
    #[inline]
    pub(crate) fn publish(&self, sequence: u64) {
        // Release: a reader that loads the number sees the entries up to it.
        self.published.store(sequence, Ordering::Release);
    }

    /// The highest sequence number that readers see.
    #[inline]
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Registers a snapshot at the published sequence number.
    pub(crate) fn register(self: &Arc<Self>) -> SnapshotGuard {
        let mut registered = self.registered.lock();
        // Loaded under the lock, so that a retention made later knows of the snapshot, and one made
        // earlier drops nothing that the snapshot sees.
        let sequence = self.published();
        // The published sequence number never decreases.
        match registered.last_mut().filter(|(last, _)| *last == sequence) {
            Some((_, count)) => *count += 1,
            None => registered.push((sequence, 1)),
        }
        SnapshotGuard { snapshots: Arc::clone(self), sequence }
    }

    /// The number of registered snapshots.
    pub(crate) fn registered(&self) -> usize {
        self.registered.lock().iter().map(|one| one.1).sum()
    }

    /// The sequence numbers at which readers may still read.
    pub(crate) fn view(&self) -> VisibleSequences {
        let registered = self.registered.lock();
        let snapshots = registered.iter().map(|(sequence, _)| *sequence).collect();
        VisibleSequences { published: self.published(), snapshots }
    }

    /// The retention rule as of now; `now_ms` decides which entries have expired.
    pub(crate) fn retention(&self, now_ms: u64) -> Retention {
        Retention { view: self.view(), now_ms, key: Vec::new(), newer: None }
    }
}

/// The sequence numbers at which readers may still read: the published one, and those of snapshots.
#[derive(Clone, Debug)]
pub(crate) struct VisibleSequences {
    /// The published sequence number: new readers see everything up to it.
    pub(crate) published: u64,
    /// The sequence numbers of the snapshots, ascending.
    pub(crate) snapshots: Vec<u64>,
}

/// Keeps the versions that a snapshot sees until it is dropped.
#[derive(Debug)]
pub(crate) struct SnapshotGuard {
    snapshots: Arc<Snapshots>,
    sequence: u64,
}

impl SnapshotGuard {
    /// The sequence number at which the snapshot reads.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Drop for SnapshotGuard {
    fn drop(&mut self) {
        let registered = &self.snapshots.registered;
        let mut registered = registered.lock();
        let at = registered.binary_search_by_key(&self.sequence, |(sequence, _)| *sequence);
        let at = at.expect("a guard is counted until it drops");
        registered[at].1 -= 1;
        if registered[at].1 == 0 {
            registered.remove(at);
        }
    }
}

/// Decides which entries a flush or merge may drop; it is given all of them in order.
///
/// An entry is dropped if the next newer version of its key is published, and no snapshot sees the
/// entry but not the newer version. A tombstone is dropped if no older version of its key can be
/// left: no deeper level holds the key, and no snapshot sees an older version. An expired value is
/// treated like a tombstone: no read shows it any more, not even one through a snapshot, but it
/// hides older versions.
#[derive(Debug)]
pub(crate) struct Retention {
    view: VisibleSequences,
    /// The time at which expiry is judged, in milliseconds since the Unix epoch.
    now_ms: u64,
    /// The key of the previous entry.
    key: Vec<u8>,
    /// The sequence number of the previous entry, if it has the same key.
    newer: Option<u64>,
}

impl Retention {
    /// Decides about the next entry. `is_deepest` tells whether no deeper level may hold its key;
    /// it is called only for tombstones and expired values.
    pub(crate) fn judge(
        &mut self,
        entry: &Entry<'_>,
        is_deepest: impl FnOnce() -> bool,
    ) -> Verdict {
        if self.newer.is_none() || self.key != entry.key {
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.newer = None;
        }
        let newer = self.newer.replace(entry.sequence);
        let shadowed = newer.is_some_and(|newer| {
            assert!(newer > entry.sequence, "versions of a key come newest first");
            newer <= self.view.published && !self.snapshot_within(entry.sequence, newer)
        });
        let has_expired = entry.expires_at_ms != 0 && entry.expires_at_ms <= self.now_ms;
        let gone = || {
            (entry.kind == EntryKind::Delete || has_expired)
                && entry.sequence <= self.view.published
                && self.view.snapshots.first().is_none_or(|oldest| *oldest >= entry.sequence)
        };
        if shadowed {
            Verdict::Shadowed
        } else if gone() && is_deepest() {
            Verdict::Gone
        } else {
            Verdict::Kept
        }
    }

    /// True if `entry` may follow the previous one in the order of ascending keys and descending
    /// sequence numbers.
    pub(crate) fn is_followed_by(&self, entry: &Entry<'_>) -> bool {
        self.newer.is_none_or(|newer| match self.key[..].cmp(entry.key) {
            Order::Less => true,
            Order::Equal => entry.sequence < newer,
            Order::Greater => false,
        })
    }

    /// True if a snapshot reads at a sequence number in `from..to`.
    fn snapshot_within(&self, from: u64, to: u64) -> bool {
        let snapshots = &self.view.snapshots;
        let at = snapshots.partition_point(|snapshot| *snapshot < from);
        snapshots.get(at).is_some_and(|snapshot| *snapshot < to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Retention {
        fn drops(&mut self, entry: &Entry<'_>, is_deepest: impl FnOnce() -> bool) -> bool {
            self.judge(entry, is_deepest) != Verdict::Kept
        }
    }

    fn entry(key: &[u8], sequence: u64, kind: EntryKind) -> Entry<'_> {
        Entry { key, sequence, kind, ..Entry::NOTHING }
    }

    #[test]
    fn versions_that_snapshots_and_new_readers_see_are_kept() {
        let snapshots = Arc::new(Snapshots::default());
        snapshots.publish(4);
        let guard = snapshots.register();
        snapshots.publish(8);
        let mut retention = snapshots.retention(0);
        let mut drops = |sequence| {
            let put = entry(b"a", sequence, EntryKind::Put);
            retention.judge(&put, || true) != Verdict::Kept
        };
        assert!(!drops(10), "the newest");
        assert!(!drops(9), "10 is not published, so a reader at 9 may come");
        assert!(!drops(7), "9 is not published, so a reader at 8 may come");
        assert!(drops(5), "7 is published, and the snapshot at 4 does not see 5");
        assert!(!drops(3), "the snapshot at 4 sees it");
        assert!(drops(2), "nobody sees it");
        drop(guard);
        assert_eq!(snapshots.registered(), 0);
        let mut retention = snapshots.retention(0);
        assert!(!retention.drops(&entry(b"a", 5, EntryKind::Put), || true));
        assert!(retention.drops(&entry(b"a", 3, EntryKind::Put), || true));
        assert!(!retention.drops(&entry(b"b", 2, EntryKind::Put), || true), "another key");
    }

    /// Regression: a snapshot could be registered behind a newer one, and was then taken for newer.
    #[test]
    fn snapshots_registered_at_once_stay_in_order() {
        let snapshots = Arc::new(Snapshots::default());
        let register = || {
            for _ in 0..if cfg!(miri) { 30 } else { 20_000 } {
                let guard = snapshots.register();
                let registered = snapshots.view().snapshots;
                assert!(registered.is_sorted(), "{registered:?}");
                assert!(registered.contains(&guard.sequence()));
            }
        };
        std::thread::scope(|scope| {
            let threads = [scope.spawn(register), scope.spawn(register)];
            let mut sequence = 0;
            while threads.iter().any(|thread| !thread.is_finished()) {
                sequence += 1;
                snapshots.publish(sequence);
            }
        });
        assert_eq!(snapshots.registered(), 0);
    }

    /// Regression, found by the fuzz target `store`: a merge of a table with valid checksums, but
    /// with keys out of order, ended the process.
    #[test]
    fn entries_out_of_order_are_noticed() {
        let mut retention = Arc::new(Snapshots::default()).retention(0);
        assert!(retention.is_followed_by(&entry(b"a", 1, EntryKind::Put)), "nothing came before");
        retention.drops(&entry(b"b", 5, EntryKind::Put), || false);
        assert!(retention.is_followed_by(&entry(b"b", 4, EntryKind::Put)));
        assert!(retention.is_followed_by(&entry(b"c", 9, EntryKind::Put)));
        assert!(!retention.is_followed_by(&entry(b"b", 5, EntryKind::Put)));
        assert!(!retention.is_followed_by(&entry(b"a", 1, EntryKind::Put)));
    }

    /// badger#2143: a tombstone that is dropped before what it hides brings a deleted key back.
    #[test]
    fn a_tombstone_stays_while_something_older_may_be_left() {
        let snapshots = Arc::new(Snapshots::default());
        snapshots.publish(4);
        let guard = snapshots.register();
        snapshots.publish(9);
        let tombstone = entry(b"a", 6, EntryKind::Delete);
        assert!(!snapshots.retention(0).drops(&tombstone, || true), "the snapshot keeps the older");
        drop(guard);
        assert!(snapshots.retention(0).drops(&tombstone, || true));
        assert!(!snapshots.retention(0).drops(&tombstone, || false), "a deeper level may hold it");
        let coming = entry(b"a", 10, EntryKind::Delete);
        assert!(!snapshots.retention(0).drops(&coming, || true), "not published yet");
    }

    /// An expired value hides older versions as long as there are any.
    #[test]
    fn an_expired_value_is_dropped_like_a_tombstone() {
        let snapshots = Arc::new(Snapshots::default());
        snapshots.publish(4);
        let guard = snapshots.register();
        snapshots.publish(9);
        let expired = Entry { expires_at_ms: 1_000, ..entry(b"a", 6, EntryKind::Put) };
        let judge = |now_ms, is_deepest| snapshots.retention(now_ms).judge(&expired, || is_deepest);
        assert_eq!(judge(1_000, true), Verdict::Kept, "the snapshot keeps the older");
        drop(guard);
        assert_eq!(judge(999, true), Verdict::Kept, "not yet expired");
        assert_eq!(judge(1_000, true), Verdict::Gone);
        assert_eq!(judge(1_000, false), Verdict::Kept, "a deeper level may hold something older");
    }
}
