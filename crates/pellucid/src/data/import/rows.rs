//! Reads the rows of an input: lines of JSON, or CSV rows below a row of names.

use std::collections::HashSet;
use std::path::Path;

use super::super::csv::{Cells, RowReader};
use super::super::format::Format;
use super::excerpt::excerpt;
use super::lines::Lines;
use crate::Failure;

/// The byte order mark that some programs put at the start of UTF-8 files.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// An input in any format, read row by row.
pub(super) trait Input {
    /// The unit in which the input is counted, `line` or `row`, for messages.
    fn unit(&self) -> &'static str;

    /// The number of bytes read so far.
    fn bytes(&self) -> u64;

    /// Reads the next row; `None` at the end. The text of an error names the line or row.
    fn next(&mut self) -> Result<Option<Row<'_>>, String>;
}

/// The rows of a file of JSON lines or CSV.
pub(super) struct Rows {
    lines: Lines,
    form: RowParser,
    /// The last line to skip: rows that begin up to it are not returned.
    skipped_to: u64,
}

enum RowParser {
    Json,
    Csv {
        reader: Box<RowReader>,
        /// The number of cells that each row must have; `None` until the names are read.
        width: Option<usize>,
    },
}

/// A row, and the range of its lines.
pub(super) struct Row<'a> {
    pub(super) first_line: u64,
    pub(super) last_line: u64,
    pub(super) content: Content<'a>,
}

/// The content of a row.
pub(super) enum Content<'a> {
    Json(&'a [u8]),
    Cells(&'a Cells),
}

impl Rows {
    /// Opens a file; returns its rows after line `skipped_to`, and the names of its columns, empty
    /// if it has none.
    pub(super) fn open(
        file: &Path,
        format: Format,
        skipped_to: u64,
    ) -> Result<(Rows, Vec<String>), Failure> {
        Rows::of(Lines::open(file)?, format, skipped_to)
    }

    fn of(lines: Lines, format: Format, skipped_to: u64) -> Result<(Rows, Vec<String>), Failure> {
        if format != Format::Csv {
            return Ok((Rows { lines, form: RowParser::Json, skipped_to }, Vec::new()));
        }
        let form = RowParser::Csv { reader: Box::new(RowReader::new()), width: None };
        let mut rows = Rows { lines, form, skipped_to: 0 };
        let names = rows.names()?;
        Ok((Rows { skipped_to, ..rows }, names))
    }

    fn check_width(&self) -> Result<(), String> {
        let RowParser::Csv { reader, width: Some(width), .. } = &self.form else { return Ok(()) };
        match reader.cells().len() {
            cells if cells == *width => Ok(()),
            cells => Err(format!("it has {cells} cells, where the first row has {width} names")),
        }
    }

    fn content(&self) -> Content<'_> {
        match &self.form {
            RowParser::Json => Content::Json(json_of(&self.lines)),
            RowParser::Csv { reader, .. } => Content::Cells(reader.cells()),
        }
    }

    /// Moves to the next row; returns the line in which it begins, or `None` at the end.
    fn advance(&mut self) -> Result<Option<u64>, String> {
        let Rows { lines, form, .. } = self;
        let RowParser::Csv { reader, .. } = form else {
            while lines.advance(false)? {
                if !json_of(lines).is_empty() {
                    return Ok(Some(lines.number()));
                }
            }
            return Ok(None);
        };
        let mut first_line = lines.number();
        while lines.advance(true)? {
            if !reader.is_within() {
                first_line = lines.number();
            }
            // A row ends with a line: at most the `\n` of a `\r\n` is left behind it.
            let row = reader.take(lines.line());
            let (_, is_row) = row.map_err(|what| format!("line {first_line}: {what}"))?;
            if is_row {
                return Ok(Some(first_line));
            }
        }
        end(reader, first_line)
    }

    /// Reads the first row, which contains the column names.
    fn names(&mut self) -> Result<Vec<String>, String> {
        let name = self.lines.name().to_owned();
        let Some(Row { first_line, content: Content::Cells(cells), .. }) = self.next()? else {
            return Err(format!("{name} is empty: the first row of CSV has the names of columns"));
        };
        let text = |cell: &[u8]| std::str::from_utf8(cell).map(str::to_owned);
        let names = cells.iter().map(text).collect::<Result<Vec<_>, _>>();
        let names = names.map_err(|_| format!("line {first_line}: a name is no UTF-8"))?;
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            let name = excerpt(twice);
            return Err(format!("line {first_line}: two columns are named `{name}`"));
        }
        if let RowParser::Csv { width, .. } = &mut self.form {
            *width = Some(names.len());
        }
        Ok(names)
    }
}

