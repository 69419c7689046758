//! Little-endian integers within bytes.

/// Reads 2 bytes at `offset`.
///
/// # Panics
/// If they are not within `bytes`. The other `read` functions panic likewise; lengths are checked
/// before.
#[inline]
pub(crate) fn read_u16(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
}

/// Reads 4 bytes at `offset`.
#[inline]
pub(crate) fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(field)
}

/// Reads 8 bytes at `offset`.
#[inline]
pub(crate) fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(field)
}
