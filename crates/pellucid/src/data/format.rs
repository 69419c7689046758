//! Forms of files with data.

use std::ffi::OsStr;
use std::path::Path;

use clap::ValueEnum;

/// A form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A JSON object a line.
    Ndjson,
    /// Rows of cells under a row of names.
    Csv,
}

impl Format {
    /// The form that is asked for, else the one that the file's name ends with, else lines of JSON.
    pub(super) fn of(asked: Option<Format>, file: Option<&Path>) -> Format {
        let ending = file.and_then(Path::extension).and_then(OsStr::to_str).unwrap_or_default();
        let named = ending.eq_ignore_ascii_case("csv").then_some(Format::Csv);
        asked.or(named).unwrap_or(Format::Ndjson)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_name_its_form() {
        let of = |asked, file: &str| Format::of(asked, Some(Path::new(file)));
        assert_eq!(of(None, "a/b.CSV"), Format::Csv);
        assert_eq!(of(Some(Format::Ndjson), "b.csv"), Format::Ndjson);
        assert_eq!([of(None, "-"), of(None, "csv"), of(None, "a.txt")], [Format::Ndjson; 3]);
        assert_eq!(Format::of(None, None), Format::Ndjson);
    }
}
