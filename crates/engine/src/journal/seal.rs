//! Sealing: what becomes of a full segment, off the write path. Its records become durable, it gets
//! its footer, and the rest of its space is given back.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use pellucid_thread::{Indivisible, start_job};

use super::append::{Active, Appender};
use super::footer::{decode_footer, encode_footer};
use super::roll::SEGMENTS;
use super::segment::Segment;
use super::{Journal, lock};
use crate::error::{Error, Result};
use crate::jobs;

/// Segments that may wait for their seal before writers wait too.
pub(super) const SEALING_MAX: usize = 8;

impl Journal {
    /// Gives a full segment to the thread that seals, or seals it here if there is none.
    pub(super) fn hand_over_for_sealing(&self, full: Active) -> Result<()> {
        let mut roller = lock(&self.roller);
        if !roller.is_running {
            drop(roller);
            return self.seal(&full);
        }
        roller.to_seal.push_back(full);
        drop(roller);
        self.roller_changed.notify_all();
        Ok(())
    }

    /// Seals a segment: its records become durable, then the footer is written into the space
    /// reserved for it, the rest is given back, and that becomes durable.
    fn seal(&self, full: &Active) -> Result<()> {
        self.check_poison()?;
        let _whole = Indivisible::begin();
        let shared = &full.segment.shared;
        if full.count == 0 {
            self.change_segments(|segments| {
                segments.retain(|segment| segment.shared.number != shared.number);
            });
            self.discard(shared);
            return Ok(());
        }
        let sealed = self.write_seal(full).map_err(|error| self.poison(&error))?;
        let last = full.segment.first_sequence + full.count - 1;
        self.change_segments(|segments| {
            for segment in segments.iter_mut() {
                if segment.shared.number == shared.number {
                    *segment = Arc::clone(&sealed);
                }
            }
        });
        shared.is_synced.store(true, Ordering::Release);
        shared.file.close();
        self.durable.fetch_max(last, Ordering::AcqRel);
        Ok(())
    }

    fn write_seal(&self, full: &Active) -> Result<Arc<Segment>> {
        let segment = &full.segment;
        let shared = &segment.shared;
        let failed = |error| Error::io("seal", &shared.path, error);
        // Of a fill of 5.2 s, the system's search for the places that pages of full segments were
        // mapped at took 1.05 s of processor time.
        shared.map.settle();
        shared.file.sync().map_err(failed)?;
        let first = segment.first_sequence;
        let places = (0..full.count as usize)
            .map(|index| segment.place(first + index as u64))
            .map(|place| (place.expect("every record has a place") / 8) as u32);
        let footer = encode_footer(self.store_identity, shared.number, first, full.end, places);
        let length = full.end as usize + footer.len();
        assert!(length <= shared.map.length(), "room for the footer was reserved");
        // SAFETY: the range is within the writable map, behind the last record; the writer has
        // given the segment up, and readers look at records only.
        unsafe {
            let target = shared.map.pointer().add(full.end as usize);
            std::ptr::copy_nonoverlapping(footer.as_ptr(), target, footer.len());
        }
        segment.check_written()?;
        shared.file.set_length(length as u64).map_err(failed)?;
        shared.file.sync().map_err(failed)?;
        // SAFETY: as above; from here on nobody writes to the map.
        let bytes = unsafe { std::slice::from_raw_parts(shared.map.pointer(), length) };
        let footer = decode_footer(bytes, self.store_identity, shared.number, first)
            .expect("the footer was written a moment ago");
        // A GET that misses the page cache would otherwise read what lies around it, too: up to
        // what the disk reads ahead, which may be megabytes.
        shared.map.expect_random();
        Ok(Arc::new(Segment::sealed(Arc::clone(shared), first, footer)))
    }

    /// Returns once every segment handed over is sealed. A failure has poisoned the journal.
    fn wait_for_seals(&self) -> Result<()> {
        let mut roller = lock(&self.roller);
        while roller.is_sealing || !roller.to_seal.is_empty() {
            self.check_poison()?;
            roller = self.roller_changed.wait(roller).unwrap_or_else(PoisonError::into_inner);
        }
        self.check_poison()
    }

    /// Seals what is handed over, until it is asked to end and nothing waits any more.
    pub(super) fn seal_segments(&self) {
        let _job = start_job(&SEGMENTS);
        let mut roller = lock(&self.roller);
        loop {
            if let Some(full) = roller.to_seal.pop_front() {
                roller.is_sealing = true;
                drop(roller);
                // A failure has poisoned the journal, which tells everybody.
                let noted = self.activity.begin(jobs::SEGMENT, self.clock);
                let _ = self.seal(&full);
                drop(noted);
                roller = lock(&self.roller);
                roller.is_sealing = false;
                self.roller_changed.notify_all();
            } else if roller.is_stopping {
                return;
            } else {
                let changed = self.roller_changed.wait_for_work(roller);
                roller = changed.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Seals everything that was written so far. Under the writer lock.
    pub(crate) fn seal_active(&self, appender: &mut Appender) -> Result<()> {
        self.wait_for_seals()?;
        appender.take_active().map_or(Ok(()), |active| self.seal(&active))
    }

    /// Seals the active segment and removes the spare, so that the next opening has nothing to
    /// replay. Under the writer lock, for the last time.
    pub(crate) fn close(&self, appender: &mut Appender) -> Result<()> {
        self.seal_active(appender)?;
        while let Some(spare) = self.take_spare()? {
            self.discard(&spare);
        }
        Ok(())
    }
}
