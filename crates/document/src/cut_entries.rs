//! The order of index entries that are cut: those with the same first bytes of their fields are a
//! group, which is put in order by the fields of the documents.

use std::collections::VecDeque;

use pellucid_aql::{QueryError, number};

/// The most bytes of a group.
const GROUP_BYTES_MAX: usize = 64 << 20;

/// The current group of a walk over an index, and the documents of the group before.
pub(crate) struct CutEntries {
    reverse: bool,
    /// True if the query may not wait for a group, which may have any number of entries.
    is_light: bool,
    /// The beginning of the keys of the group, up to the cut.
    beginning: Vec<u8>,
    /// The rest of each key, as it was before the cut, and the key of the document.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    /// The keys of documents whose order is known.
    ordered: VecDeque<Vec<u8>>,
}

impl CutEntries {
    pub(crate) fn new(reverse: bool, is_light: bool) -> CutEntries {
        let (beginning, entries, ordered) = (Vec::new(), Vec::new(), VecDeque::new());
        CutEntries { reverse, is_light, beginning, entries, bytes: 0, ordered }
    }

    /// The key of the next document whose order is known.
    pub(crate) fn next_document(&mut self) -> Option<Vec<u8>> {
        self.ordered.pop_front()
    }

    /// Adds an entry by its key before the cut, which is behind `beginning_length` bytes. It begins
    /// a new group if it does not belong to the current one.
    ///
    /// # Errors
    /// 32 if the group is too large.
    pub(crate) fn add(
        &mut self,
        mut uncut: Vec<u8>,
        beginning_length: usize,
        document: &[u8],
    ) -> Result<(), QueryError> {
        if self.is_light {
            return Err(QueryError::NotLight);
        }
        let rest = uncut.split_off(beginning_length);
        if self.beginning != uncut {
            self.end_group(None);
            self.beginning = uncut;
        }
        self.bytes += rest.len() + document.len() + size_of::<(Vec<u8>, Vec<u8>)>();
        if self.bytes > GROUP_BYTES_MAX {
            let message = "too many long values of an index begin in the same way to be put in \
                           order: sort by NOEVAL(...), which uses no index";
            return Err(QueryError::new(number::RESOURCE_LIMIT, message));
        }
        self.entries.push((rest, document.to_vec()));
        Ok(())
    }

    /// Puts the group in order, and the document `next` behind it. Returns false if there is no
    /// group.
    pub(crate) fn end_group(&mut self, next: Option<&[u8]>) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let mut entries = std::mem::take(&mut self.entries);
        self.bytes = 0;
        entries.sort_unstable();
        if self.reverse {
            entries.reverse();
        }
        let documents = entries.into_iter().map(|(_, document)| document);
        self.ordered.extend(documents.chain(next.map(<[u8]>::to_vec)));
        true
    }
}
