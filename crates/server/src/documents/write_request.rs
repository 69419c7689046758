//! Writes of documents: their query parameters, one write in a transaction, and its result as JSON.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_document::{
    Collection, CollectionSchema, CommitSequences, DocumentError, DocumentOutcome, Overwrite,
    Rewrite, Transaction, Version, WriteOptions,
};
use pellucid_store::Acknowledgement;
use pellucid_value::{MergeOptions, ObjectRef, Ref, json, packed};

use super::call::{Call, bad_request, not_implemented, object_in, open};
use super::encoding::UNMEASURED_BYTES_MAX;
use crate::routes::Method;

/// The query parameters of a call that writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteRequest {
    method: Method,
    pub(super) acknowledgement: Acknowledgement,
    pub(super) is_silent: bool,
    wants_old: bool,
    wants_new: bool,
    ignores_revisions: bool,
    overwrite: Overwrite,
    merge: MergeOptions,
}

impl WriteRequest {
    /// Parses the parameters of a call.
    ///
    /// # Errors
    /// 400 for an unknown overwrite mode or flag value, and for a condition (`If-Match`,
    /// `If-None-Match`) that would have no effect. 9 for a version attribute.
    pub(super) fn of(
        call: &Call<'_>,
        collection: &Collection,
        default: Acknowledgement,
    ) -> Result<WriteRequest, DocumentError> {
        let waits = call.is_set("waitForSync")? || collection.shape().definition.wait_for_sync;
        let is_unjudged = call.if_match.is_some() && call.part("{key}").is_none();
        if is_unjudged || call.if_none_match.is_some() {
            return Err(bad_request(
                "bad parameter: If-Match is for writes of a key in the path, \
                 If-None-Match for reads",
            ));
        }
        let replaces = call.is_set("overwrite")?;
        let mode = call.parameter("overwriteMode");
        let overwrite = match mode.as_deref() {
            None | Some("undefined" | "") if replaces => Overwrite::Replace,
            None | Some("undefined" | "") => Overwrite::Conflict,
            Some(name) => Overwrite::named(name).ok_or_else(|| {
                bad_request(format!("bad parameter: there is no overwriteMode `{name}`"))
            })?,
        };
        if call
            .parameter("versionAttribute")
            .is_some_and(|name| !name.is_empty() && name != "undefined")
        {
            return Err(not_implemented("versionAttribute is not implemented"));
        }
        Ok(WriteRequest {
            method: call.method,
            acknowledgement: if waits { Acknowledgement::Disk } else { default },
            is_silent: call.is_set("silent")?,
            wants_old: call.is_set("returnOld")?,
            wants_new: call.is_set("returnNew")?,
            ignores_revisions: call.flag("ignoreRevs")?.unwrap_or(true),
            overwrite,
            merge: MergeOptions {
                keep_null: call.flag("keepNull")?.unwrap_or(true),
                merge_objects: call.flag("mergeObjects")?.unwrap_or(true),
            },
        })
    }

    /// The HTTP status of a successful write.
    pub(super) fn status(&self) -> u16 {
        match (self.acknowledgement, self.method) {
            (Acknowledgement::Disk, Method::Delete) => 200,
            (Acknowledgement::Disk, _) => 201,
            _ => 202,
        }
    }

    /// True if a write of a key in the path reads the document that it changes.
    pub(super) fn reads_old(&self, shape: &CollectionSchema) -> bool {
        self.method == Method::Patch || self.wants_old || !shape.indexes.is_empty()
    }

    /// True if an insertion reads and changes a document that has its key.
    pub(super) fn overwrites(&self) -> bool {
        self.overwrite != Overwrite::Conflict
    }

