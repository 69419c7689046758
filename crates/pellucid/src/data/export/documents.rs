//! Exports the documents of a collection.

use std::time::Duration;

use serde_json::json;

use super::super::RUNTIME_SECONDS;
use super::super::csv::write_row;
use super::super::json::{Member, members};
use super::super::results::{BATCH_RESULTS, DatabaseClient};
use super::columns::{Columns, MADE_ANEW, no_document};
use super::export_output::ExportOutput;
#[cfg(feature = "parquet")]
use super::kinds::{KINDS, Kinds};
#[cfg(feature = "parquet")]
use super::table::Table;
use crate::Failure;
use crate::remote_server::RemoteServer;

/// A function that appends a document, given as JSON, in the format of the export.
type DocumentEncoder<'a> = dyn FnMut(&[u8], &mut Vec<u8>) -> Result<(), Failure> + 'a;

/// The query for all documents, as they are stored.
const DOCUMENTS: &str = "FOR document IN @@collection RETURN document";
/// The query for the names of all attributes.
const NAMES: &str =
    "FOR document IN @@collection FOR name IN ATTRIBUTES(document) RETURN DISTINCT name";
/// The idle time in seconds after which the server drops the cursor: the longest that a server
/// allows, for a slow reader of the export.
const WAIT_SECONDS: u32 = 3_600;
/// An export of a collection.
pub(super) struct Export<'a> {
    pub(super) remote: &'a RemoteServer,
    pub(super) database: &'a str,
    pub(super) collection: &'a str,
}

impl Export<'_> {
    /// Writes each document as a line of JSON; its values are copied unchanged.
    pub(super) fn lines(&self, to: &mut ExportOutput) -> Result<(), Failure> {
        self.walk(to, &mut write_line)
    }

    /// Writes each document as a row of CSV. The columns are `attributes`, or all attributes if it
    /// is empty.
    pub(super) fn rows(&self, attributes: &[String], to: &mut ExportOutput) -> Result<(), Failure> {
        let columns = match attributes {
            [] => Columns::all(self.names()?),
            some => Columns::some(some),
        };
        write_row(columns.names(), &mut to.text);
        self.walk(to, &mut |document, text| {
            write_row(&columns.cells(document)?, text);
            Ok(())
        })
    }

    /// Writes each document as a row of Parquet. The columns are `attributes`, or all attributes if
    /// it is empty.
    #[cfg(feature = "parquet")]
    pub(super) fn parquet(
        &self,
        attributes: &[String],
        to: &mut ExportOutput,
    ) -> Result<(), Failure> {
        let mut kinds = Kinds::default();
        self.asked().results(&self.query(KINDS, false), &mut |results| {
            results.iter().try_for_each(|result| kinds.note(result))?;
            Ok(true)
        })?;
        let columns = match attributes {
            [] => Columns::all(kinds.names()),
            some => Columns::some(some),
        };
        let mut table = Table::new(columns, &kinds)?;
        self.walk(to, &mut |document, text| table.add(document, text))?;
        to.text.append(&mut table.end()?);
        Ok(())
    }

    /// Reads all documents and writes each with `add`.
    fn walk(&self, to: &mut ExportOutput, add: &mut DocumentEncoder<'_>) -> Result<(), Failure> {
        self.asked().results(&self.query(DOCUMENTS, true), &mut |documents| {
            for document in documents {
                to.count(document.len());
                add(document, &mut to.text)?;
            }
            to.flush().map_err(Failure::work)
        })
    }

    /// Asks for the names of all attributes.
    fn names(&self) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        self.asked().results(&self.query(NAMES, false), &mut |results| {
            for name in results {
                names.push(serde_json::from_slice::<String>(name).map_err(|_| no_document())?);
            }
            Ok(true)
        })?;
        Ok(names)
    }

    fn asked(&self) -> DatabaseClient<'_> {
        let patience = Duration::from_secs(RUNTIME_SECONDS);
        DatabaseClient { remote: self.remote, database: self.database, patience }
    }

    fn query(&self, query: &str, is_stream: bool) -> String {
        json!({
            "query": query,
            "bindVars": { "@collection": self.collection },
            "batchSize": BATCH_RESULTS,
            "ttl": WAIT_SECONDS,
            "options": { "stream": is_stream },
        })
        .to_string()
    }
}

/// Appends a document as a line of JSON, without the attributes [`MADE_ANEW`].
fn write_line(document: &[u8], text: &mut Vec<u8>) -> Result<(), Failure> {
    text.push(b'{');
    let mut is_first = true;
    for Member { name, value } in members(document).ok_or_else(no_document)? {
        let bare = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\""));
        if MADE_ANEW.iter().any(|made| bare == Some(made.as_bytes())) {
            continue;
        }
        if !is_first {
            text.push(b',');
        }
        is_first = false;
        text.extend_from_slice(name);
        text.push(b':');
        text.extend_from_slice(value);
    }
    text.extend_from_slice(b"}\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_all_values_and_omits_generated_attributes() {
        let mut text = Vec::new();
        write_line(br#"{"_key":"7","_id":"c/7","_rev":"_1","n":{"_id":1.50}}"#, &mut text).unwrap();
        write_line(br#"{"_id":"c/7"}"#, &mut text).unwrap();
        assert_eq!(text, b"{\"_key\":\"7\",\"n\":{\"_id\":1.50}}\n{}\n");
        assert!(write_line(b"[1]", &mut text).is_err());
    }
}
