//! Execution of writes: one for each row. All rows are written before the first one is returned, so
//! that the writes of a query do not depend on how much of its result is read.

use pellucid_value::{Ref, Value};

use super::rows::{Upstream, size_of_row};
use crate::query_run::{QueryRun, WRITES_MAX};
use crate::tree;
use crate::tree::Row;
use crate::{QueryError, Result, Write, WriteKind, WriteOptions, WriteOutcome, number};

/// The numbers of errors that concern one document.
const DOCUMENT_ERRORS: std::ops::Range<u16> = 1200..1300;
/// The assumed bytes of a write besides its document, before the batch tells more: keys, a few
/// index entries, conditions.
const WRITE_BYTES: usize = 512;
/// The error of a document without `_key` where one is required.
const DOCUMENT_KEY_MISSING: u16 = 1226;

/// Executes the write for all rows. Returns the rows whose write has a result.
pub(super) fn written(
    write: &tree::Write,
    upstream: &mut impl Upstream,
    run: &mut QueryRun,
) -> Result<Vec<Row>> {
    let mut written = Vec::new();
    upstream.each(run, |mut row, run| {
        if let Some(done) = one(write, &row, run)? {
            row[write.old] = done.old;
            row[write.new] = done.new;
            run.memory.take(size_of_row(&row))?;
            written.push(row);
        }
        Ok(())
    })?;
    Ok(written)
}

/// Executes the write for one row; `None` if it failed and the options ignore that.
fn one(write: &tree::Write, row: &Row, run: &mut QueryRun) -> Result<Option<WriteOutcome>> {
    let named = write.document.compute(row, run)?;
    let with = write.with.as_ref().map(|with| with.compute(row, run)).transpose()?;
    let null = Value::Null;
    let document = match write.kind {
        WriteKind::Insert => &named,
        WriteKind::Update | WriteKind::Replace => with.as_ref().unwrap_or(&named),
        WriteKind::Remove => &null,
    };
    let target = (write.kind, write.collection.id, &write.options);
    add(target, &named, &named, document, run)
}

/// Adds a write to the batch of the query. `named` is the key of the document, or an object with
/// it; `revised` has the revision that is expected, if there is one. Returns `None` if the write
/// failed and the options ignore that.
pub(super) fn add(
    (kind, collection, options): (WriteKind, crate::CollectionId, &WriteOptions),
    named: &Value,
    revised: &Value,
    document: &Value,
    run: &mut QueryRun,
) -> Result<Option<WriteOutcome>> {
    run.tick()?;
    // The document, and the batch's other data about it, are kept until the end of the query.
    let assumed_bytes = document.size_bytes() + WRITE_BYTES;
    run.memory.take_lasting(assumed_bytes)?;
    let done = key_of(kind, named).and_then(|key| {
        if kind != WriteKind::Remove && document.view().as_object().is_none() {
            let message = "invalid document type: an object is expected";
            return Err(QueryError::new(number::DOCUMENT_TYPE_INVALID, message));
        }
        let revision = match (options.checks_revisions, revised.view().attribute("_rev")) {
            (false, _) | (true, Ref::Null) => None,
            (true, Ref::String(revision)) => Some(revision.to_owned()),
            // A `_rev` that is no string matches no document.
            (true, _) => Some(String::new()),
        };
        let write = Write {
            kind,
            collection,
            key: key.as_deref(),
            revision: revision.as_deref(),
            document,
            options,
        };
        let writes = match &mut run.writes {
            Some(writes) => writes,
            none => none.insert(run.source.begin_writes()?),
        };
        writes.add(&write)
    });
    match done {
        Ok(done) => {
            // A merge makes a larger document, and arrays in indexes make many entries.
            run.memory.take_lasting(done.held_bytes.saturating_sub(assumed_bytes))?;
            if done.is_ignored {
                run.stats.writes_ignored += 1;
            } else {
                run.stats.writes_executed += 1;
            }
            if run.stats.writes_executed > WRITES_MAX {
                let message = format!("a query may write at most {WRITES_MAX} documents");
                return Err(QueryError::new(number::RESOURCE_LIMIT, message));
            }
            Ok(Some(done))
        }
        Err(error) if options.ignore_errors && DOCUMENT_ERRORS.contains(&error.number()) => {
            run.stats.writes_ignored += 1;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The key of the document to write; `None` for inserts.
fn key_of(kind: WriteKind, named: &Value) -> Result<Option<String>> {
    if kind == WriteKind::Insert {
        return Ok(None);
    }
    match named.view() {
        Ref::String(key) => Ok(Some(key.to_owned())),
        Ref::Object(document) => match document.get("_key") {
            Some(Ref::String(key)) => Ok(Some(key.to_owned())),
            Some(_) => Err(QueryError::new(number::DOCUMENT_KEY_BAD, "illegal document key")),
            None => Err(QueryError::new(DOCUMENT_KEY_MISSING, "missing document key")),
        },
        _ => {
            let message = "invalid document type: a key or an object with _key is expected";
            Err(QueryError::new(number::DOCUMENT_TYPE_INVALID, message))
        }
    }
}
