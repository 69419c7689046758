//! Handler of `/_api/import`.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_document::{
    Collection, DocumentError, Documents, ImportForm, ImportOptions, Overwrite,
};
use pellucid_store::Acknowledgement;
use serde_json::json;

use super::call::{Call, bad_request};
use super::completion::ReplyResult;
use super::memory::RequestMemory;
use crate::reply::Reply;

/// Answers a call to `/_api/import`. It may block.
pub(super) fn answer(
    documents: &Arc<Documents>,
    acknowledgement: Acknowledgement,
    memory: &RequestMemory,
    call: &Call<'_>,
    collection: &Arc<Collection>,
    timeline: &mut Timeline,
) -> ReplyResult {
    let waits = call.is_set("waitForSync")? || collection.shape().definition.wait_for_sync;
    let text = |name: &str| {
        let text = call.parameter(name).filter(|text| !text.is_empty() && text != "undefined");
        text.map(std::borrow::Cow::into_owned)
    };
    let options = ImportOptions {
        form: form_of(call)?,
        on_duplicate: on_duplicate(call)?,
        overwrite: call.is_set("overwrite")?,
        complete: call.is_set("complete")?,
        details: call.is_set("details")?,
        from_prefix: text("fromPrefix"),
        to_prefix: text("toPrefix"),
        overwrite_collection_prefix: call.is_set("overwriteCollectionPrefix")?,
        ignore_missing: call.is_set("ignoreMissing")?,
        acknowledgement: if waits { Acknowledgement::Disk } else { acknowledgement },
        memory: Some(memory.budget().clone()),
    };
    let goes_on = || call.check();
    let report =
        pellucid_document::import(documents, collection, &call.body, &options, &goes_on, timeline)?;
    let mut body = json!({
        "error": false,
        "created": report.created,
        "errors": report.errors,
        "empty": report.empty,
        "updated": report.updated,
        "ignored": report.ignored,
    });
    if options.details {
        body["details"] = json!(report.details);
    }
    Ok(Reply::value(201, &body))
}

fn form_of(call: &Call<'_>) -> Result<ImportForm, DocumentError> {
    match call.parameter("type").as_deref() {
        None | Some("" | "undefined") => Ok(ImportForm::Rows),
        Some("documents") => Ok(ImportForm::Lines),
        Some("list" | "array") => Ok(ImportForm::Array),
        Some("auto") => Ok(ImportForm::Auto),
        Some(other) => Err(bad_request(format!("invalid value for type: {other}"))),
    }
}

fn on_duplicate(call: &Call<'_>) -> Result<Overwrite, DocumentError> {
    match call.parameter("onDuplicate").as_deref() {
        None | Some("" | "undefined" | "error") => Ok(Overwrite::Conflict),
        Some("update") => Ok(Overwrite::Update),
        Some("replace") => Ok(Overwrite::Replace),
        Some("ignore") => Ok(Overwrite::Ignore),
        Some(other) => Err(bad_request(format!("invalid value for onDuplicate: {other}"))),
    }
}
