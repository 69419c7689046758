//! The content of one file: its live image, which can be mapped, and its durable image.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::buffer::Buffer;
use crate::unreadable_pages::UnreadableMark;

/// The bytes of a sector, which a medium writes atomically.
pub(super) const SECTOR_LENGTH: usize = 512;
/// The bytes of a page, the unit in which bytes are dirty or clean.
const PAGE_LENGTH: usize = 4096;

/// The content of a file, independent of its names.
pub(super) struct Content {
    images: Mutex<Images>,
}

struct Images {
    live: Arc<Buffer>,
    length: usize,
    durable: Vec<u8>,
    /// The pages that a failed sync marked as clean: they never reach the medium, even if they are
    /// written again.
    lost: BTreeSet<usize>,
    /// The pages that cannot be read.
    bad: BTreeSet<usize>,
    noted: Option<UnreadableMark>,
}

impl Images {
    /// Marks all pages that the medium does not have as clean, so that they are lost.
    fn lose_dirty_pages(&mut self) {
        for (index, page) in self.live_bytes().chunks(PAGE_LENGTH).enumerate() {
            let durable = self.durable.get(index * PAGE_LENGTH..).unwrap_or_default();
            if !durable.starts_with(page) {
                self.lost.insert(index);
            }
        }
    }

    /// The live bytes; on lost pages, the bytes of the medium.
    fn reachable_bytes(&self) -> Vec<u8> {
        let mut bytes = self.live_bytes();
        for (index, page) in bytes.chunks_mut(PAGE_LENGTH).enumerate() {
            if self.lost.contains(&index) {
                let durable = self.durable.get(index * PAGE_LENGTH..).unwrap_or_default();
                let kept = durable.len().min(page.len());
                page[..kept].copy_from_slice(&durable[..kept]);
                page[kept..].fill(0);
            }
        }
        bytes
    }

    /// Makes pages unreadable, and erases their bytes.
    fn lose_for_readers(&mut self, pages: impl IntoIterator<Item = usize>) {
        for page in pages {
            let start = (page * PAGE_LENGTH).min(self.length);
            let end = (start + PAGE_LENGTH).min(self.length);
            self.live.copy_in(start, &vec![0; end - start]);
            self.bad.insert(page);
            self.noted.get_or_insert_with(UnreadableMark::begin);
        }
    }

    /// Forgets the failures of pages that begin at `length` or behind it: they are not part of the
    /// file any more.
    fn forget_pages_from(&mut self, length: usize) {
        self.lost.retain(|page| page * PAGE_LENGTH < length);
        self.bad.retain(|page| page * PAGE_LENGTH < length);
        if self.bad.is_empty() {
            self.noted = None;
        }
    }

    fn first_bad(&self, range: Range<usize>) -> Option<usize> {
        let pages = range.start / PAGE_LENGTH..range.end.div_ceil(PAGE_LENGTH);
        let page = self.bad.range(pages).next()?;
        Some(range.start.max(page * PAGE_LENGTH)).filter(|_| !range.is_empty())
    }

    /// True if the medium has all live bytes.
    fn is_durable(&self) -> bool {
        self.length == self.durable.len() && self.live.begins_with(&self.durable)
    }

    /// The bytes of the medium, with some of the sectors that are not written back yet.
    fn partly_carried_over(&self, survives: &mut impl FnMut() -> bool) -> Vec<u8> {
        let (live, mut bytes) = (self.reachable_bytes(), self.durable.clone());
        // The length is metadata: the medium has either the new one or the old one.
        if live.len() != bytes.len() && survives() {
            bytes.resize(live.len(), 0);
        }
        for (index, sector) in bytes.chunks_mut(SECTOR_LENGTH).enumerate() {
            let start = (index * SECTOR_LENGTH).min(live.len());
            let end = (start + sector.len()).min(live.len());
            let new = &live[start..end];
            if sector[..new.len()] != *new && survives() {
                sector[..new.len()].copy_from_slice(new);
            }
        }
        bytes
    }

    fn live_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.live.copy_out(0, &mut bytes);
        bytes
    }

    /// Extends the live image to at least `length` bytes. A mapped image cannot move, so that
    /// growing beyond its capacity is an error.
    fn grow(&mut self, length: usize) -> io::Result<()> {
        if length > self.live.capacity() {
            if Arc::strong_count(&self.live) > 1 {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "the file is mapped"));
            }
            let larger = Buffer::zeroed(length.max(self.live.capacity() * 2));
            larger.copy_in(0, &self.live_bytes());
            self.live = Arc::new(larger);
        }
        self.length = self.length.max(length);
        Ok(())
    }
}

impl Content {
    /// A file whose bytes are all on the medium.
    pub(super) fn new(bytes: &[u8]) -> Content {
        Content::with(bytes, bytes.to_vec(), BTreeSet::new())
    }

