//! The journal of an open store: its parts, and the threads that serve them.

use std::io;
use std::sync::Arc;

use pellucid_thread::JoinHandle;

use super::base::JournalBase;
use super::excess::SpaceExcess;
use super::files::SegmentFiles;
use super::garbage::Garbage;
use super::recover::{JournalSetting, RecoveredJournal, recover};
use super::room::SegmentRoom;
use super::seal::Sealer;
use super::segments::SegmentSet;
use super::spare_segments::SpareSegments;
use super::sync::GroupSync;
use super::writer::JournalWriter;
use crate::error::{Error, Result};
use crate::expiry::ExpiryClock;
use crate::ledger::{DroppedList, JournalLink, Manifest, SegmentMetadata};

/// The journal of an open store, except its writer, which the engine's writer lock protects.
pub(crate) struct Journal {
    base: JournalBase,
    room: Arc<SegmentRoom>,
    spares: Arc<SpareSegments>,
    sealer: Arc<Sealer>,
    garbage: Garbage,
    /// The time by which entries expire.
    time: Arc<ExpiryClock>,
}

impl Journal {
    /// Opens the journal that belongs to `manifest` and cuts off a torn tail. Afterwards every
    /// segment is sealed and everything is on the medium.
    pub(crate) fn open(
        setting: JournalSetting,
        manifest: &Manifest,
    ) -> Result<(Journal, JournalWriter)> {
        let (clock, activity) = (setting.clock, setting.activity.clone());
        let (size_bytes, records_max) = (setting.segment_size_bytes, setting.segment_records_max);
        let (time, ledger_room) = (Arc::clone(&setting.time), setting.ledger_room);
        let excess = SpaceExcess::new(setting.dead_bound);
        let RecoveredJournal { files, segments, last_sequence } = recover(setting, manifest)?;
        let jobs = (clock, activity.clone());
        let sync = Arc::new(GroupSync::new(Arc::clone(&segments), jobs, last_sequence));
        let parts = || (Arc::clone(&files), Arc::clone(&segments));
        let tables_bytes = manifest.tables_bytes();
        let room = Arc::new(SegmentRoom::new(parts(), size_bytes, ledger_room, tables_bytes));
        let garbage = Garbage::new(parts(), (size_bytes, records_max), excess);
        let base = JournalBase { files, segments, sync, clock, activity };
        let spares = Arc::new(SpareSegments::new(base.clone(), Arc::clone(&room)));
        let sealer = Arc::new(Sealer::new(base.clone()));
        let rolling = (Arc::clone(&spares), Arc::clone(&sealer));
        let writer = JournalWriter::new(base.clone(), rolling, records_max);
        Ok((Journal { base, room, spares, sealer, garbage, time }, writer))
    }

    /// The segments, from which records are read.
    pub(crate) fn segments(&self) -> &Arc<SegmentSet> {
        &self.base.segments
    }

    /// The syncs that make records durable.
    pub(crate) fn sync(&self) -> &Arc<GroupSync> {
        &self.base.sync
    }

    /// The room on the disk.
    pub(crate) fn room(&self) -> &SegmentRoom {
        &self.room
    }

    /// The account of records that are no longer needed.
    pub(crate) fn garbage(&self) -> &Garbage {
        &self.garbage
    }

    /// The files of the segments.
    pub(crate) fn files(&self) -> &SegmentFiles {
        &self.base.files
    }

    /// Memory of the offsets of records in segments that are not sealed.
    pub(crate) fn offsets_bytes(&self) -> u64 {
        self.base.segments.offsets_bytes(self.base.sync.appended_sequence())
    }

    /// Starts the threads that sync, prepare segments and seal them.
    pub(crate) fn start_threads(&self) -> Result<[JoinHandle<()>; 3]> {
        let failed =
            |error: io::Error| Error::io("start a thread for", self.base.files.directory(), error);
        Ok([
            self.base.sync.start_thread().map_err(failed)?,
            self.spares.start_thread().map_err(failed)?,
            self.sealer.start_thread().map_err(failed)?,
        ])
    }

    /// Asks the threads to finish their current work, and to end.
    pub(crate) fn stop_threads(&self) {
        self.base.sync.stop_thread();
        self.spares.stop_thread();
        self.sealer.stop_thread();
    }
}

impl JournalLink for Journal {
    fn make_durable(&self, sequence: u64) -> Result<()> {
        self.base.sync.sync_to(sequence).map(|_| ())
    }

    fn on_dropped(&self, dropped: &DroppedList) {
        self.garbage.note_dropped(dropped);
    }

    fn segment_facts(&self, dropped: &DroppedList) -> Vec<SegmentMetadata> {
        self.garbage.facts_without(dropped)
    }

    fn now_ms(&self) -> u64 {
        self.time.now_ms()
    }

    fn after_manifest(&self, _flushed_sequence: u64, tables_bytes: u64) {
        self.room.note_tables(tables_bytes);
        self.garbage.remove_retired();
    }
}