    /// The revision that the `_rev` in a body asks for, if revisions count. A `_rev` that is no
    /// string matches no document.
    pub(super) fn revision_in<'a>(&self, body: ObjectRef<'a>) -> Option<&'a [u8]> {
        match body.get("_rev") {
            _ if self.ignores_revisions => None,
            None | Some(Ref::Null) => None,
            Some(Ref::String(revision)) => Some(revision.as_bytes()),
            Some(_) => Some(b""),
        }
    }

    /// Writes a document in a transaction. Without `key`, it is an insertion. A removal ignores
    /// `body`.
    pub(super) fn apply(
        &self,
        collection: &Arc<Collection>,
        key: Option<&str>,
        body: Ref<'_>,
        expected: Option<&[u8]>,
        transaction: &mut Transaction,
        timeline: &mut Timeline,
    ) -> Result<WriteResult, DocumentError> {
        let (merge, overwrite, wants_old) = (self.merge, self.overwrite, self.wants_old);
        let options = WriteOptions { merge, overwrite, expected, wants_old };
        let outcome = match (self.method, key) {
            (Method::Delete, Some(key)) => {
                transaction.remove(collection, key, &options, timeline)?
            }
            (method, Some(key)) => {
                let is_update = method == Method::Patch;
                let rewrite = if is_update { Rewrite::Update } else { Rewrite::Replace };
                transaction.rewrite(
                    collection,
                    key,
                    object_in(body)?,
                    rewrite,
                    &options,
                    timeline,
                )?
            }
            (_, None) => transaction.insert(collection, object_in(body)?, &options, timeline)?,
        };
        let new = transaction.stored(outcome.version).filter(|_| self.wants_new);
        Ok(WriteResult {
            new: new.map(<[u8]>::to_vec),
            outcome,
            is_removal: self.method == Method::Delete,
        })
    }
}

/// The result of writing one document.
pub(super) struct WriteResult {
    pub(super) outcome: DocumentOutcome,
    /// The stored form of the new document, if the call wants it.
    new: Option<Vec<u8>>,
    is_removal: bool,
}

/// The most bytes of JSON for one byte of a packed document.
const JSON_PER_BYTE: usize = 6;

/// The most bytes of keys, revisions and names in the result of a write.
const IDENTITY_BYTES_MAX: usize = 2_048;

impl WriteResult {
    /// The stored forms of the documents in the result.
    fn documents(&self) -> impl Iterator<Item = &[u8]> {
        let old = self.outcome.previous.as_ref().and_then(|old| old.stored.as_deref());
        old.into_iter().chain(self.new.as_deref())
    }

    /// The bytes of the documents in the result.
    pub(super) fn document_bytes(&self) -> usize {
        self.documents().map(<[u8]>::len).sum()
    }

    /// The most bytes that [`WriteResult::write`] appends.
    pub(super) fn json_bytes_max(&self) -> usize {
        let of_document = |stored: &[u8]| {
            let bytes_max = stored.len().saturating_mul(JSON_PER_BYTE);
            match bytes_max > UNMEASURED_BYTES_MAX {
                true => packed::json_length(stored).unwrap_or(bytes_max),
                false => bytes_max,
            }
        };
        self.documents().map(of_document).sum::<usize>() + 3 * IDENTITY_BYTES_MAX
    }

    /// Appends the result as JSON.
    pub(super) fn write(
        &self,
        shape: &CollectionSchema,
        committed: &CommitSequences,
        out: &mut Vec<u8>,
    ) {
        let DocumentOutcome { key, version, previous, was_ignored } = &self.outcome;
        out.push(b'{');
        write_identity(shape, key, &version.revision(committed), out);
        if let Some(previous) = previous.as_ref().filter(|_| !was_ignored) {
            if !self.is_removal {
                out.extend_from_slice(b",\"_oldRev\":\"");
                out.extend_from_slice(previous.version.revision(committed).as_bytes());
                out.push(b'"');
            }
            if let Some(old) = &previous.stored {
                write_document(b",\"old\":", shape, old, previous.version, committed, out);
            }
        }
        if let Some(new) = self.new.as_ref().filter(|_| !was_ignored) {
            write_document(b",\"new\":", shape, new, *version, committed, out);
        }
        out.push(b'}');
    }
}

/// Appends `_id`, `_key` and `_rev`.
fn write_identity(shape: &CollectionSchema, key: &str, revision: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"_id\":");
    json::write_string(&format!("{}/{key}", shape.definition.name), out);
    out.extend_from_slice(b",\"_key\":");
    json::write_string(key, out);
    out.extend_from_slice(b",\"_rev\":\"");
    out.extend_from_slice(revision.as_bytes());
    out.push(b'"');
}

fn write_document(
    name: &[u8],
    shape: &CollectionSchema,
    stored: &[u8],
    version: Version,
    committed: &CommitSequences,
    out: &mut Vec<u8>,
) {
    if let Ok(document) = version.reveal(shape, stored, committed) {
        out.extend_from_slice(name);
        json::write(open(&document), out);
    }
}
