//! Import of many documents from one body: JSON lines, a JSON array, or rows of values below a row
//! of attribute names.

use std::ops::Range;
use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_aql::OverwriteMode as Overwrite;
use pellucid_budget::{Budget, Share};
use pellucid_store::Acknowledgement;
use pellucid_value::json::{Parser, parse_packed, to_string};
use pellucid_value::packed::{self, Builder};
use pellucid_value::{DuplicateRule, Number, ObjectRef, Ref};

use crate::attempt::attempt_to_end;
use crate::changes::{CHANGE_BYTES, TRANSACTION_BYTES_MAX};
use crate::collection::Collection;
use crate::documents::Documents;
use crate::error::{CancellationCheck, DocumentError, ErrorNumber, Result};
use crate::transaction::{Rewrite, Transaction, WriteOptions};

/// The number of documents at which a batch is written.
const DOCUMENTS_AT_ONCE: usize = 2_000;

/// The bytes of packed documents at which a batch is written.
const BYTES_AT_ONCE: usize = 2 << 20;

/// The most error descriptions in a report. Further errors are only counted.
const DETAILS_MAX: usize = 10_000;

/// The most bytes of the error descriptions in a report: 16 MiB.
const DETAILS_BYTES_MAX: usize = 16 << 20;

/// The bytes of a document that waits besides its own: its place, and later its outcome.
const PLACE_BYTES: usize = size_of::<(u64, Range<usize>)>() + size_of::<ImportOutcome>();

/// The form of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportForm {
    /// One document per line.
    Lines,
    /// One JSON array of documents.
    Array,
    /// `Array` if the first byte that is not white space is `[`, otherwise `Lines`.
    Auto,
    /// A JSON array of names in the first line, and one of values in each further line.
    #[default]
    Rows,
}

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The form of the body.
    pub form: ImportForm,
    /// The effect of a document whose key exists.
    pub on_duplicate: Overwrite,
    /// Empty the collection before the first document is written. The form of the body is checked
    /// before that.
    pub overwrite: bool,
    /// Import all documents or none: the first error ends the import, and nothing is written. With
    /// `overwrite`, an error of a write comes after the collection was emptied, and does not undo
    /// that.
    pub complete: bool,
    /// Describe the errors. With `complete`, the error tells the position of the document.
    pub details: bool,
    /// The collection to put before `_from` where that names none.
    pub from_prefix: Option<String>,
    /// The collection to put before `_to` where that names none.
    pub to_prefix: Option<String>,
    /// The prefixes also replace a collection that `_from` or `_to` names.
    pub overwrite_collection_prefix: bool,
    /// Accept rows with fewer or more values than there are names.
    pub ignore_missing: bool,
    /// The acknowledgement of the writes.
    pub acknowledgement: Acknowledgement,
    /// The budget from which a `complete` import takes its memory; no limit if `None`.
    pub memory: Option<Budget>,
}

impl ImportOptions {
    /// A share of the budget. Without `complete`, batches are small and take none.
    fn share(&self) -> Option<Share> {
        let budget = self.memory.as_ref().filter(|_| self.complete)?;
        Some(budget.share(usize::MAX))
    }
}

/// The report of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Documents that were inserted.
    pub created: u64,
    /// Documents that were refused.
    pub errors: u64,
    /// Lines without a document.
    pub empty: u64,
    /// Documents that were updated or replaced.
    pub updated: u64,
    /// Documents that were left out because their key exists.
    pub ignored: u64,
    /// Descriptions of the errors, if the options ask for them.
    pub details: Vec<String>,
}

/// An import under way.
struct Import<'a> {
    /// True in the pass that only checks the form of the body and writes nothing.
    only_checks: bool,
    documents: &'a Arc<Documents>,
    collection: &'a Arc<Collection>,
    options: &'a ImportOptions,
    check_cancelled: CancellationCheck<'a>,
    report: ImportReport,
    /// Bytes of the report's details.
    details_bytes: usize,
    /// Packed documents that wait to be written, one after another.
    waiting: Vec<u8>,
    /// The position in the body and the range in `waiting` of each of them.
    places: Vec<(u64, Range<usize>)>,
    /// The memory of both; with `overwrite`, also that of the values that are written of them.
    memory: Option<Share>,
}

/// The result of importing one document.
enum ImportOutcome {
    Created,
    Updated,
    Ignored,
    Refused(DocumentError),
}

