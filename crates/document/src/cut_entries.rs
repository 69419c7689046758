//! The order of index entries that are cut: those with the same first bytes of their fields are a
//! group, which is put in order by the fields of the documents.

use std::collections::VecDeque;

use pellucid_aql::{IndexRequest, QueryError};
use pellucid_value::index_key;

use crate::layout;

/// The rest of an entry's key, as it was before the cut, and the key of its document.
type CutEntry = (Vec<u8>, Vec<u8>);

/// The bytes of an entry. The list that has it may be half empty.
fn size_of_entry((rest, document): &CutEntry) -> usize {
    2 * size_of::<CutEntry>() + rest.len() + document.len()
}

/// The current group of a walk over an index, and the entries of the group before.
pub(crate) struct CutEntries {
    reverse: bool,
    /// The number of leading fields whose order matters.
    ordered_fields: usize,
    /// True if the query may not wait for a group, which may have any number of entries.
    is_light: bool,
    /// The beginning of the keys of the group, up to the cut.
    beginning: Vec<u8>,
    group: Vec<CutEntry>,
    /// The entries whose order is known.
    ordered: VecDeque<CutEntry>,
    held_bytes: usize,
}

impl CutEntries {
    pub(crate) fn new(request: &IndexRequest, is_light: bool) -> CutEntries {
        let IndexRequest { reverse, ordered_fields, .. } = *request;
        let (beginning, group, ordered) = (Vec::new(), Vec::new(), VecDeque::new());
        let held_bytes = 0;
        CutEntries { reverse, ordered_fields, is_light, beginning, group, ordered, held_bytes }
    }

    /// The bytes of all entries that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The length of an entry's key up to the cut; `None` if the fields whose order matters end
    /// before. It is the same for all entries of a group.
    pub(crate) fn length_to_cut(&self, entry: &[u8], prefix_length: usize) -> Option<usize> {
        let length = layout::length_to_cut(entry, prefix_length)?;
        let mut fields = &entry[prefix_length..length];
        for _ in 0..self.ordered_fields {
            let Some((_, field_length)) = index_key::decode(fields) else { return Some(length) };
            fields = &fields[field_length..];
        }
        None
    }

    /// The key of the next document whose order is known.
    pub(crate) fn next_document(&mut self) -> Option<Vec<u8>> {
        let entry = self.ordered.pop_front()?;
        self.held_bytes -= size_of_entry(&entry);
        Some(entry.1)
    }

    /// Adds an entry by its key before the cut, which is behind `beginning_length` bytes. It begins
    /// a new group if it does not belong to the current one. All documents of known order were
    /// taken before.
    ///
    /// # Errors
    /// [`QueryError::NotLight`] if the query may not wait.
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
        let entry = (rest, document.to_vec());
        self.held_bytes += size_of_entry(&entry);
        self.group.push(entry);
        Ok(())
    }

    /// Puts the group in order, and the document `next` behind it. Returns false if there is no
    /// group.
    pub(crate) fn end_group(&mut self, next: Option<&[u8]>) -> bool {
        if self.group.is_empty() {
            return false;
        }
        self.group.sort_unstable();
        if self.reverse {
            self.group.reverse();
        }
        let next = next.map(|document| (Vec::new(), document.to_vec()));
        self.held_bytes += next.as_ref().map_or(0, size_of_entry);
        self.group.extend(next);
        self.ordered = std::mem::take(&mut self.group).into();
        true
    }
}
