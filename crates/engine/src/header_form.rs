//! The forms of a record's header (`docs/format.md`, Record): the journal writes them, and the ledger
//! counts the bytes of records that are dead.
//!
//! Most records have no head and never expire. Their header leaves out both, which is 16 bytes of
//! 340 for the studies' entries: less to write, to copy, to read, and to check.

/// The last time that has room in a short header, in milliseconds since the Unix epoch: in the year
/// 10889. Writers take no later one.
pub(crate) const WRITTEN_AT_MAX_MS: u64 = (1 << 48) - 1;
/// Sequence numbers are below.
pub(crate) const SEQUENCE_END: u64 = 1 << 56;
/// Every record begins at a multiple of this, in bytes.
pub(crate) const RECORD_ALIGNMENT: u64 = 8;

/// The form of a record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderForm {
    /// Without head and expiry.
    Short,
    /// With all fields.
    Long,
}

impl HeaderForm {
    /// The form in which such a record is written.
    #[inline]
    pub(crate) fn of(head_length: usize, written_at_ms: u64, expires_at_ms: u64) -> HeaderForm {
        let is_plain = head_length == 0 && expires_at_ms == 0;
        if is_plain && written_at_ms <= WRITTEN_AT_MAX_MS {
            HeaderForm::Short
        } else {
            HeaderForm::Long
        }
    }

    /// Bytes of the header.
    #[inline]
    pub(crate) const fn length(self) -> usize {
        match self {
            HeaderForm::Short => 24,
            HeaderForm::Long => 40,
        }
    }

    /// Bytes that a record takes with a header of this form and `rest` bytes of key, head and
    /// value, padding included.
    #[inline]
    pub(crate) fn padded_length(self, rest: u64) -> u64 {
        (self.length() as u64 + rest).next_multiple_of(RECORD_ALIGNMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_short_header_can_say_has_one() {
        assert_eq!(HeaderForm::of(0, 0, 0), HeaderForm::Short);
        assert_eq!(HeaderForm::of(0, WRITTEN_AT_MAX_MS, 0), HeaderForm::Short);
        assert_eq!(HeaderForm::of(0, WRITTEN_AT_MAX_MS + 1, 0), HeaderForm::Long);
        assert_eq!(HeaderForm::of(1, 0, 0), HeaderForm::Long);
        assert_eq!(HeaderForm::of(0, 0, 1), HeaderForm::Long);
    }
}
