//! Schemas of the bodies of backup calls, which have the form of ArangoDB's.

use pellucid_store::{BACKUP_BYTES_PER_SECOND_MIN, BackupId};
use serde_json::{Value, json};

use super::schema::{
    Member, at_least, closed, count, flag, list, object, or_null, text, with_optional,
};

pub(super) fn all() -> [Member; 6] {
    let id = || json!({ "type": "string", "pattern": BackupId::PATTERN });
    let label = json!({ "type": "string", "pattern": "^[A-Za-z0-9_.-]{0,103}$" });
    let progress = object([("id", text()), ("doneBytes", count()), ("totalBytes", count())]);
    let listed = json!({ "type": "object", "additionalProperties": backup() });
    let listed = with_optional(object([("list", listed)]), [("progress", progress)]);
    let wanted = [
        ("label", or_null(label)),
        ("bytesPerSecond", or_null(at_least(BACKUP_BYTES_PER_SECOND_MIN))),
        // Members of ArangoDB that have no effect here.
        ("timeout", json!({})),
        ("allowInconsistent", json!({})),
        ("force", json!({})),
    ];
    [
        ("BackupWanted", closed(with_optional(object([]), wanted))),
        ("BackupsWanted", closed(with_optional(object([]), [("id", or_null(text()))]))),
        ("BackupNamed", closed(object([("id", id())]))),
        ("BackupList", success(listed)),
        ("BackupMade", success(backup())),
        ("BackupRemoved", success(object([]))),
    ]
}

fn success(result: Value) -> Value {
    object([("error", json!({ "const": false })), ("code", count()), ("result", result)])
}

fn backup() -> Value {
    object([
        ("id", text()),
        ("datetime", text()),
        ("version", text()),
        ("available", flag()),
        ("potentiallyInconsistent", flag()),
        ("keys", list(text())),
        ("nrDBServers", count()),
        ("nrPiecesPresent", count()),
        ("nrFiles", count()),
        ("sizeInBytes", count()),
        ("addedBytes", count()),
        ("sequence", count()),
    ])
}