    fn with(live: &[u8], durable: Vec<u8>, lost: BTreeSet<usize>) -> Content {
        let buffer = Buffer::zeroed(live.len());
        buffer.copy_in(0, live);
        let (live, length) = (Arc::new(buffer), live.len());
        let (bad, noted) = (BTreeSet::new(), None);
        let images = Images { live, length, durable, lost, bad, noted };
        Content { images: Mutex::new(images) }
    }

    /// The file as the next process finds it. Its pages stay dirty, lost or bad as they were.
    pub(super) fn after_kill(&self) -> Content {
        let images = self.images();
        let (durable, lost) = (images.durable.clone(), images.lost.clone());
        let after = Content::with(&images.live_bytes(), durable, lost);
        after.images().lose_for_readers(images.bad.iter().copied());
        drop(images);
        after
    }

    fn images(&self) -> MutexGuard<'_, Images> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn live_bytes(&self) -> Vec<u8> {
        self.images().live_bytes()
    }

    pub(super) fn length(&self) -> usize {
        self.images().length
    }

    /// Writes `bytes` so that they end at offset `end`.
    pub(super) fn write(&self, bytes: &[u8], end: usize) -> io::Result<()> {
        let mut images = self.images();
        images.grow(end)?;
        images.live.copy_in(end - bytes.len(), bytes);
        Ok(())
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let images = self.images();
        let end = offset.saturating_add(buffer.len() as u64);
        if end > images.length as u64 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        if images.first_bad(offset as usize..end as usize).is_some() {
            return Err(io::Error::other("injected failure of a read"));
        }
        images.live.copy_out(offset as usize, buffer);
        Ok(())
    }

    pub(super) fn set_length(&self, length: usize) -> io::Result<()> {
        let mut images = self.images();
        if length < images.length {
            let cut = vec![0; images.length - length];
            images.live.copy_in(length, &cut);
            images.length = length;
            images.forget_pages_from(length);
        }
        images.grow(length)
    }

    /// Makes the file at least `length` bytes long.
    pub(super) fn allocate(&self, length: usize) -> io::Result<()> {
        self.images().grow(length)
    }

    /// Copies the live image to the medium; if `loses`, fails and loses the dirty pages.
    pub(super) fn sync(&self, loses: bool) -> io::Result<()> {
        let mut images = self.images();
        if loses {
            images.lose_dirty_pages();
            return Err(io::Error::other("injected failure of a sync"));
        }
        images.durable = images.reachable_bytes();
        Ok(())
    }

    /// The live image, to be mapped up to `length`. It does not move while it is held.
    pub(super) fn mapped(&self, length: usize) -> io::Result<Arc<Buffer>> {
        let images = self.images();
        if length > images.length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(Arc::clone(&images.live))
    }

    /// Empties the file, as its creation anew does.
    pub(super) fn truncate(&self) {
        let mut images = self.images();
        images.live = Arc::new(Buffer::zeroed(0));
        images.length = 0;
        images.forget_pages_from(0);
    }

    pub(super) fn flip_bits(&self, offset: u64, bits: u8) -> io::Result<()> {
        let mut images = self.images();
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        if offset >= images.length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let mut byte = [0];
        images.live.copy_out(offset, &mut byte);
        images.live.copy_in(offset, &[byte[0] ^ bits]);
        if let Some(byte) = images.durable.get_mut(offset) {
            *byte ^= bits;
        }
        Ok(())
    }

    /// Makes the pages of these bytes unreadable, like bad sectors: read calls of them fail, and
    /// maps have known zeros there.
    pub(super) fn fail_reads(&self, range: Range<u64>) {
        let mut images = self.images();
        let end = range.end.min(images.length as u64) as usize;
        images.lose_for_readers(range.start as usize / PAGE_LENGTH..end.div_ceil(PAGE_LENGTH));
    }

    /// The offset of the first of these bytes on an unreadable page.
    pub(super) fn unreadable_in(&self, range: Range<usize>) -> Option<usize> {
        self.images().first_bad(range)
    }

    /// Makes the pages unreadable that are unreadable in `other`.
    pub(super) fn fail_reads_as(&self, other: &Content) {
        let bad = other.images().bad.clone();
        self.images().lose_for_readers(bad);
    }

    /// The bytes found after a loss of power.
    pub(super) fn after_crash(&self, survives: &mut impl FnMut() -> bool) -> Vec<u8> {
        self.images().partly_carried_over(survives)
    }

    /// Writes some sectors back to the medium, as a system may do at any time.
    pub(super) fn write_back(&self, survives: &mut impl FnMut() -> bool) {
        let mut images = self.images();
        if !images.is_durable() {
            images.durable = images.partly_carried_over(survives);
        }
    }
}
