//! The versions of a key that somebody may still read: the published ones, and the snapshots'.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use pellucid_thread::Mutex;

use super::{Entry, Kind, Verdict};

/// The published sequence number and the registered snapshots.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    published: AtomicU64,
    /// The number of snapshots at each sequence number, ascending.
    registered: Mutex<Vec<(u64, usize)>>,
}

impl Snapshots {
    /// Lets readers see everything up to `sequence`.
    #[inline]
    pub(crate) fn publish(&self, sequence: u64) {
        // Release: whoever loads the number sees the entries up to it.
        self.published.store(sequence, Ordering::Release);
    }

    /// The highest sequence number that readers see.
    #[inline]
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Registers a snapshot at the published sequence number.
    pub(crate) fn register(self: &Arc<Self>) -> SnapshotGuard {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that a retention made later knows of the snapshot and one made earlier
        // drops nothing that it sees.
        let sequence = self.published();
        // What is published only rises.
        match registered.last_mut().filter(|(last, _)| *last == sequence) {
            Some((_, count)) => *count += 1,
            None => registered.push((sequence, 1)),
        }
        SnapshotGuard { snapshots: Arc::clone(self), sequence }
    }

    /// Number of registered snapshots.
    pub(crate) fn registered(&self) -> usize {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|one| one.1).sum()
    }

    /// The versions that can still be asked for.
    pub(crate) fn view(&self) -> View {
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshots = registered.iter().map(|(sequence, _)| *sequence).collect();
        View { published: self.published(), snapshots }
    }

    /// The rule of what may be dropped, as of now; `now_ms` tells what has expired.
    pub(crate) fn retention(&self, now_ms: u64) -> Retention {
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        Retention {
            published: self.published(),
            snapshots: registered.iter().map(|(sequence, _)| *sequence).collect(),
            now_ms,
            key: Vec::new(),
            newer: None,
        }
    }
}

/// The versions that can still be asked for: the newest, and those of snapshots.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Readers that come see everything up to it.
    pub(crate) published: u64,
    /// The sequence numbers that snapshots read at, ascending.
    pub(crate) snapshots: Vec<u64>,
}

/// Keeps the versions that a snapshot sees for as long as it lives.
#[derive(Debug)]
pub(crate) struct SnapshotGuard {
    snapshots: Arc<Snapshots>,
    sequence: u64,
}

impl SnapshotGuard {
    /// The sequence number that the snapshot reads at.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Drop for SnapshotGuard {
    fn drop(&mut self) {
        let registered = &self.snapshots.registered;
        let mut registered = registered.lock().unwrap_or_else(PoisonError::into_inner);
        let at = registered.binary_search_by_key(&self.sequence, |(sequence, _)| *sequence);
        let at = at.expect("a guard is counted until it drops");
        registered[at].1 -= 1;
        if registered[at].1 == 0 {
            registered.remove(at);
        }
    }
}

/// Decides, entry by entry in order, what a flush or merge may drop.
///
/// An entry goes if the next newer version of its key is published, and no snapshot sees the one
/// but not the other. A tombstone goes if nothing older can be left of its key: no deeper level
/// holds the key, and no snapshot sees what was before the tombstone. A value that has expired goes
/// as a tombstone does: no read shows it any more, not even a snapshot's, but it hides what is
/// older.
#[derive(Debug)]
pub(crate) struct Retention {
    published: u64,
    /// Ascending.
    snapshots: Vec<u64>,
    /// Entries that expire up to then have expired, in milliseconds since the Unix epoch.
    now_ms: u64,
    /// The key of the entry before.
    key: Vec<u8>,
    /// The sequence number of the entry before, if it has the same key.
    newer: Option<u64>,
}