/// Imports documents. It blocks on the store. `check_cancelled` is called for each batch.
///
/// # Errors
/// 400 or 600 for a body that does not have the form, before anything is written. The error of
/// `check_cancelled`. With `complete`, the error of the first document that fails, or 32 for an
/// import that is too large for one transaction or for the memory that is left. Errors of the
/// store.
pub fn import(
    documents: &Arc<Documents>,
    collection: &Arc<Collection>,
    body: &[u8],
    options: &ImportOptions,
    check_cancelled: CancellationCheck<'_>,
    timeline: &mut Timeline,
) -> Result<ImportReport> {
    let begin = |only_checks| Import {
        only_checks,
        documents,
        collection,
        options,
        check_cancelled,
        report: ImportReport::default(),
        details_bytes: 0,
        waiting: Vec::new(),
        places: Vec::new(),
        memory: options.share(),
    };
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    let form = match options.form {
        ImportForm::Auto if first == Some(&b'[') => ImportForm::Array,
        ImportForm::Auto => ImportForm::Lines,
        form => form,
    };
    let may_be_malformed = match form {
        ImportForm::Array => true,
        // A bad row of names fails before the first write; only a truncation would come earlier.
        ImportForm::Rows => options.overwrite,
        ImportForm::Auto | ImportForm::Lines => false,
    };
    // A `complete` import needs no pass of its own: it reads the whole body before it writes.
    if may_be_malformed && !options.complete {
        begin(true).read(form, body, timeline)?;
    }
    let mut import = begin(false);
    if options.overwrite && !options.complete {
        documents.truncate(collection)?;
    }
    import.read(form, body, timeline)?;
    if options.overwrite && options.complete {
        documents.truncate(collection)?;
    }
    import.write(timeline)?;
    Ok(import.report)
}

