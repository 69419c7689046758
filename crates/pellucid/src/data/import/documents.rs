//! Imports documents into a collection, batch after batch.

use clap::ValueEnum;
use pellucid_client::http::HttpRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::PATIENCE;
use super::super::cells::write_value;
use super::super::csv::Cells;
use super::super::json::is_json;
use super::excerpt::excerpt;
use super::rows::Content;
use super::target::{Refusal, Target};
use crate::Failure;
use crate::remote_server::{Answer, RemoteServer, encoded, question};

/// The right that writing needs.
const RIGHT: &str = "database/NAME/COLLECTION=write";
/// The right that making a collection needs.
const RIGHT_TO_MAKE: &str = "database/NAME=write";
/// Error number: a collection with this name exists already.
const THERE_ALREADY: u64 = 1_207;
/// Error number: the collection does not exist.
const NO_COLLECTION: u64 = 1_203;
/// Error number: the key exists, or a unique index has the same values.
const NOT_UNIQUE: u64 = 1_210;
/// Error number: the batch needs too much memory.
const TOO_LARGE: u64 = 32;
/// The number of the error for a full store.
const FULL: u64 = 1104;

/// The effect of documents whose keys are there already.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum DuplicatePolicy {
    /// The batch is refused.
    Error,
    /// They are merged into those that are there.
    Update,
    /// They take their places.
    Replace,
    /// They are left out.
    Ignore,
}

/// A kind of collection.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Kind {
    /// Documents.
    Documents,
    /// Edges, which have `_from` and `_to`.
    Edges,
}

/// A collection that documents are written to.
pub(super) struct TargetCollection<'a> {
    pub(super) remote: &'a RemoteServer,
    pub(super) database: &'a str,
    pub(super) collection: &'a str,
}

/// A collection as the target of an import.
pub(super) struct DocumentTarget<'a> {
    place: TargetCollection<'a>,
    /// The query parameters of each request, except those that depend on the batch.
    parameters: String,
    /// The names of the columns: as JSON strings, and as plain text.
    names: Vec<(String, String)>,
    infers: bool,
    report: Report,
}

/// The server's report of an import.
#[derive(Default, Deserialize)]
struct Report {
    created: u64,
    errors: u64,
    updated: u64,
    ignored: u64,
    #[serde(default)]
    details: Vec<String>,
}

/// The number and the message of an error of the document API.
#[derive(Deserialize)]
struct ErrorBody {
    #[serde(rename = "errorNum")]
    number: u64,
    #[serde(rename = "errorMessage")]
    message: String,
}

impl TargetCollection<'_> {
    /// Makes the collection if it does not exist.
    pub(super) fn make(&self, kind: Kind) -> Result<(), Failure> {
        let number = match kind {
            Kind::Documents => 2,
            Kind::Edges => 3,
        };
        let path = format!("/_db/{}/_api/collection", encoded(self.database));
        let body = json!({ "name": self.collection, "type": number }).to_string();
        let asked = question("POST", &path, body.as_bytes(), PATIENCE);
        let answer = self.remote.ask(&asked)?;
        let is_there = error_of(&answer).is_some_and(|error| error.number == THERE_ALREADY);
        if is_there || (200..300).contains(&answer.status) {
            return Ok(());
        }
        Err(answer.failure(RIGHT_TO_MAKE))
    }

    /// Fails if the collection does not exist. Otherwise the import of an empty file would succeed.
    pub(super) fn find(&self) -> Result<(), Failure> {
        let (database, collection) = (encoded(self.database), encoded(self.collection));
        let path = format!("/_db/{database}/_api/collection/{collection}");
        let answer =
            self.remote.ask(&HttpRequest { patience: PATIENCE, ..HttpRequest::get(&path) })?;
        if answer.status == 200 {
            return Ok(());
        }
        Err(Failure::work(format!("{}; nothing is written", refusal(&answer).text)))
    }
}

impl<'a> DocumentTarget<'a> {
    /// Makes the target. `names` are the column names of the input, empty if it has none. If
    /// `survives_machine`, each batch is synced to disk.
    pub(super) fn new(
        place: TargetCollection<'a>,
        on_duplicate: DuplicatePolicy,
        survives_machine: bool,
        names: &[String],
        infers: bool,
    ) -> DocumentTarget<'a> {
        let effect = on_duplicate.to_possible_value().unwrap_or_default();
        let effect = effect.get_name();
        let collection = encoded(place.collection);
        let mut parameters =
            format!("collection={collection}&type=documents&details=true&onDuplicate={effect}");
        if survives_machine {
            parameters += "&waitForSync=true";
        }
        let names = names.iter().map(|name| (Value::from(&**name).to_string(), name.clone()));
        let names = names.collect();
        DocumentTarget { place, parameters, names, infers, report: Report::default() }
    }

    /// Converts a row to a document. An empty cell means that the attribute is missing.
    fn document(&self, cells: &Cells) -> Result<Vec<u8>, String> {
        let mut document = vec![b'{'];
        let named = self.names.iter().zip(cells.iter());
        for ((written, name), cell) in named.filter(|(_, cell)| !cell.is_empty()) {
            if document.len() > 1 {
                document.push(b',');
            }
            document.extend_from_slice(written.as_bytes());
            document.push(b':');
            write_value(name, cell, self.infers, &mut document)?;
        }
        document.push(b'}');
        Ok(document)
    }
}

