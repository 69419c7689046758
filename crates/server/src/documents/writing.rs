//! The parameters of writes, and how their outcomes are told.

use pellucid_document::{
    Collection, Committed, DocumentError, ErrorNumber, Outcome, Overwrite, Shape, Version,
    WriteOptions,
};
use pellucid_store::Acknowledgement;
use pellucid_value::{MergeOptions, ObjectRef, Ref, json, packed};

use super::call::Call;

/// What a call says of how it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writing {
    pub(crate) acknowledgement: Acknowledgement,
    pub(crate) is_silent: bool,
    pub(crate) wants_old: bool,
    pub(crate) wants_new: bool,
    pub(crate) ignores_revisions: bool,
    pub(crate) overwrite: Overwrite,
    pub(crate) merge: MergeOptions,
}

impl Writing {
    /// Reads the parameters.
    ///
    /// # Errors
    /// 400 for an overwrite mode that there is not.
    pub(crate) fn of(
        call: &Call<'_>,
        collection: &Collection,
        default: Acknowledgement,
    ) -> Result<Writing, DocumentError> {
        let waits = call.is_set("waitForSync") || collection.shape().definition.wait_for_sync;
        let mode = call.parameter("overwriteMode");
        let overwrite = match mode.as_deref() {
            None | Some("undefined" | "") if call.is_set("overwrite") => Overwrite::Replace,
            None | Some("undefined" | "" | "conflict") => Overwrite::Conflict,
            Some("ignore") => Overwrite::Ignore,
            Some("replace") => Overwrite::Replace,
            Some("update") => Overwrite::Update,
            Some(other) => {
                let message = format!("bad parameter: there is no overwriteMode `{other}`");
                return Err(DocumentError::new(ErrorNumber::HTTP_BAD_PARAMETER, message));
            }
        };
        if call
            .parameter("versionAttribute")
            .is_some_and(|name| !name.is_empty() && name != "undefined")
        {
            let message = "versionAttribute is not implemented";
            return Err(DocumentError::new(ErrorNumber::NOT_IMPLEMENTED, message));
        }
        Ok(Writing {
            acknowledgement: if waits { Acknowledgement::Disk } else { default },
            is_silent: call.is_set("silent"),
            wants_old: call.is_set("returnOld"),
            wants_new: call.is_set("returnNew"),
            ignores_revisions: call.flag("ignoreRevs").unwrap_or(true),
            overwrite,
            merge: MergeOptions {
                keep_null: call.flag("keepNull").unwrap_or(true),
                merge_objects: call.flag("mergeObjects").unwrap_or(true),
            },
        })
    }

    /// The options of one write, which expects a revision.
    pub(crate) fn options<'a>(&self, expected: Option<&'a [u8]>) -> WriteOptions<'a> {
        let (merge, overwrite, wants_old) = (self.merge, self.overwrite, self.wants_old);
        WriteOptions { merge, overwrite, expected, wants_old }
    }

    /// Whether what is acknowledged is on the medium.
    pub(crate) fn is_durable(&self) -> bool {
        self.acknowledgement == Acknowledgement::Disk
    }

    /// The revision that an item's own `_rev` asks for.
    pub(crate) fn revision_in<'a>(&self, body: ObjectRef<'a>) -> Option<&'a [u8]> {
        let revision = body.get("_rev").and_then(Ref::as_str).map(str::as_bytes);
        revision.filter(|_| !self.ignores_revisions)
    }
}

/// What is told of a write: what became of it, and the document as it is now if that is wanted.
pub(crate) struct Told {
    pub(crate) outcome: Outcome,
    /// The stored form.
    pub(crate) new: Option<Vec<u8>>,
}

/// Bytes that one byte of a packed document is as JSON at most.
const JSON_PER_BYTE: usize = 6;

/// Bytes of keys, revisions and names in what is told of a write, at most.
const IDENTITY_BYTES_MAX: usize = 2_048;

impl Told {
    /// Bytes that [`Told::write`] appends at most.
    pub(crate) fn json_bytes_max(&self) -> usize {
        let new = self.new.as_ref().map_or(0, Vec::len);
        let old = self.outcome.previous.as_ref().and_then(|old| old.stored.as_ref());
        let documents = new + old.map_or(0, |old| old.len());
        documents.saturating_mul(JSON_PER_BYTE).saturating_add(3 * IDENTITY_BYTES_MAX)
    }

    /// Appends it as JSON.
    pub(crate) fn write(
        &self,
        shape: &Shape,
        committed: &Committed,
        is_removal: bool,
        out: &mut Vec<u8>,
    ) {
        let Outcome { key, version, previous, was_ignored } = &self.outcome;
        out.push(b'{');
        write_identity(shape, key, &version.revision(committed), out);
        if let Some(previous) = previous.as_ref().filter(|_| !was_ignored) {
            if !is_removal {
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
pub(crate) fn write_identity(shape: &Shape, key: &str, revision: &str, out: &mut Vec<u8>) {
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
    shape: &Shape,
    stored: &[u8],
    version: Version,
    committed: &Committed,
    out: &mut Vec<u8>,
) {
    let revealed = version.reveal(shape, stored, committed);
    if let Ok(document) =
        revealed.as_deref().map_err(|_| ()).and_then(|b| packed::open(b).map_err(|_| ()))
    {
        out.extend_from_slice(name);
        json::write(document, out);
    }
}

/// Appends what is told of one item of an array that failed.
pub(crate) fn write_item_error(error: &DocumentError, out: &mut Vec<u8>) {
    let value = serde_json::json!({
        "error": true, "errorNum": error.number.0, "errorMessage": error.message,
    });
    out.extend_from_slice(value.to_string().as_bytes());
}
