//! Notes in the target of a copy: the source of each table, and the progress of its copy.
//!
//! A note is the text `copy of IDENTITY`, a newline, and then either `k` with the last key that is
//! certainly copied (empty at first), or `e` for a table that is copied to its end.

use pellucid_account::Timeline;

use crate::error::{Result, StoreError};
use crate::model::{Acknowledgement, Operation, Table};
use crate::store::Store;

/// The table of the target with the notes. Their keys are the names of the copied tables.
pub(crate) const NOTES_TABLE: &str = "pellucid copies";
const BEGINNING: &[u8] = b"copy of ";
const UP_TO_KEY: u8 = b'k';
const TO_THE_END: u8 = b'e';

/// The progress of the copy of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyPosition {
    /// All keys up to this one are copied; no keys if it is empty.
    Key(Vec<u8>),
    /// The whole table is copied.
    End,
}

/// The notes in one target.
pub(crate) struct Notes<'a> {
    to: &'a dyn Store,
    table: Table,
}

impl<'a> Notes<'a> {
    pub(crate) fn of(to: &'a dyn Store) -> Result<Notes<'a>> {
        Ok(Notes { to, table: to.table(NOTES_TABLE)? })
    }

    /// True if there is a note of the table `name`.
    pub(crate) fn has(&self, name: &str) -> Result<bool> {
        let note = self.to.get(self.table, name.as_bytes(), &mut Timeline::off()).wait()?;
        Ok(note.is_some())
    }

    /// The progress of the copy of the table `name`; `None` if it has not begun.
    ///
    /// # Errors
    /// [`StoreError::Unacceptable`] if a copy of another source has begun. Errors of the target.
    pub(crate) fn read(&self, name: &str, identity: &str) -> Result<Option<CopyPosition>> {
        let found = self.to.get(self.table, name.as_bytes(), &mut Timeline::off()).wait()?;
        let Some(note) = found else { return Ok(None) };
        let refused = |of: &str| {
            Err(StoreError::Unacceptable(format!(
                "the target has a part of the table {name} from {of}, by a copy that was cut \
                 short, and this one is from {identity}"
            )))
        };
        match parse(&note.value) {
            Some((of, reached)) if of == identity => Ok(Some(reached)),
            Some((of, _)) => refused(&of),
            None => refused("a source that its note does not name"),
        }
    }

    pub(crate) fn write(&self, name: &str, identity: &str, reached: &CopyPosition) -> Result<()> {
        self.put(name, Some(&text_of(identity, reached)))
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        self.put(name, None)
    }

    fn put(&self, name: &str, value: Option<&[u8]>) -> Result<()> {
        let operation = Operation::plain(name.as_bytes(), value);
        let (durable, mut timeline) = (Acknowledgement::Os, Timeline::off());
        self.to.write(self.table, &[operation], durable, &mut timeline).wait()?;
        Ok(())
    }
}

fn text_of(identity: &str, reached: &CopyPosition) -> Vec<u8> {
    let (kind, key) = match reached {
        CopyPosition::Key(key) => (UP_TO_KEY, &key[..]),
        CopyPosition::End => (TO_THE_END, &[][..]),
    };
    [BEGINNING, identity.as_bytes(), b"\n", &[kind], key].concat()
}

/// Parses a note: the identity of the source, and the progress.
fn parse(text: &[u8]) -> Option<(String, CopyPosition)> {
    let rest = text.strip_prefix(BEGINNING)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let identity = std::str::from_utf8(&rest[..end]).ok()?.to_owned();
    let reached = match rest[end + 1..].split_first()? {
        (&UP_TO_KEY, key) => CopyPosition::Key(key.to_vec()),
        (&TO_THE_END, []) => CopyPosition::End,
        _ => return None,
    };
    Some((identity, reached))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_round_trip_for_any_key() {
        for key in [&b""[..], b"k", b"\n", b"e\ncopy of x\nk", &[0, 255]] {
            for reached in [CopyPosition::Key(key.to_vec()), CopyPosition::End] {
                let text = text_of("store 1", &reached);
                assert_eq!(parse(&text), Some(("store 1".to_owned(), reached)));
            }
        }
    }

    #[test]
    fn malformed_notes_are_refused() {
        let texts: [&[u8]; 6] =
            [b"", b"key", b"copy of x", b"copy of x\n", b"copy of x\nek", b"copy of \xff\nk"];
        for text in texts {
            assert_eq!(parse(text), None);
        }
    }
}
