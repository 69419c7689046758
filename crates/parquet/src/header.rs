//! Headers of pages.

use parquet::basic::Encoding;

use crate::thrift::{Thrift, ThriftError};

/// The number of the run-length encoding of levels.
const RUNS: i64 = 3;

/// The header of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The bytes of the header itself.
    pub(crate) length: usize,
    pub(crate) packed_bytes: u32,
    pub(crate) unpacked_bytes: u32,
    pub(crate) checksum: Option<u32>,
    pub(crate) content: Content,
}

/// The content of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Dictionary {
        values: u32,
    },
    /// A data page of version 1: levels and values are compressed together.
    Together {
        values: u32,
        encoding: Encoding,
        /// True if levels are run-length encoded, as in all but the oldest files.
        has_runs: bool,
    },
    /// A data page of version 2: the levels are not compressed.
    Apart {
        values: u32,
        nulls: u32,
        rows: u32,
        encoding: Encoding,
        definition_bytes: u32,
        repetition_bytes: u32,
        is_packed: bool,
    },
    /// A page that is not needed.
    Other,
}

/// The fields of an encoded header.
#[derive(Default)]
struct Fields {
    kind: Option<i64>,
    unpacked_bytes: Option<u32>,
    packed_bytes: Option<u32>,
    checksum: Option<u32>,
    /// The fields of the structure for the page's type, by their numbers.
    parts: [Option<i64>; 7],
    is_unpacked: bool,
}

impl Header {
    /// Parses the header at the beginning of the bytes.
    pub(crate) fn read(bytes: &[u8]) -> Result<Header, ThriftError> {
        let mut thrift = Thrift::new(bytes);
        let mut fields = Fields::default();
        thrift.structure(&mut |thrift, field| {
            match field.id {
                1 => fields.kind = Some(thrift.integer()?),
                2 => fields.unpacked_bytes = Some(thrift.size()?),
                3 => fields.packed_bytes = Some(thrift.size()?),
                4 => fields.checksum = Some(thrift.integer()? as u32),
                5 | 7 | 8 => fields.read_part(field.id, thrift)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(Header {
            length: bytes.len() - thrift.left(),
            packed_bytes: fields.packed_bytes.ok_or(ThriftError::Malformed)?,
            unpacked_bytes: fields.unpacked_bytes.ok_or(ThriftError::Malformed)?,
            checksum: fields.checksum,
            content: fields.content()?,
        })
    }
}

impl Fields {
    /// Parses the structure for the page's type, which is the header's field `id`.
    fn read_part(&mut self, id: i16, thrift: &mut Thrift<'_>) -> Result<(), ThriftError> {
        // The last field that is needed of each: a data page, a dictionary, a data page of version
        // 2.
        let last = match id {
            5 => 3,
            7 => 2,
            _ => 6,
        };
        thrift.structure(&mut |thrift, field| {
            if (1..=last).contains(&field.id) {
                self.parts[field.id as usize] = Some(thrift.integer()?);
                return Ok(true);
            }
            self.is_unpacked |= id == 8 && field.id == 7 && field.boolean() == Some(false);
            Ok(false)
        })
    }

    fn content(&self) -> Result<Content, ThriftError> {
        match self.kind {
            Some(0) => Ok(Content::Together {
                values: self.size(1)?,
                encoding: self.encoding(2)?,
                has_runs: self.parts[3] == Some(RUNS),
            }),
            Some(2) => Ok(Content::Dictionary { values: self.size(1)? }),
            Some(3) => Ok(Content::Apart {
                values: self.size(1)?,
                nulls: self.size(2)?,
                rows: self.size(3)?,
                encoding: self.encoding(4)?,
                definition_bytes: self.size(5)?,
                repetition_bytes: self.size(6)?,
                is_packed: !self.is_unpacked,
            }),
            Some(1) => Ok(Content::Other),
            _ => Err(ThriftError::Malformed),
        }
    }

    fn size(&self, part: usize) -> Result<u32, ThriftError> {
        self.parts[part].and_then(|size| u32::try_from(size).ok()).ok_or(ThriftError::Malformed)
    }

    fn encoding(&self, part: usize) -> Result<Encoding, ThriftError> {
        Ok(match self.parts[part] {
            Some(0) => Encoding::PLAIN,
            Some(2) => Encoding::PLAIN_DICTIONARY,
            Some(3) => Encoding::RLE,
            Some(5) => Encoding::DELTA_BINARY_PACKED,
            Some(6) => Encoding::DELTA_LENGTH_BYTE_ARRAY,
            Some(7) => Encoding::DELTA_BYTE_ARRAY,
            Some(8) => Encoding::RLE_DICTIONARY,
            Some(9) => Encoding::BYTE_STREAM_SPLIT,
            _ => return Err(ThriftError::Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed() {
        let sizes = [0x15, 0, 0x15, 40, 0x15, 20, 0x15, 1];
        let data = [0x1c, 0x15, 6, 0x15, 16, 0x15, 6, 0x15, 6, 0x1c, 0x18, 1, b'x', 0, 0, 0, 9];
        let bytes = [&sizes[..], &data].concat();
        let header = Header::read(&bytes).unwrap();
        let encoding = Encoding::RLE_DICTIONARY;
        let content = Content::Together { values: 3, encoding, has_runs: true };
        let expected = Header {
            length: bytes.len() - 1,
            packed_bytes: 10,
            unpacked_bytes: 20,
            checksum: Some(u32::MAX),
            content,
        };
        assert_eq!(header, expected);
        for end in 0..bytes.len() - 1 {
            assert_eq!(Header::read(&bytes[..end]).unwrap_err(), ThriftError::Short);
        }
        let dictionary = [0x15, 4, 0x15, 2, 0x15, 2, 0x4c, 0x15, 8, 0x15, 0, 0x11, 0, 0];
        let content = Header::read(&dictionary).unwrap().content;
        assert_eq!(content, Content::Dictionary { values: 4 });
        let apart = [
            0x15, 6, 0x15, 2, 0x15, 2, 0x5c, 0x15, 8, 0x15, 2, 0x15, 8, 0x15, 0, 0x15, 4, 0x15, 0,
            0x12, 0, 0,
        ];
        let content = Content::Apart {
            values: 4,
            nulls: 1,
            rows: 4,
            encoding: Encoding::PLAIN,
            definition_bytes: 2,
            repetition_bytes: 0,
            is_packed: false,
        };
        assert_eq!(Header::read(&apart).unwrap().content, content);
    }

    #[test]
    fn malformed_headers_are_refused() {
        for bytes in [
            &[0][..],
            // No size, a negative size, an unknown page type, an unknown encoding.
            &[0x15, 2, 0x15, 2, 0],
            &[0x15, 2, 0x15, 1, 0x15, 2, 0],
            &[0x15, 8, 0x15, 2, 0x15, 2, 0],
            &[0x15, 0, 0x15, 2, 0x15, 2, 0x2c, 0x15, 6, 0x15, 2, 0x15, 6, 0x15, 6, 0, 0],
        ] {
            assert_eq!(Header::read(bytes).unwrap_err(), ThriftError::Malformed, "{bytes:?}");
        }
    }
}
