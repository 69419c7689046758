//! Reads and writes CSV rows as in RFC 4180: commas between cells, quotes around those that need
//! them.

use csv_core::{ReadRecordResult, Reader};

/// The longest row in bytes: enough for a value of 384 MiB in base64.
const ROW_BYTES_MAX: usize = 512 << 20;
/// The most cells of a row.
const ROW_CELLS_MAX: usize = 1 << 20;
/// The initial capacity for the bytes of a row.
const FIRST_BYTES: usize = 4 << 10;
/// The initial capacity for the cells of a row.
const FIRST_CELLS: usize = 16;

/// Appends a row.
pub(super) fn write_row(cells: &[impl AsRef<[u8]>], out: &mut Vec<u8>) {
    for (place, cell) in cells.iter().map(AsRef::as_ref).enumerate() {
        if place > 0 {
            out.push(b',');
        }
        let is_special = |byte: &u8| matches!(byte, b'"' | b',' | b'\n' | b'\r');
        // Without quotes, a row of one empty cell would be an empty line, which readers skip.
        if cell.iter().any(is_special) || cell.is_empty() && cells.len() == 1 {
            out.push(b'"');
            for byte in cell {
                if *byte == b'"' {
                    out.push(b'"');
                }
                out.push(*byte);
            }
            out.push(b'"');
        } else {
            out.extend_from_slice(cell);
        }
    }
    out.push(b'\n');
}

/// The cells of a row.
#[derive(Default)]
pub(super) struct Cells {
    bytes: Vec<u8>,
    /// The end of each cell in `bytes`.
    ends: Vec<usize>,
    /// The used length of `bytes`, and below it that of `ends`.
    bytes_used: usize,
    cells_used: usize,
}

impl Cells {
    pub(super) fn len(&self) -> usize {
        self.cells_used
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let ends = &self.ends[..self.cells_used];
        let begins = std::iter::once(&0).chain(ends);
        begins.zip(ends).map(|(begin, end)| &self.bytes[*begin..*end])
    }
}

/// A parser that assembles rows from lines. A row spans several lines if a quoted cell contains
/// line ends.
pub(super) struct RowReader {
    reader: Reader,
    cells: Cells,
    /// True while a row has begun and is not complete.
    is_within: bool,
    bytes_max: usize,
    cells_max: usize,
}

impl RowReader {
    pub(super) fn new() -> RowReader {
        RowReader::with_limits(ROW_BYTES_MAX, ROW_CELLS_MAX)
    }

    fn with_limits(bytes_max: usize, cells_max: usize) -> RowReader {
        let (reader, cells) = (Reader::new(), Cells::default());
        RowReader { reader, cells, is_within: false, bytes_max, cells_max }
    }

    /// Returns true if a row has begun and is not complete.
    pub(super) fn is_within(&self) -> bool {
        self.is_within
    }

    /// The cells of the last complete row.
    pub(super) fn cells(&self) -> &Cells {
        &self.cells
    }