impl Import<'_> {
    fn read(&mut self, form: ImportForm, body: &[u8], timeline: &mut Timeline) -> Result<()> {
        match form {
            ImportForm::Array => self.array(body, timeline),
            ImportForm::Auto | ImportForm::Lines => self.lines(body, timeline),
            ImportForm::Rows => self.rows(body, timeline),
        }
    }

    fn lines(&mut self, body: &[u8], timeline: &mut Timeline) -> Result<()> {
        let mut parser = Parser::of_text("", DuplicateRule::Refuse);
        if let Ok(text) = std::str::from_utf8(body) {
            let text = text.strip_suffix('\n').unwrap_or(text);
            let is_empty = text.is_empty();
            let lines = text.split('\n').filter(|_| !is_empty);
            for (number, line) in (0..).zip(lines) {
                self.line(&mut parser, number, line.trim_ascii(), timeline)?;
            }
            return Ok(());
        }
        for (number, line) in lines_of(body) {
            match std::str::from_utf8(line) {
                Ok(line) => self.line(&mut parser, number, line, timeline)?,
                Err(_) => self.unparsable(number, line)?,
            }
        }
        Ok(())
    }

    /// Takes a line, which is a document if it is not empty.
    fn line<'a>(
        &mut self,
        parser: &mut Parser<'a>,
        number: u64,
        line: &'a str,
        timeline: &mut Timeline,
    ) -> Result<()> {
        if line.is_empty() {
            self.report.empty += 1;
            return Ok(());
        }
        match parser.whole(line) {
            Ok(document) => self.document(number, document)?,
            Err(_) => self.unparsable(number, line.as_bytes())?,
        }
        self.write_if_full(timeline)
    }

    fn array(&mut self, body: &[u8], timeline: &mut Timeline) -> Result<()> {
        let bad = |error: pellucid_value::json::JsonError| {
            let message = format!("VPackError error: {error}");
            DocumentError::new(ErrorNumber::CORRUPTED_JSON, message)
        };
        let mut parser = Parser::new(body, DuplicateRule::Refuse).map_err(bad)?;
        parser.skip_space();
        if !parser.take(b'[') {
            let message = "expecting a JSON array in the request";
            return Err(DocumentError::new(ErrorNumber::HTTP_BAD_PARAMETER, message));
        }
        let mut number = 0;
        while let Some(document) = parser.element(number == 0).map_err(bad)? {
            number += 1;
            self.document(number, document)?;
            self.write_if_full(timeline)?;
        }
        parser.skip_space();
        parser.expect_end().map_err(bad)
    }

    fn rows(&mut self, body: &[u8], timeline: &mut Timeline) -> Result<()> {
        let bad = |message: &str| DocumentError::new(ErrorNumber::HTTP_BAD_PARAMETER, message);
        let mut lines = lines_of(body);
        let (_, first) = lines.next().unwrap_or((0, b""));
        let no_names = || bad("no JSON array found in second line");
        let names = parse_packed(first, DuplicateRule::Refuse);
        let names = names.map_err(|_| no_names())?;
        let Ok(Ref::Array(names)) = packed::open(&names) else { return Err(no_names()) };
        let mut attributes = Vec::new();
        for name in names.iter() {
            attributes.push(name.as_str().ok_or_else(|| bad("attribute names are strings"))?);
        }
        for (number, line) in lines {
            if line.is_empty() {
                self.report.empty += 1;
                continue;
            }
            let row = parse_packed(line, DuplicateRule::Refuse);
            match row.as_deref().map(packed::open) {
                Ok(Ok(Ref::Array(values))) => {
                    if values.len() != attributes.len() && !self.options.ignore_missing {
                        let message = format!("at position {number}: wrong number of JSON values");
                        self.refuse(message, ErrorNumber::HTTP_BAD_PARAMETER.into())?;
                        continue;
                    }
                    let mut builder = Builder::with(DuplicateRule::First);
                    builder.begin_object();
                    for (name, value) in attributes.iter().zip(values.iter()) {
                        if !matches!(value, Ref::Null) {
                            builder.name(name);
                            builder.value(value);
                        }
                    }
                    builder.end();
                    match builder.finish() {
                        Ok(document) => self.document(number, &document)?,
                        Err(over) => {
                            let message = format!("at position {number}: {over}");
                            self.refuse(message, ErrorNumber::TOO_MUCH_NESTING.into())?;
                            continue;
                        }
                    }
                }
                _ => self.unparsable(number, line)?,
            }
            self.write_if_full(timeline)?;
        }
        Ok(())
    }

    /// Refuses a `complete` import of more documents than fit in one transaction.
    fn check_size(&self) -> Result<()> {
        let is_large = self.places.len() * CHANGE_BYTES >= TRANSACTION_BYTES_MAX;
        // With `Ignore`, documents that exist add no changes, so their number says nothing.
        let all_change = self.options.on_duplicate != Overwrite::Ignore;
        if self.options.complete && all_change && is_large {
            return Err(too_large_for_one());
        }
        Ok(())
    }

    /// Adds a packed document to those that wait to be written.
    fn document(&mut self, number: u64, document: &[u8]) -> Result<()> {
        let Ok(Ref::Object(object)) = packed::open(document) else {
            let text = packed::open(document).map(to_string).unwrap_or_default();
            return self.unparsable(number, text.as_bytes());
        };
        let prefixed = self.with_prefixes(object)?;
        let document = prefixed.as_deref().unwrap_or(document);
        // With the memory of its value: a lack of that is to be known before the collection is
        // emptied.
        let copies = if self.options.overwrite { 2 } else { 1 };
        take(&mut self.memory, copies * document.len() + PLACE_BYTES)?;
        let begin = self.waiting.len();
        self.waiting.extend_from_slice(document);
        self.places.push((number, begin..self.waiting.len()));
        if self.options.complete && self.places.len().is_multiple_of(DOCUMENTS_AT_ONCE) {
            (self.check_cancelled)()?;
        }
        self.check_size()
    }

    /// The edge with the prefixes of the options before `_from` and `_to`; `None` if there are no
    /// prefixes.
    fn with_prefixes(&self, object: ObjectRef<'_>) -> Result<Option<Vec<u8>>> {
        let options = self.options;
        if options.from_prefix.is_none() && options.to_prefix.is_none() {
            return Ok(None);
        }
        let mut builder = Builder::with(DuplicateRule::Last);
        builder.begin_object();
        for (name, value) in object.iter() {
            let prefix = match name {
                "_from" => options.from_prefix.as_deref(),
                "_to" => options.to_prefix.as_deref(),
                _ => None,
            };
            let prefix = prefix.map(|prefix| prefix.trim_end_matches('/'));
            builder.name(name);
            match (prefix, value) {
                (Some(prefix), Ref::Number(Number::Int(0..) | Number::Uint(_))) => {
                    builder.string(&format!("{prefix}/{}", to_string(value)));
                }
                (Some(prefix), Ref::String(end)) => {
                    let text = match end.split_once('/') {
                        None => format!("{prefix}/{end}"),
                        Some((_, key)) if options.overwrite_collection_prefix => {
                            format!("{prefix}/{key}")
                        }
                        Some(_) => end.to_owned(),
                    };
                    builder.string(&text);
                }
                _ => builder.value(value),
            }
        }
        builder.end();
        let too_large = |_| DocumentError::from(ErrorNumber::DOCUMENT_TOO_LARGE);
        builder.finish().map(Some).map_err(too_large)
    }

    fn unparsable(&mut self, number: u64, text: &[u8]) -> Result<()> {
        let context: String = String::from_utf8_lossy(text).chars().take(64).collect();
        let message = format!(
            "at position {number}: invalid JSON type (expecting object, probably parse error), \
             offending context: {context}"
        );
        let error = DocumentError::new(ErrorNumber::INTERNAL, message.clone());
        self.refuse(message, error)
    }

    fn refuse(&mut self, detail: String, error: DocumentError) -> Result<()> {
        if self.options.complete {
            return Err(error);
        }
        self.report.errors += 1;
        if self.report.errors.is_multiple_of(DOCUMENTS_AT_ONCE as u64) {
            (self.check_cancelled)()?;
        }
        let is_room = self.report.details.len() < DETAILS_MAX
            && self.details_bytes + detail.len() <= DETAILS_BYTES_MAX;
        if self.options.details && is_room {
            self.details_bytes += detail.len();
            self.report.details.push(detail);
        }
        Ok(())
    }

    fn write_if_full(&mut self, timeline: &mut Timeline) -> Result<()> {
        let is_full = self.places.len() >= DOCUMENTS_AT_ONCE || self.waiting.len() >= BYTES_AT_ONCE;
        // A `complete` import is one batch, however large.
        if is_full && !self.options.complete { self.write(timeline) } else { Ok(()) }
    }

    /// Writes the documents that wait.
    fn write(&mut self, timeline: &mut Timeline) -> Result<()> {
        (self.check_cancelled)()?;
        if self.only_checks {
            self.waiting.clear();
            self.places.clear();
        }
        if self.places.is_empty() {
            return Ok(());
        }
        let (waiting, places) =
            (std::mem::take(&mut self.waiting), std::mem::take(&mut self.places));
        let (mut rest, mut count) = (&places[..], places.len());
        while !rest.is_empty() {
            count = count.min(rest.len());
            let outcomes = match self.write_some(&waiting, &rest[..count], timeline) {
                Ok(outcomes) => outcomes,
                Err(error) if self.options.complete || !is_too_large(&error) => return Err(error),
                // Documents with many index entries may be too much for one batch.
                Err(_) if count > 1 => {
                    count /= 2;
                    continue;
                }
                Err(error) => vec![ImportOutcome::Refused(error)],
            };
            let written = outcomes.len();
            self.note(&waiting, &rest[..written], outcomes)?;
            rest = &rest[written..];
            // One large document does not make all later batches small.
            count = count.saturating_mul(2);
        }
        // Reuse the memory for the next batch.
        self.waiting = waiting;
        self.waiting.clear();
        Ok(())
    }

    /// Writes the first of these documents in one batch: as many as fit, and at least one. Returns
    /// their outcomes.
    fn write_some(
        &self,
        waiting: &[u8],
        places: &[(u64, Range<usize>)],
        timeline: &mut Timeline,
    ) -> Result<Vec<ImportOutcome>> {
        let acknowledgement = self.options.acknowledgement;
        // The memory of the values, which are held until they are written.
        let mut memory = None;
        let attempt = attempt_to_end(
            self.documents,
            acknowledgement,
            true,
            timeline,
            |transaction, timeline| {
                let mut outcomes = Vec::with_capacity(places.len());
                let mut value_bytes = 0;
                memory = self.options.share().filter(|_| !self.options.overwrite);
                transaction.changes_mut().reserve(places.len().min(DOCUMENTS_AT_ONCE));
                for (number, (position, place)) in places.iter().enumerate() {
                    if number > 0 && number.is_multiple_of(DOCUMENTS_AT_ONCE) {
                        (self.check_cancelled)()?;
                    }
                    let outcome = match packed::open(&waiting[place.clone()]) {
                        Ok(Ref::Object(object)) => self.one(transaction, object, timeline),
                        _ => ImportOutcome::Refused(ErrorNumber::DOCUMENT_TYPE_INVALID.into()),
                    };
                    match outcome {
                        ImportOutcome::Refused(error) if self.options.complete => {
                            return Err(self.undone_by(*position, error));
                        }
                        outcome => outcomes.push(outcome),
                    }
                    let before = value_bytes;
                    value_bytes = transaction.changes().value_bytes();
                    take(&mut memory, value_bytes - before)?;
                    match self.options.complete {
                        true if transaction.changes().is_large() => {
                            return Err(too_large_for_one());
                        }
                        false if transaction.is_full() => break,
                        _ => {}
                    }
                }
                Ok(outcomes)
            },
        );
        attempt.map(|(outcomes, _)| outcomes)
    }

    /// Adds the outcomes of documents to the report.
    fn note(
        &mut self,
        waiting: &[u8],
        places: &[(u64, Range<usize>)],
        outcomes: Vec<ImportOutcome>,
    ) -> Result<()> {
        for ((number, place), outcome) in places.iter().zip(outcomes) {
            match outcome {
                ImportOutcome::Created => self.report.created += 1,
                ImportOutcome::Updated => self.report.updated += 1,
                ImportOutcome::Ignored => self.report.ignored += 1,
                ImportOutcome::Refused(error) => {
                    let document = packed::open(&waiting[place.clone()]);
                    let text = document.map(to_string).unwrap_or_default();
                    let detail = detail_of(*number, &error, &text);
                    self.refuse(detail, error)?;
                }
            }
        }
        Ok(())
    }

    /// The error that ends a `complete` import; with details, with the document's position.
    fn undone_by(&self, position: u64, error: DocumentError) -> DocumentError {
        let error = in_short(error);
        if !self.options.details {
            return error;
        }
        let message = format!("at position {position}: {}", error.message);
        DocumentError { message, ..error }
    }

    fn one(
        &self,
        transaction: &mut Transaction,
        object: ObjectRef<'_>,
        timeline: &mut Timeline,
    ) -> ImportOutcome {
        let options = WriteOptions::default();
        let collection = self.collection;
        let error = match transaction.insert(collection, object, &options, timeline) {
            Ok(_) => return ImportOutcome::Created,
            Err(error) => error,
        };
        let key = object.get("_key").and_then(Ref::as_str);
        let (Some(key), ErrorNumber::UNIQUE_CONSTRAINT) = (key, error.number) else {
            return ImportOutcome::Refused(error);
        };
        let rewrite = match self.options.on_duplicate {
            Overwrite::Conflict => return ImportOutcome::Refused(error),
            Overwrite::Ignore => return ImportOutcome::Ignored,
            Overwrite::Update => Rewrite::Update,
            Overwrite::Replace => Rewrite::Replace,
        };
        match transaction.rewrite(collection, key, object, rewrite, &options, timeline) {
            Ok(_) => ImportOutcome::Updated,
            // The key is new: the insertion violated another unique index.
            Err(absent) if absent.number == ErrorNumber::DOCUMENT_NOT_FOUND => {
                ImportOutcome::Refused(error)
            }
            Err(error) => ImportOutcome::Refused(error),
        }
    }
}

