//! Nodes to be sorted.

/// A node to be sorted, with the first 16 bytes of its key, which decide most comparisons. They are
/// stored as two halves, because a `u128` would take more space for its alignment.
pub(super) struct SortItem {
    pub(super) front: (u64, u64),
    pub(super) place: u32,
}

impl SortItem {
    /// The first bytes of the key as one number: two numbers are compared without a branch, which
    /// would be mispredicted half of the time in a sort.
    #[inline]
    pub(super) fn number(&self) -> u128 {
        u128::from(self.front.0) << 64 | u128::from(self.front.1)
    }
}
