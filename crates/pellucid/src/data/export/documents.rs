//! Documents of a collection as a file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::RUNTIME_SECONDS;
use super::super::cells::cell_of;
use super::super::csv::write_row;
use super::super::json::{Member, members};
use super::super::out::Out;
use super::super::results::{Asked, BATCH_RESULTS};
use crate::Failure;
use crate::progress::Progress;
use crate::remote::Remote;

/// Appends a document, given as JSON, in the form of the export.
type Add<'a> = dyn Fn(&[u8], &mut Vec<u8>) -> Result<(), Failure> + 'a;

/// All documents, as they are stored.
const DOCUMENTS: &str = "FOR document IN @@collection RETURN document";
/// The names of all attributes.
const NAMES: &str =
    "FOR document IN @@collection FOR name IN ATTRIBUTES(document) RETURN DISTINCT name";
/// The seconds that a result waits for who reads it slowly: the most that a server grants.
const WAIT_SECONDS: u32 = 3_600;
/// Attributes that a server makes anew in another collection.
const MADE_ANEW: [&str; 2] = ["_id", "_rev"];
/// Attributes that stand first, if there are such.
const FIRST: [&str; 3] = ["_key", "_from", "_to"];

/// An export of a collection.
pub(super) struct Export<'a> {
    pub(super) remote: &'a Remote,
    pub(super) database: &'a str,
    pub(super) collection: &'a str,
}

/// The columns of a table of documents.
struct Columns {
    names: Vec<String>,
    places: HashMap<String, usize>,
    /// A document may have attributes that are no columns.
    are_some: bool,
}

impl Export<'_> {
    /// Writes each document as a line of JSON, as the server wrote it.
    pub(super) fn lines(&self, out: &mut Out, progress: &mut Progress) -> Result<(), Failure> {
        self.walk(Vec::new(), out, progress, &write_line)
    }

    /// Writes each document as a row of CSV with these attributes, or with all if none are named.
    pub(super) fn rows(
        &self,
        attributes: &[String],
        out: &mut Out,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let are_some = !attributes.is_empty();
        let names = if are_some { attributes.to_vec() } else { self.names()? };
        let places = names.iter().cloned().zip(0..).collect();
        let columns = Columns { names, places, are_some };
        let mut text = Vec::new();
        write_row(&columns.names, &mut text);
        self.walk(text, out, progress, &|document, text| {
            write_row(&columns.cells(document)?, text);
            Ok(())
        })
    }

    /// Writes the text, and then all documents as `add` does.
    fn walk(
        &self,
        mut text: Vec<u8>,
        out: &mut Out,
        progress: &mut Progress,
        add: &Add<'_>,
    ) -> Result<(), Failure> {
        let (mut count, mut bytes) = (0, 0);
        self.asked().results(&self.query(DOCUMENTS, true), &mut |documents| {
            for document in documents {
                count += 1;
                bytes += document.len() as u64;
                add(document, &mut text)?;
            }
            progress.show(count, bytes);
            let is_read = out.write(&text);
            text.clear();
            is_read.map_err(Failure::work)
        })
    }

    /// The names of all attributes, but for those that are made anew.
    fn names(&self) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        self.asked().results(&self.query(NAMES, false), &mut |results| {
            for name in results {
                names.push(serde_json::from_slice::<String>(name).map_err(|_| no_document())?);
            }
            Ok(true)
        })?;
        names.retain(|name| !MADE_ANEW.contains(&name.as_str()));
        let rank = |name: &String| FIRST.iter().position(|first| first == name);
        names.sort_by_cached_key(|name| (rank(name).unwrap_or(FIRST.len()), name.clone()));
        if names.is_empty() {
            // The collection is empty.
            names.push("_key".to_owned());
        }
        Ok(names)
    }

    fn asked(&self) -> Asked<'_> {
        let patience = Duration::from_secs(RUNTIME_SECONDS);
        Asked { remote: self.remote, database: self.database, patience }
    }

    fn query(&self, query: &str, is_stream: bool) -> Value {
        json!({
            "query": query,
            "bindVars": { "@collection": self.collection },
            "batchSize": BATCH_RESULTS,
            "ttl": WAIT_SECONDS,
            "options": { "stream": is_stream },
        })
    }
}

impl Columns {
    /// The cells of a document's row.
    fn cells<'a>(&self, document: &'a [u8]) -> Result<Vec<Cow<'a, [u8]>>, Failure> {
        let mut cells = vec![Cow::default(); self.names.len()];
        for Member { name, value } in members(document).ok_or_else(no_document)? {
            let name = serde_json::from_slice::<String>(name).map_err(|_| no_document())?;
            match self.places.get(&name) {
                Some(place) => {
                    cells[*place] = cell_of(&name, value).ok_or_else(no_document)?;
                }
                None if self.are_some || MADE_ANEW.contains(&name.as_str()) => {}
                None => {
                    return Err(Failure::work(format!(
                        "a document has the attribute `{name}`, which none had when the export \
                         began: begin again, or name the columns with --attributes"
                    )));
                }
            }
        }
        Ok(cells)
    }
}

/// Appends a document as a line, without what is made anew.
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

fn no_document() -> Failure {
    Failure::work("the server's result is no document; is it Pellucid?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &[&str], are_some: bool) -> Columns {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let places = names.iter().cloned().zip(0..).collect();
        Columns { names, places, are_some }
    }

    #[test]
    fn a_line_is_what_the_server_wrote_without_what_is_made_anew() {
        let mut text = Vec::new();
        write_line(br#"{"_key":"7","_id":"c/7","_rev":"_1","n":{"_id":1.50}}"#, &mut text).unwrap();
        write_line(br#"{"_id":"c/7"}"#, &mut text).unwrap();
        assert_eq!(text, b"{\"_key\":\"7\",\"n\":{\"_id\":1.50}}\n{}\n");
        assert!(write_line(b"[1]", &mut text).is_err());
    }

    #[test]
    fn an_attribute_is_a_cell() {
        let document = br#"{"_key":"7","_id":"c/7","_rev":"_1","a b":"x","n":[1.0]}"#;
        let of = |columns: &Columns| {
            let cells = columns.cells(document)?;
            Ok::<_, Failure>(cells.iter().map(|cell| cell.escape_ascii().to_string()).collect())
        };
        let all: Vec<String> = of(&columns(&["_key", "n", "a b", "none"], false)).unwrap();
        assert_eq!(all, ["7", "[1.0]", "x", ""]);
        let some: Vec<String> = of(&columns(&["_rev"], true)).unwrap();
        assert_eq!(some, ["_1"]);
        let failure = of(&columns(&["_key"], false)).err().unwrap();
        assert!(failure.text.contains("`a b`"), "{}", failure.text);
    }
}