    /// Parses a line with its line end, or the rest of such a line. Returns the number of bytes
    /// consumed, and true if they complete a row.
    ///
    /// # Errors
    /// If the row is too long or has too many cells.
    pub(super) fn take(&mut self, line: &[u8]) -> Result<(usize, bool), String> {
        let RowReader { bytes_max, cells_max, .. } = *self;
        let mut taken = 0;
        if !self.is_within {
            // Skip empty lines, and the `\n` of a `\r\n`: the parser ends a row at the `\r`.
            taken = line.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            (self.cells.bytes_used, self.cells.cells_used) = (0, 0);
        }
        // The parser must not get empty input: it would take that for the end of the file.
        while taken < line.len() {
            self.is_within = true;
            let Cells { bytes, ends, bytes_used, cells_used } = &mut self.cells;
            let (bytes_free, ends_free) = (&mut bytes[*bytes_used..], &mut ends[*cells_used..]);
            let (result, read, written, ended) =
                self.reader.read_record(&line[taken..], bytes_free, ends_free);
            taken += read;
            *bytes_used += written;
            *cells_used += ended;
            if *bytes_used > bytes_max {
                let text =
                    format!("a row is longer than {bytes_max} bytes: is a quote not closed?");
                return Err(text);
            }
            if *cells_used > cells_max {
                return Err(format!("a row has more than {cells_max} cells: is it one row?"));
            }
            match result {
                ReadRecordResult::Record => {
                    self.is_within = false;
                    return Ok((taken, true));
                }
                // With room for one more than a row may have, a row too long is recognized.
                ReadRecordResult::OutputFull => {
                    bytes.resize((bytes.len() * 2).max(FIRST_BYTES).min(bytes_max + 1), 0);
                }
                ReadRecordResult::OutputEndsFull => {
                    ends.resize((ends.len() * 2).max(FIRST_CELLS).min(cells_max + 1), 0);
                }
                ReadRecordResult::InputEmpty | ReadRecordResult::End => {}
            }
        }
        Ok((taken, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let (mut reader, mut rows) = (RowReader::new(), Vec::new());
        for mut line in text.split_inclusive(|byte| *byte == b'\n') {
            while !line.is_empty() {
                let (taken, is_row) = reader.take(line).unwrap();
                if is_row {
                    rows.push(reader.cells().iter().map(<[u8]>::to_vec).collect());
                    assert_eq!(reader.cells().len(), reader.cells().iter().count());
                }
                line = &line[taken..];
            }
        }
        assert!(!reader.is_within(), "{}", text.escape_ascii());
        rows
    }

    #[test]
    fn rows_round_trip() {
        let long = vec![b'x'; 3 * FIRST_BYTES];
        let many = vec![&b"\""[..]; 5 * FIRST_CELLS];
        let rows: [&[&[u8]]; 8] = [
            &[b"a", b"b"],
            &[b"", b""],
            &[b""],
            &[b"\"", b"\"\"x\"", b",", b"a\"b"],
            &[b"\n", b"\r\n\r", b"x\ny", b" "],
            &["ü€\u{1f600}".as_bytes(), b"\0\xff\xfe"],
            &[&long, b"1"],
            &many,
        ];
        let mut text = Vec::new();
        for row in rows {
            write_row(row, &mut text);
        }
        let expected = rows.map(|row| row.iter().map(|cell| cell.to_vec()).collect::<Vec<_>>());
        assert_eq!(rows_of(&text), expected);
    }

    /// Regression: a row had up to twice as many bytes as the limit, and any number of cells.
    #[test]
    fn a_row_is_as_long_as_the_limits_and_no_longer() {
        let bytes_max = 3 * FIRST_BYTES;
        let take = |row: String| {
            let taken = RowReader::with_limits(bytes_max, 3 * FIRST_CELLS).take(row.as_bytes());
            taken.map(|(_, is_row)| assert!(is_row))
        };
        let long = |bytes| format!("{}\n", "x".repeat(bytes));
        assert_eq!(take(long(bytes_max)), Ok(()));
        let failure = take(long(bytes_max + 1)).unwrap_err();
        assert!(failure.contains("longer than 12288 bytes"), "{failure}");
        let wide = |cells| format!("{}\n", ",".repeat(cells - 1));
        assert_eq!(take(wide(3 * FIRST_CELLS)), Ok(()));
        let failure = take(wide(3 * FIRST_CELLS + 1)).unwrap_err();
        assert!(failure.contains("more than 48 cells"), "{failure}");
    }

    #[test]
    fn all_line_ends_are_read_and_empty_lines_are_skipped() {
        let row = |cells: &[&str]| cells.iter().map(|cell| cell.as_bytes().to_vec()).collect();
        let rows: [Vec<Vec<u8>>; 3] = [row(&["a", "b"]), row(&["1", "2 \"x\""]), row(&["", "3"])];
        for text in [
            "a,b\n1,2 \"x\"\n,3\n",
            "a,b\r\n\r\n1,2 \"x\"\r\n,3\r\n\n\n",
            "\n\na,b\r1,2 \"x\"\r,3\r",
            "\u{feff}a,b\n\"1\",\"2 \"\"x\"\"\"\n\"\",\"3\"\n",
        ] {
            assert_eq!(rows_of(text.as_bytes()), rows, "{text:?}");
        }
    }

    #[test]
    fn a_row_without_a_line_end_is_not_complete() {
        for (text, is_row_with_end) in [("a,b", true), ("a,\"b", false), ("a,\"b\"", true)] {
            let mut reader = RowReader::new();
            assert_eq!(reader.take(text.as_bytes()), Ok((text.len(), false)));
            assert!(reader.is_within());
            assert_eq!(reader.take(b"\n"), Ok((1, is_row_with_end)), "{text}");
        }
    }
}
