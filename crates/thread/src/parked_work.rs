//! Work that is handed from one thread to another: it keeps its labels, and the time until it is
//! taken up is a wait like that for a lock.

use crate::activity::{Labels, labels, with_thread};
use crate::wait_table::{Wait, WaitGuard, WaitKind, monotonic_ns};
use crate::waits::{note_wait_by_chance, note_wait_of};
use std::panic::Location;
use std::sync::atomic::Ordering;

/// Work that one thread has put down for another thread.
#[must_use = "work that nobody takes up is not counted"]
pub struct ParkedWork {
    labels: Labels,
    request: u64,
    since_ns: u64,
    _waiting: WaitGuard,
}

impl ParkedWork {
    /// Puts this thread's request down, for another thread that takes it up, or for a sync.
    #[track_caller]
    pub fn put_down(kind: WaitKind) -> ParkedWork {
        let request = with_thread(|thread| thread.request.load(Ordering::Relaxed));
        let wait = Wait { request, kind, place: Location::caller(), since_ns: monotonic_ns() };
        let waiting = WaitGuard::enter(wait);
        ParkedWork { labels: labels(), request, since_ns: wait.since_ns, _waiting: waiting }
    }

    /// Ends the wait and counts it, without taking the work up on this thread.
    pub fn end(self) {
        self.count();
    }

    /// Counts the wait so far. It is still shown as under way until this is dropped.
    pub fn count(&self) {
        note_wait_of(self.labels, self.waited_ns());
    }

    /// Ends the wait like [`ParkedWork::end`], for very frequent waits: only one in `one_in` is
    /// kept, independent of its length, and is weighted by that number.
    pub fn end_by_chance(self, one_in: u32) {
        note_wait_by_chance(self.labels, one_in, || self.waited_ns());
    }

    fn waited_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.since_ns)
    }

    /// Ends the wait, and labels this thread with the work, in `phase`, until the result is
    /// dropped.
    pub fn take_up(self, phase: u8) -> ResumedWork {
        let (operation, request, job) = (self.labels.operation, self.request, self.labels.job);
        self.end();
        with_thread(|thread| {
            let before = labels();
            let request_before = thread.request.swap(request, Ordering::Relaxed);
            thread.put(Labels { operation, phase, job });
            ResumedWork { before, request_before }
        })
    }
}

/// Work that a thread has taken up. When it is dropped, the thread gets its previous labels back.
#[must_use = "the work ends when this is dropped"]
pub struct ResumedWork {
    before: Labels,
    request_before: u64,
}

impl Drop for ResumedWork {
    fn drop(&mut self) {
        with_thread(|thread| {
            thread.request.store(self.request_before, Ordering::Relaxed);
            thread.put(self.before);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{set_operation, set_phase, set_request};
    use crate::wait_table::waits;
    use crate::waits::{blocked, sample_waits};

    #[test]
    fn labels_go_with_the_work_and_the_wait_is_counted() {
        sample_waits();
        set_operation(77);
        set_phase(4);
        set_request(9_009);
        let put_down = ParkedWork::put_down(WaitKind::Thread);
        assert!(waits().iter().any(|wait| wait.request == 9_009 && wait.kind == WaitKind::Thread));
        // Waits of this length are always kept.
        std::thread::sleep(std::time::Duration::from_millis(1));
        std::thread::spawn(move || {
            let taken_up = put_down.take_up(5);
            assert_eq!((labels().operation, labels().phase), (77, 5));
            assert!(waits().iter().all(|wait| wait.request != 9_009));
            drop(taken_up);
            assert_eq!((labels().operation, labels().phase), (0, 0));
        })
        .join()
        .unwrap();
        let counted = blocked();
        let site = counted.iter().find(|site| site.labels.operation == 77).unwrap();
        assert!(site.labels.phase == 4 && site.counts.amount >= 1e6, "{site:?}");
    }
}