impl Input for Rows {
    fn unit(&self) -> &'static str {
        "line"
    }

    fn bytes(&self) -> u64 {
        self.lines.bytes()
    }

    fn next(&mut self) -> Result<Option<Row<'_>>, String> {
        loop {
            let Some(first_line) = self.advance()? else { return Ok(None) };
            if first_line > self.skipped_to {
                self.check_width().map_err(|what| format!("line {first_line}: {what}"))?;
                let last_line = self.lines.number();
                return Ok(Some(Row { first_line, last_line, content: self.content() }));
            }
        }
    }
}

/// The current line without surrounding white space, and without a byte order mark.
fn json_of(lines: &Lines) -> &[u8] {
    let line = lines.line();
    let line = if lines.number() == 1 { line.strip_prefix(MARK).unwrap_or(line) } else { line };
    line.trim_ascii()
}

/// Completes the last row of the input, whose last line may lack a line end.
fn end(reader: &mut RowReader, first_line: u64) -> Result<Option<u64>, String> {
    if !reader.is_within() {
        return Ok(None);
    }
    match reader.take(b"\n")? {
        (_, true) => Ok(Some(first_line)),
        (_, false) => Err(format!("line {first_line}: a quote is not closed to the end")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    type Seen = Vec<(u64, u64, String)>;

    fn rows(text: &'static str, format: Format, skipped_to: u64) -> Result<Rows, Failure> {
        // So few bytes at a time that line ends are split.
        let input = BufReader::with_capacity(2, text.as_bytes());
        let lines = Lines::new("x".to_owned(), Box::new(input));
        Rows::of(lines, format, skipped_to).map(|(rows, _)| rows)
    }

    fn all(mut rows: Rows) -> Result<Seen, String> {
        let mut all = Vec::new();
        while let Some(Row { first_line, last_line, content }) = rows.next()? {
            let text = match content {
                Content::Json(line) => line.escape_ascii().to_string(),
                Content::Cells(cells) => {
                    let cells = cells.iter().map(|cell| cell.escape_ascii().to_string());
                    cells.collect::<Vec<_>>().join("|")
                }
            };
            all.push((first_line, last_line, text));
        }
        Ok(all)
    }

    fn seen(rows: &[(u64, u64, &str)]) -> Seen {
        rows.iter().map(|(first, last, text)| (*first, *last, (*text).to_owned())).collect()
    }

    /// Regression: rows that end with `\r` were all on line 1, and were lost behind `--skip 1`.
    #[test]
    fn rows_know_the_numbers_of_their_lines() {
        let json = "\u{feff}{}\r\n\n [1] \n2";
        let read = |text, format, skipped| all(rows(text, format, skipped).unwrap()).unwrap();
        let expected = [(1, 1, "{}"), (3, 3, "[1]"), (4, 4, "2")];
        assert_eq!(read(json, Format::Ndjson, 0), seen(&expected));
        assert_eq!(read(json, Format::Ndjson, 2), seen(&expected[1..]));
        let expected = [(3, 3, "1|2"), (4, 6, "3\\n\\n|4"), (7, 7, "5|")];
        for csv in [
            "a,b\n\n1,2\n\"3\n\n\",4\n5,",
            "a,b\r\n\r\n1,2\r\n\"3\n\n\",4\r\n5,\r\n",
            "a,b\n\n1,2\n\"3\n\n\",4\n5,\"\"",
        ] {
            assert_eq!(read(csv, Format::Csv, 0), seen(&expected), "{csv:?}");
            assert_eq!(read(csv, Format::Csv, 3), seen(&expected[1..]), "{csv:?}");
            assert_eq!(read(csv, Format::Csv, 6), seen(&expected[2..]), "{csv:?}");
            assert_eq!(read(csv, Format::Csv, 7), seen(&[]), "{csv:?}");
        }
        let returns = "a,b\r1,2\r\"3\r\r\n\",4\r";
        let expected = [(2, 2, "1|2"), (3, 5, "3\\r\\r\\n|4")];
        assert_eq!(read(returns, Format::Csv, 0), seen(&expected));
        assert_eq!(read(returns, Format::Csv, 2), seen(&expected[1..]));
    }

    #[test]
    fn errors_in_csv_name_their_line() {
        for (text, what) in [
            ("", "x is empty"),
            ("\n\n", "x is empty"),
            ("\na,b,a\n", "line 2: two columns are named `a`"),
            ("a\n\n\"b", "line 3: a quote is not closed"),
            ("a,b\n1,2\n3\n", "line 3: it has 1 cells, where the first row has 2 names"),
        ] {
            let failed = match rows(text, Format::Csv, 0) {
                Ok(rows) => all(rows).unwrap_err(),
                Err(failure) => failure.text,
            };
            assert!(failed.contains(what), "{text:?}: {failed}");
        }
    }
}