impl Target for DocumentTarget<'_> {
    /// A line of JSON.
    type Item = Vec<u8>;

    const AGAIN: &'static str = "with --on-duplicate ignore or replace, those that have a `_key` \
                                 may be sent again without harm";

    fn item(&mut self, content: &Content<'_>) -> Result<Option<Vec<u8>>, String> {
        match content {
            Content::Cells(cells) => self.document(cells).map(Some),
            Content::Json(line) => {
                let is_object = line.starts_with(b"{") && is_json(line);
                if !is_object || std::str::from_utf8(line).is_err() {
                    return Err("it is no JSON object".to_owned());
                }
                Ok(Some(line.to_vec()))
            }
        }
    }

    fn bytes(document: &Vec<u8>) -> usize {
        document.len()
    }

    fn write(&mut self, documents: &[Vec<u8>]) -> Result<(), Refusal> {
        let TargetCollection { remote, database, .. } = &self.place;
        // A single document is all or nothing anyway.
        let complete = if documents.len() > 1 { "&complete=true" } else { "" };
        let path = format!("/_db/{}/_api/import?{}{complete}", encoded(database), self.parameters);
        let body = documents.join(&b'\n');
        let asked = question("POST", &path, &body, PATIENCE);
        let answer = remote.ask(&asked).map_err(Refusal::unanswered)?;
        if answer.status != 201 {
            return Err(refusal(&answer));
        }
        let report = serde_json::from_slice::<Report>(&answer.body).map_err(|error| {
            let text = format!("the server's answer is no report of an import: {error}");
            Refusal { text, place: None, is_undone: false }
        })?;
        if report.errors > 0 {
            let text = report.details.first().map_or("it is refused", String::as_str);
            let (place, text) = placed(text);
            return Err(Refusal { text: excerpt(text), place, is_undone: true });
        }
        self.report.created += report.created;
        self.report.updated += report.updated;
        self.report.ignored += report.ignored;
        Ok(())
    }

    fn summary(&self) -> String {
        let Report { created, updated, ignored, .. } = self.report;
        let mut text = format!("{created} documents are new");
        for (count, what) in [(updated, "updated or replaced"), (ignored, "were there already")] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        text
    }
}

fn error_of(answer: &Answer) -> Option<ErrorBody> {
    serde_json::from_slice(&answer.body).ok()
}

fn refusal(answer: &Answer) -> Refusal {
    let Some(ErrorBody { number, message }) = error_of(answer) else {
        return Refusal::answered(answer.status, answer.failure(RIGHT).text, None);
    };
    let (place, message) = placed(&message);
    // The server's cure is a parameter of its API.
    let message = message.split(": leave out `complete`").next().unwrap_or(message);
    let cure = match number {
        NO_COLLECTION => ": --create documents makes it",
        NOT_UNIQUE => ": --on-duplicate says what is done with keys that are there",
        TOO_LARGE => ": give a smaller --batch",
        _ => "",
    };
    let text = answer.refusal(&format!("{}{cure} ({number})", excerpt(message)), RIGHT);
    let refusal = Refusal::answered(answer.status, text, place);
    // The server names a position only before it writes.
    let is_undone = refusal.is_undone || place.is_some() || [TOO_LARGE, FULL].contains(&number);
    Refusal { is_undone, ..refusal }
}

/// Splits a message of the server into the place in the batch that it begins with, and the rest.
fn placed(text: &str) -> (Option<usize>, &str) {
    let parts = text.strip_prefix("at position ").and_then(|text| text.split_once(": "));
    match parts.map(|(number, rest)| (number.parse::<usize>(), rest)) {
        Some((Ok(place), rest)) => (Some(place), rest),
        _ => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the cure was a parameter of the API, which is no flag of the command.
    #[test]
    fn the_cure_of_a_batch_that_is_too_large_is_a_flag() {
        let message = "too large to be all or nothing: leave out `complete`, or import less";
        let body = json!({ "errorNum": TOO_LARGE, "errorMessage": message }).to_string();
        let text = refusal(&Answer { status: 500, body: body.into_bytes() }).text;
        assert!(text.contains("all or nothing: give a smaller --batch (32)"), "{text}");
    }

    #[test]
    fn the_place_of_a_refused_document_is_parsed() {
        assert_eq!(placed("at position 7: no: way"), (Some(7), "no: way"));
        for text in ["at position x: no", "at position 7", "no"] {
            assert_eq!(placed(text), (None, text));
        }
        let is_undone = |number: u64, message: &str| {
            let body = json!({ "errorNum": number, "errorMessage": message });
            refusal(&Answer { status: 500, body: body.to_string().into_bytes() }).is_undone
        };
        assert!(is_undone(4, "at position 7: no") && !is_undone(4, "no"));
        // Regression: whether lines were written to a full store was said to be unknown.
        assert!(is_undone(FULL, "no room"));
    }
}
