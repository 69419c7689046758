//! Byte strings that need no allocation if they are short.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// An owned byte string. It is stored inline if it has at most `INLINE_MAX_BYTES` bytes, which may
/// be at most 255.
#[derive(Clone)]
pub struct ShortBytes<const INLINE_MAX_BYTES: usize>(Bytes<INLINE_MAX_BYTES>);

#[derive(Clone)]
enum Bytes<const INLINE_MAX_BYTES: usize> {
    Inline { length: u8, bytes: [u8; INLINE_MAX_BYTES] },
    Allocated(Arc<[u8]>),
}

impl<const INLINE_MAX_BYTES: usize> ShortBytes<INLINE_MAX_BYTES> {
    const LENGTH_FITS: () = assert!(INLINE_MAX_BYTES <= u8::MAX as usize);

    /// A copy of `bytes`.
    #[inline]
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        const { Self::LENGTH_FITS };
        if bytes.len() > INLINE_MAX_BYTES {
            return ShortBytes(Bytes::Allocated(bytes.into()));
        }
        let mut inline = [0; INLINE_MAX_BYTES];
        inline[..bytes.len()].copy_from_slice(bytes);
        ShortBytes(Bytes::Inline { length: bytes.len() as u8, bytes: inline })
    }
}

/// Conversion from an allocated byte string, without a copy.
impl<const INLINE_MAX_BYTES: usize> From<Arc<[u8]>> for ShortBytes<INLINE_MAX_BYTES> {
    fn from(bytes: Arc<[u8]>) -> Self {
        ShortBytes(Bytes::Allocated(bytes))
    }
}

impl<const INLINE_MAX_BYTES: usize> Deref for ShortBytes<INLINE_MAX_BYTES> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Bytes::Allocated(bytes) => bytes,
        }
    }
}

impl<const INLINE_MAX_BYTES: usize> PartialEq for ShortBytes<INLINE_MAX_BYTES> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<const INLINE_MAX_BYTES: usize> Eq for ShortBytes<INLINE_MAX_BYTES> {}

impl<const INLINE_MAX_BYTES: usize> fmt::Debug for ShortBytes<INLINE_MAX_BYTES> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_strings_of_all_lengths_round_trip() {
        for length in [0, 1, 38, 39, 1_000] {
            let bytes: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let short = ShortBytes::<38>::new(&bytes);
            assert_eq!(*short, bytes[..]);
            assert_eq!(matches!(short.0, Bytes::Inline { .. }), length <= 38);
            // The place of storage makes no difference.
            assert_eq!(short, ShortBytes::from(Arc::from(bytes)));
        }
        assert_ne!(ShortBytes::<38>::new(b"a"), ShortBytes::new(b"b"));
    }
}
