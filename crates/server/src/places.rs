//! Limits of work that runs at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The places for work of one kind; all clones have the same.
#[derive(Clone)]
pub(crate) struct Places {
    taken: Arc<AtomicUsize>,
    places_max: usize,
}

/// One of [`Places`], free again when this is dropped.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Places {
    pub(crate) fn new(places_max: usize) -> Places {
        Places { taken: Arc::default(), places_max }
    }

    /// Takes a place; `None` if all are taken.
    pub(crate) fn take(&self) -> Option<Place> {
        let more = |taken| (taken < self.places_max).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.ok().map(|_| Place(Arc::clone(&self.taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_once_it_is_dropped() {
        let places = Places::new(2);
        let (first, second) = (places.take(), places.take());
        assert!(first.is_some() && second.is_some() && places.clone().take().is_none());
        drop(first);
        assert!(places.take().is_some());
    }
}
