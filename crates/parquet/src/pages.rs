//! The reader of the pages of a column chunk.
//!
//! The parquet library's own page reader allocates as much memory as a page claims to need, and
//! decompresses without a limit. This reader refuses pages above a limit, and encodings in which a
//! few bytes can stand for very many.

use std::sync::Arc;

use bytes::Bytes;
use flate2::Crc;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;

use crate::codec::Codec;
use crate::guard::failed;
use crate::header::{Content, Header};
use crate::source::Source;
use crate::thrift::ThriftError;

/// The most bytes of a page: a value of up to 384 MiB, and its overhead.
pub(crate) const PAGE_BYTES_MAX: u32 = 512 << 20;
/// The most values of a dictionary.
const DICTIONARY_VALUES_MAX: u32 = 1 << 24;
/// The bytes in which a header is looked for: few at first, then more, because statistics in it may
/// be long.
const HEADER_BYTES: [u64; 2] = [4 << 10, 16 << 20];

/// The pages of a column chunk.
pub(crate) struct Pages {
    source: Arc<Source>,
    codec: Codec,
    /// True if rows may have no value, which definition levels tell.
    has_levels: bool,
    at: u64,
    end: u64,
    /// The number of rows in the pages that follow.
    rows_left: u64,
    has_dictionary: bool,
    /// True after a data page: the next call returns no page, so that the library stops there.
    is_paused: bool,
}

impl Pages {
    pub(crate) fn of(
        source: &Arc<Source>,
        chunk: &ColumnChunkMetaData,
        rows: u64,
    ) -> Result<Pages, String> {
        if chunk.file_path().is_some() {
            return Err("it is in another file".to_owned());
        }
        let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        let place = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
        let range = place.and_then(|(at, length)| Some((at, at.checked_add(length)?)));
        let inside = range.filter(|(_, end)| *end <= source.length());
        let (at, end) = inside.ok_or("the file is cut: it ends before its pages do")?;
        let codec = Codec::of(chunk.compression())?;
        Ok(Pages {
            source: source.clone(),
            codec,
            has_levels: chunk.column_descr().max_def_level() > 0,
            at,
            end,
            rows_left: rows,
            has_dictionary: false,
            is_paused: false,
        })
    }

