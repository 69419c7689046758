//! Handlers of `/_admin/backup/…`: online backups of the whole store, in ArangoDB's JSON formats.

use pellucid_clock::WallTime;
use pellucid_document::{DocumentError, Documents, ErrorNumber};
use pellucid_store::{
    BACKUP_BYTES_PER_SECOND_MIN, BackupCopyOptions, BackupFigures, BackupId, BackupOutcome,
    BackupProgress, Backups,
};
use serde_json::{Map, Value, json};

use super::call::{Call, bad_request, not_implemented};
use super::completion::ReplyResult;
use super::reply::success;
use super::server_info::unknown_path;
use crate::routes::Method;

/// The attributes of a request for a backup. The last three are ArangoDB's and have no effect here:
/// a backup is always consistent, and waits for no other server.
const OPTIONS: [&str; 5] = ["label", "bytesPerSecond", "timeout", "allowInconsistent", "force"];

/// Answers a call about backups. It may block.
pub(super) fn answer(documents: &Documents, version: &str, call: &Call<'_>) -> ReplyResult {
    let store = documents.store();
    let backups = store.local().and_then(|local| local.backups()).ok_or_else(|| {
        not_implemented(
            "this server's store makes no backups of its own: use those of its machines",
        )
    })?;
    match (call.method, call.segment(2)) {
        (Method::Post, None | Some("create")) => create(backups, version, call),
        (Method::Get, None) => list(backups, version, &Map::new()),
        (Method::Post, Some("list")) => list(backups, version, &body(call, &["id"])?),
        (Method::Post, Some("delete")) => delete(backups, &body(call, &["id"])?),
        (Method::Post, Some("restore")) => Err(not_implemented(
            "a server does not replace its own data: stop it, or restore beside it, \
             by `pellucid inspect NEW restore DATA/backups/ID`",
        )),
        (Method::Post, Some("upload" | "download")) => Err(not_implemented(
            "a backup is a folder, DATA/backups/ID: copy it with the machine's means",
        )),
        _ => Err(unknown_path(call)),
    }
}

/// The object in the body of a call, or an empty one. Other attributes than `known` are refused.
fn body(call: &Call<'_>, known: &[&str]) -> Result<Map<String, Value>, DocumentError> {
    let body = call.object()?;
    match body.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            Err(bad_request(format!("the attribute `{name}` is none of {}", known.join(", "))))
        }
        None => Ok(body),
    }
}

fn create(backups: &dyn Backups, version: &str, call: &Call<'_>) -> ReplyResult {
    let body = &body(call, &OPTIONS)?;
    let time = WallTime::now().iso_date().replace(':', ".");
    let id = match text_in(body, "label")? {
        Some(label) => BackupId::parse(&format!("{time}_{label}"))?,
        None => BackupId::parse(&time)?,
    };
    let copying = BackupCopyOptions {
        bytes_per_second_max: speed_in(body)?,
        is_stopped: &|| call.is_ended(),
    };
    match backups.create(&id, copying)? {
        BackupOutcome::Made(made) => Ok(success(201, json!({ "result": show(&made, version) }))),
        BackupOutcome::Duplicate => {
            let message = format!("there is a backup of the name '{}' already", id.as_str());
            Err(DocumentError::new(ErrorNumber::DUPLICATE_NAME, message))
        }
        BackupOutcome::Ended => {
            let message = format!("the backup '{}' was ended while it was made", id.as_str());
            Err(DocumentError::new(ErrorNumber::QUERY_KILLED, message))
        }
    }
}

fn list(backups: &dyn Backups, version: &str, body: &Map<String, Value>) -> ReplyResult {
    let wanted = text_in(body, "id")?;
    // Read the progress first, so that a backup that is finished meanwhile is in both, not in
    // neither.
    let progress = backups.progress();
    let all = backups.list()?;
    let wanted_ones =
        all.iter().filter(|backup| wanted.is_none_or(|wanted| backup.id.as_str() == wanted));
    let list: Map<_, _> =
        wanted_ones.map(|backup| (backup.id.as_str().to_owned(), show(backup, version))).collect();
    let is_none = list.is_empty();
    let mut result = json!({ "list": list });
    if let Some(BackupProgress { id, done_bytes, total_bytes }) = progress {
        result["progress"] =
            json!({ "id": id.as_str(), "doneBytes": done_bytes, "totalBytes": total_bytes });
    }
    match wanted {
        Some(id) if is_none => Err(no_backup(id)),
        _ => Ok(success(200, json!({ "result": result }))),
    }
}

fn delete(backups: &dyn Backups, body: &Map<String, Value>) -> ReplyResult {
    let Some(id) = text_in(body, "id")? else {
        return Err(bad_request("the attribute `id` is missing: which backup?"));
    };
    if !backups.delete(&BackupId::parse(id)?)? {
        return Err(no_backup(id));
    }
    Ok(success(200, json!({ "result": {} })))
}

fn no_backup(id: &str) -> DocumentError {
    DocumentError::new(ErrorNumber::HTTP_NOT_FOUND, format!("there is no backup '{id}'"))
}

fn text_in<'a>(body: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, DocumentError> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(bad_request(format!("the attribute `{name}` has to be a text"))),
    }
}

fn speed_in(body: &Map<String, Value>) -> Result<Option<u64>, DocumentError> {
    let Some(value) = body.get("bytesPerSecond").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    // JSON has one kind of numbers: 5e7 and 50000000.0 are whole ones, too.
    let speed = whole(value).filter(|bytes| *bytes >= BACKUP_BYTES_PER_SECOND_MIN);
    speed.map(Some).ok_or_else(|| {
        let least = BACKUP_BYTES_PER_SECOND_MIN;
        bad_request(format!(
            "the attribute `bytesPerSecond` has to be a whole number from {least} on"
        ))
    })
}

fn whole(value: &Value) -> Option<u64> {
    let is_whole = |number: &f64| number.fract() == 0.0 && (0.0..2f64.powi(53)).contains(number);
    value.as_u64().or_else(|| value.as_f64().filter(is_whole).map(|number| number as u64))
}

/// A backup in ArangoDB's JSON format, with two further members: the sequence number of its last
/// write, and the bytes that the previous backup does not have.
fn show(backup: &BackupFigures, version: &str) -> Value {
    json!({
        "id": backup.id.as_str(),
        "datetime": WallTime::from_unix_ms(backup.made_at_ms).iso_date(),
        "version": version,
        "available": true,
        "potentiallyInconsistent": false,
        "keys": [],
        "nrDBServers": 1,
        "nrPiecesPresent": 1,
        "nrFiles": backup.files,
        "sizeInBytes": backup.size_bytes,
        "addedBytes": backup.added_bytes,
        "sequence": backup.sequence,
    })
}
