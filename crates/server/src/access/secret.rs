//! Secret bytes, which must never appear in output.

use std::fmt;

/// A secret from the operator. Its `Debug` output hides the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Makes a secret from these bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_bytes() {
        assert_eq!(format!("{:?}", Secret::new(b"hunter2".to_vec())), "(hidden)");
    }
}