    fn page(&mut self) -> Result<Option<Page>, String> {
        // Stop after each data page, so that the library holds only one page in memory.
        if std::mem::take(&mut self.is_paused) {
            return Ok(None);
        }
        while self.at < self.end {
            let header = self.header()?;
            let body = self.body(&header)?;
            match header.content {
                Content::Other
                | Content::Together { values: 0, .. }
                | Content::Apart { values: 0, .. } => {}
                Content::Dictionary { values } => return self.dictionary(&header, &body, values),
                Content::Together { values, .. } | Content::Apart { values, .. } => {
                    let left = self.rows_left.checked_sub(u64::from(values));
                    self.rows_left = left.ok_or("it has more rows than its row group")?;
                    self.is_paused = true;
                    return self.data(&header, &body).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// Reads the header of the next page.
    fn header(&self) -> Result<Header, String> {
        let left = self.end - self.at;
        for length in HEADER_BYTES.map(|length| length.min(left)) {
            let bytes = self.source.bytes(self.at, length as usize)?;
            match Header::read(&bytes) {
                Ok(header) => return Ok(header),
                Err(ThriftError::Short) => {}
                Err(ThriftError::Malformed) => break,
            }
        }
        Err("the header of a page is damaged".to_owned())
    }

    /// Reads the body of the next page, still compressed, and moves behind it.
    fn body(&mut self, header: &Header) -> Result<Vec<u8>, String> {
        let largest = header.packed_bytes.max(header.unpacked_bytes);
        if largest > PAGE_BYTES_MAX {
            return Err(format!("a page has {largest} bytes, more than {PAGE_BYTES_MAX}"));
        }
        let at = self.at + header.length as u64;
        let end = at + u64::from(header.packed_bytes);
        if end > self.end {
            return Err("a page is damaged: it ends behind its column".to_owned());
        }
        let body = self.source.bytes(at, header.packed_bytes as usize)?;
        if let Some(checksum) = header.checksum {
            let mut crc = Crc::new();
            crc.update(&body);
            if crc.sum() != checksum {
                return Err("a page is damaged: its checksum is another".to_owned());
            }
        }
        self.source.note_read(end - self.at);
        self.at = end;
        Ok(body)
    }

    fn dictionary(
        &mut self,
        header: &Header,
        body: &[u8],
        values: u32,
    ) -> Result<Option<Page>, String> {
        // Each value takes at least one byte.
        if values > DICTIONARY_VALUES_MAX.min(header.unpacked_bytes) {
            return Err(format!("a dictionary is damaged or too large: it has {values} values"));
        }
        let unpacked = self.codec.unpack(body, header.unpacked_bytes as usize)?;
        self.has_dictionary = true;
        let (buf, encoding) = (Bytes::from(unpacked), Encoding::PLAIN);
        Ok(Some(Page::DictionaryPage { buf, num_values: values, encoding, is_sorted: false }))
    }

    fn data(&self, header: &Header, body: &[u8]) -> Result<Page, String> {
        let unpacked_bytes = header.unpacked_bytes as usize;
        match header.content {
            Content::Apart {
                values,
                nulls,
                rows,
                encoding,
                definition_bytes,
                repetition_bytes,
                is_packed,
            } => {
                let levels = u64::from(definition_bytes) + u64::from(repetition_bytes);
                let levels =
                    usize::try_from(levels).ok().filter(|levels| *levels <= unpacked_bytes);
                let parts = levels.and_then(|levels| body.split_at_checked(levels));
                let (levels, packed) = parts.ok_or("a page is damaged: it is all levels")?;
                // Where there is no value, some writers compress nothing to nothing.
                let is_packed = is_packed && !packed.is_empty();
                let codec = if is_packed { self.codec } else { Codec::Plain };
                let unpacked = codec.unpack(packed, unpacked_bytes - levels.len())?;
                Ok(Page::DataPageV2 {
                    buf: Bytes::from([levels, &unpacked[..]].concat()),
                    num_values: values,
                    encoding: self.taken(encoding)?,
                    num_nulls: nulls,
                    num_rows: rows,
                    def_levels_byte_len: definition_bytes,
                    rep_levels_byte_len: repetition_bytes,
                    is_compressed: is_packed,
                    statistics: None,
                })
            }
            Content::Together { has_runs: false, .. } if self.has_levels => {
                Err("its levels are in an old encoding that is not taken".to_owned())
            }
            Content::Together { values, encoding, .. } => Ok(Page::DataPage {
                buf: Bytes::from(self.codec.unpack(body, unpacked_bytes)?),
                num_values: values,
                encoding: self.taken(encoding)?,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            }),
            Content::Dictionary { .. } | Content::Other => Err("a page has no values".to_owned()),
        }
    }

    /// Checks the encoding. It refuses encodings in which each value can repeat the previous one
    /// (so that few bytes become many), which state their own count of values, or in which missing
    /// values are not noticed.
    fn taken(&self, encoding: Encoding) -> Result<Encoding, String> {
        match encoding {
            Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY if !self.has_dictionary => {
                Err("a page is damaged: its dictionary is missing".to_owned())
            }
            Encoding::DELTA_LENGTH_BYTE_ARRAY
            | Encoding::DELTA_BYTE_ARRAY
            | Encoding::BYTE_STREAM_SPLIT => Err(format!(
                "its encoding {encoding} is not taken: write it as PLAIN or with a dictionary"
            )),
            other => Ok(other),
        }
    }
}

impl Iterator for Pages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        self.page().map_err(failed)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        Err(failed("pages are read one after another"))
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        Err(failed("pages are read one after another"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Regression: a compressed page without a value was damaged if nothing followed its levels.
    #[test]
    fn a_page_without_a_value_ends_with_its_levels() {
        let file = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
        let pages = Pages {
            source: Arc::new(Source::open(file).unwrap()),
            codec: Codec::Snappy,
            has_levels: true,
            at: 0,
            end: 0,
            rows_left: 0,
            has_dictionary: false,
            is_paused: false,
        };
        let header = |unpacked_bytes| Header {
            length: 0,
            packed_bytes: 0,
            unpacked_bytes,
            checksum: None,
            content: Content::Apart {
                values: 8,
                nulls: 8,
                rows: 8,
                encoding: Encoding::PLAIN,
                definition_bytes: 2,
                repetition_bytes: 0,
                is_packed: true,
            },
        };
        let levels = [16_u8, 0];
        let nothing = snap::raw::Encoder::new().compress_vec(&[]).unwrap();
        for values in [&b""[..], &nothing] {
            let page = pages.data(&header(2), &[&levels[..], values].concat()).unwrap();
            assert_eq!(page.buffer()[..], levels);
        }
        assert!(pages.data(&header(3), &levels).is_err(), "a value is missing");
    }
}
