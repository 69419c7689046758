//! File formats of exports and imports.

use std::ffi::OsStr;
use std::path::Path;

use clap::ValueEnum;

use crate::Failure;

/// True if the program was built with Parquet.
const HAS_PARQUET: bool = cfg!(feature = "parquet");

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A JSON object a line.
    Ndjson,
    /// Rows of cells under a row of names.
    Csv,
    /// A file of Apache Parquet, whose columns have types.
    Parquet,
}

impl Format {
    /// The format `asked`, else the one that the extension of `file` names, else lines of JSON.
    pub(super) fn of(asked: Option<Format>, file: Option<&Path>) -> Format {
        let ending = file.and_then(Path::extension).and_then(OsStr::to_str).unwrap_or_default();
        let named = match ending.to_ascii_lowercase().as_str() {
            "csv" => Format::Csv,
            "parquet" => Format::Parquet,
            _ => Format::Ndjson,
        };
        asked.unwrap_or(named)
    }

    /// Refuses a format that the program was built without.
    pub(super) fn check(self) -> Result<(), Failure> {
        self.check_with(HAS_PARQUET)
    }

    fn check_with(self, has_parquet: bool) -> Result<(), Failure> {
        if self != Format::Parquet || has_parquet {
            return Ok(());
        }
        Err(Failure::usage(
            "this program was built without Parquet: those of packages have it, and \
             `cargo build --release -p pellucid --features parquet` makes one that has",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_of_a_file_names_its_format() {
        let of = |asked, file: &str| Format::of(asked, Some(Path::new(file)));
        assert_eq!(of(None, "a/b.CSV"), Format::Csv);
        assert_eq!(of(Some(Format::Ndjson), "b.csv"), Format::Ndjson);
        assert_eq!([of(None, "-"), of(None, "csv"), of(None, "a.txt")], [Format::Ndjson; 3]);
        assert_eq!(Format::of(None, None), Format::Ndjson);
        assert_eq!(of(None, "a.parquet"), Format::Parquet);
    }

    #[test]
    fn a_format_that_is_not_built_in_is_refused_with_its_cure() {
        let refused = Format::Parquet.check_with(false).unwrap_err();
        assert!(refused.text.contains("--features parquet"), "{}", refused.text);
        assert!(Format::Parquet.check_with(true).is_ok() && Format::Csv.check_with(false).is_ok());
    }
}