/// Takes memory from a share, if there is one.
///
/// # Errors
/// 32 if there is not enough.
fn take(memory: &mut Option<Share>, bytes: usize) -> Result<()> {
    let taken = memory.as_mut().map_or(Ok(()), |memory| memory.take(bytes));
    taken.map_err(|error| DocumentError::new(ErrorNumber::RESOURCE_LIMIT, error.to_string()))
}

/// True if the store refused a batch because of its size.
fn is_too_large(error: &DocumentError) -> bool {
    error.number == ErrorNumber::RESOURCE_LIMIT
}

fn too_large_for_one() -> DocumentError {
    let message = "the import is too large to be all or nothing: leave out `complete`, or import \
                   less at a time";
    DocumentError::new(ErrorNumber::RESOURCE_LIMIT, message)
}

/// Removes the index and the key from the message of a violated unique constraint, as ArangoDB does
/// for imports.
fn in_short(error: DocumentError) -> DocumentError {
    if error.number == ErrorNumber::UNIQUE_CONSTRAINT { error.number.into() } else { error }
}

fn detail_of(number: u64, error: &DocumentError, text: &str) -> String {
    if error.number == ErrorNumber::INVALID_EDGE_ATTRIBUTE {
        return format!(
            "at position {number}: missing '_from' or '_to' attribute, offending document: {text}"
        );
    }
    let what = in_short(error.clone()).message;
    format!(
        "at position {number}: creating document failed with error '{what}', offending document: \
         {text}"
    )
}

/// The lines of a body with their numbers, without the white space around them. Text after the last
/// newline is a line if it is not empty.
fn lines_of(body: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    let is_empty = body.is_empty();
    let lines = body.split(|byte| *byte == b'\n').filter(move |_| !is_empty);
    (0..).zip(lines.map(<[u8]>::trim_ascii))
}