impl Retention {
    /// True if `entry` may be dropped. `is_deepest` tells whether no deeper level may hold its key;
    /// it is asked for tombstones and expired values only.
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
            newer <= self.published && !self.snapshot_within(entry.sequence, newer)
        });
        let has_expired = entry.expires_at_ms != 0 && entry.expires_at_ms <= self.now_ms;
        let gone = || {
            (entry.kind == Kind::Delete || has_expired)
                && entry.sequence <= self.published
                && self.snapshots.first().is_none_or(|oldest| *oldest >= entry.sequence)
        };
        if shadowed {
            Verdict::Shadowed
        } else if gone() && is_deepest() {
            Verdict::Gone
        } else {
            Verdict::Kept
        }
    }

    /// True if `entry` comes after the one before in the order: key ascending, sequence number
    /// descending.
    pub(crate) fn is_followed_by(&self, entry: &Entry<'_>) -> bool {
        self.newer.is_none_or(|newer| match self.key[..].cmp(entry.key) {
            Order::Less => true,
            Order::Equal => entry.sequence < newer,
            Order::Greater => false,
        })
    }

    /// True if a snapshot reads at a sequence number from `from` to below `to`.
    fn snapshot_within(&self, from: u64, to: u64) -> bool {
        let at = self.snapshots.partition_point(|snapshot| *snapshot < from);
        self.snapshots.get(at).is_some_and(|snapshot| *snapshot < to)
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

    fn entry(key: &[u8], sequence: u64, kind: Kind) -> Entry<'_> {
        let (value_length, stored_length, written_at_ms, expires_at_ms) = (0, 0, 0, 0);
        let (head, value): (&[u8], _) = (&[], None);
        Entry {
            key,
            sequence,
            kind,
            value_length,
            stored_length,
            written_at_ms,
            expires_at_ms,
            head,
            value,
        }
    }

    #[test]
    fn keeps_what_snapshots_and_coming_readers_see() {
        let snapshots = Arc::new(Snapshots::default());
        snapshots.publish(4);
        let guard = snapshots.register();
        snapshots.publish(8);
        let mut retention = snapshots.retention(0);
        let mut drops = |sequence| {
            let put = entry(b"a", sequence, Kind::Put);
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
        assert!(!retention.drops(&entry(b"a", 5, Kind::Put), || true));
        assert!(retention.drops(&entry(b"a", 3, Kind::Put), || true));
        assert!(!retention.drops(&entry(b"b", 2, Kind::Put), || true), "another key");
    }

    /// A snapshot that was registered after a newer one stood behind it, and was taken for that.
    #[test]
    fn snapshots_stay_in_order_whoever_registers_meanwhile() {
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

    /// Found by the fuzz target `store`: a merge of a table that was out of order, with its
    /// checksums right, ended the process.
    #[test]
    fn what_is_out_of_order_is_noticed() {
        let mut retention = Arc::new(Snapshots::default()).retention(0);
        assert!(retention.is_followed_by(&entry(b"a", 1, Kind::Put)), "nothing came before");
        retention.drops(&entry(b"b", 5, Kind::Put), || false);
        assert!(retention.is_followed_by(&entry(b"b", 4, Kind::Put)));
        assert!(retention.is_followed_by(&entry(b"c", 9, Kind::Put)));
        assert!(!retention.is_followed_by(&entry(b"b", 5, Kind::Put)));
        assert!(!retention.is_followed_by(&entry(b"a", 1, Kind::Put)));
    }

    /// badger#2143: a tombstone that goes before what it hides lets a deleted key return.
    #[test]
    fn a_tombstone_stays_while_something_older_may_be_left() {
        let snapshots = Arc::new(Snapshots::default());
        snapshots.publish(4);
        let guard = snapshots.register();
        snapshots.publish(9);
        let tombstone = entry(b"a", 6, Kind::Delete);
        assert!(!snapshots.retention(0).drops(&tombstone, || true), "the snapshot keeps the older");
        drop(guard);
        assert!(snapshots.retention(0).drops(&tombstone, || true));
        assert!(!snapshots.retention(0).drops(&tombstone, || false), "a deeper level may hold it");
        let coming = entry(b"a", 10, Kind::Delete);
        assert!(!snapshots.retention(0).drops(&coming, || true), "not published yet");
    }

    /// An expired value hides what is older for as long as there is something older.
    #[test]
    fn an_expired_value_goes_as_a_tombstone_does() {
        let snapshots = Arc::new(Snapshots::default());
        snapshots.publish(4);
        let guard = snapshots.register();
        snapshots.publish(9);
        let expired = Entry { expires_at_ms: 1_000, ..entry(b"a", 6, Kind::Put) };
        let judge = |now_ms, is_deepest| snapshots.retention(now_ms).judge(&expired, || is_deepest);
        assert_eq!(judge(1_000, true), Verdict::Kept, "the snapshot keeps the older");
        drop(guard);
        assert_eq!(judge(999, true), Verdict::Kept, "not yet expired");
        assert_eq!(judge(1_000, true), Verdict::Gone);
        assert_eq!(judge(1_000, false), Verdict::Kept, "a deeper level may hold something older");
    }
}
