//! The forms of a record's header (`docs/format.md`, Record). The journal writes them, and the
//! ledger needs them to compute the length of a dead record.
//!
//! Most records have no head and never expire. Their short header omits both, which saves 16 bytes
//! of 340 for the entries of the studies: fewer bytes to write, copy, read and check.

/// The last time that fits into a short header, in milliseconds since the Unix epoch, in the year
/// 10889. Writers clamp their time to it.
pub(crate) const WRITTEN_AT_MAX_MS: u64 = (1 << 48) - 1;
/// The limit of sequence numbers: all of them are below.
pub(crate) const SEQUENCE_END: u64 = 1 << 56;
/// Every record begins at a multiple of this, in bytes.
pub(crate) const RECORD_ALIGNMENT: u64 = 8;

/// The form of a record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderForm {
    /// A header without head length and expiry.
    Short,
    /// A header with all fields.
    Long,
}

impl HeaderForm {
    /// The form in which a record with these fields is written.
    #[inline]
    pub(crate) fn of(head_length: usize, written_at_ms: u64, expires_at_ms: u64) -> HeaderForm {
        let is_plain = head_length == 0 && expires_at_ms == 0;
        if is_plain && written_at_ms <= WRITTEN_AT_MAX_MS {
            HeaderForm::Short
        } else {
            HeaderForm::Long
        }
    }

    /// Length of the header, in bytes.
    #[inline]
    pub(crate) const fn length(self) -> usize {
        match self {
            HeaderForm::Short => 24,
            HeaderForm::Long => 40,
        }
    }

    /// Length of a record with a header of this form and `rest` bytes of key, head and value,
    /// including the padding, in bytes.
    #[inline]
    pub(crate) fn padded_length(self, rest: u64) -> u64 {
        (self.length() as u64 + rest).next_multiple_of(RECORD_ALIGNMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_header_is_used_only_if_all_fields_fit() {
        assert_eq!(HeaderForm::of(0, 0, 0), HeaderForm::Short);
        assert_eq!(HeaderForm::of(0, WRITTEN_AT_MAX_MS, 0), HeaderForm::Short);
        assert_eq!(HeaderForm::of(0, WRITTEN_AT_MAX_MS + 1, 0), HeaderForm::Long);
        assert_eq!(HeaderForm::of(1, 0, 0), HeaderForm::Long);
        assert_eq!(HeaderForm::of(0, 0, 1), HeaderForm::Long);
    }
}
