//! Handlers that tell drivers the version, the role and the mode of the server.

use pellucid_clock::WallTime;
use pellucid_document::{DocumentError, Documents, ErrorNumber};
use serde_json::json;

use super::call::{Call, not_implemented};
use super::completion::ReplyResult;
use super::pool::Pool;
use super::reply::success;
use crate::reply::Reply;
use crate::routes::Method;

/// Answers `/_api/version` and `/_api/engine`.
pub(super) fn version(reported_version: &str, call: &Call<'_>) -> ReplyResult {
    if call.segment(1) == Some("engine") {
        let indexes = ["primary", "edge", "hash", "skiplist", "ttl", "persistent"];
        let aliases = json!({ "skiplist": "persistent", "hash": "persistent" });
        return Ok(Reply::value(
            200,
            &json!({
                "name": "rocksdb",
                "endianness": if cfg!(target_endian = "little") { "little" } else { "big" },
                "supports": { "indexes": indexes, "aliases": { "indexes": aliases } },
            }),
        ));
    }
    let version = reported_version;
    let mut body = json!({ "server": "arango", "license": "community", "version": version });
    if call.is_set("details")? {
        body["details"] = json!({
            "architecture": std::env::consts::ARCH,
            "server-version": version,
            "platform": std::env::consts::OS,
            "pellucid-version": env!("CARGO_PKG_VERSION"),
            "v8-version": "none",
            "asan": "false",
            "tsan": "false",
            "coverage": "false",
            "endianness": if cfg!(target_endian = "little") { "little" } else { "big" },
            "host": "",
            "mode": "server",
            "role": "SINGLE",
        });
    }
    Ok(Reply::value(200, &body))
}

/// Answers `/_admin/…`.
pub(super) fn admin(
    documents: &Documents,
    pool: &Pool,
    reported_version: &str,
    call: &Call<'_>,
) -> ReplyResult {
    match (call.method, call.segment(1), call.segment(2)) {
        (Method::Get, Some("server"), Some("role")) => {
            Ok(success(200, json!({ "role": "SINGLE", "mode": "default" })))
        }
        (Method::Get, Some("server"), Some("availability")) => {
            if pool.is_busy() {
                let message = "the queue is three quarters full";
                return Err(DocumentError::new(ErrorNumber(503), message));
            }
            // Everybody may read this page, so it does not tell the address of the other server.
            documents.check_served().map_err(|_| {
                let message = "the documents of the store are not served here, or not yet";
                DocumentError::new(ErrorNumber::HTTP_SERVICE_UNAVAILABLE, message)
            })?;
            Ok(success(200, json!({ "mode": "default" })))
        }
        (Method::Get, Some("server"), Some("mode")) => {
            Ok(success(200, json!({ "mode": "default" })))
        }
        (Method::Put, Some("server"), Some("mode")) => {
            match call.object()?.get("mode").and_then(|mode| mode.as_str()) {
                Some("default") => Ok(success(200, json!({ "mode": "default" }))),
                Some("readonly") => Err(not_implemented("the mode `readonly` is not implemented")),
                _ => Err(ErrorNumber::HTTP_BAD_PARAMETER.into()),
            }
        }
        (Method::Get, Some("server"), Some("id")) => {
            let message = "only servers of a cluster have an id";
            Err(DocumentError::new(ErrorNumber(500), message))
        }
        (Method::Get, Some("time"), None) => {
            let seconds = WallTime::now().unix_ms() as f64 / 1e3;
            Ok(success(200, json!({ "time": seconds })))
        }
        (Method::Get, Some("status"), None) => Ok(Reply::value(
            200,
            &json!({
                "server": "arango",
                "license": "community",
                "version": reported_version,
                "mode": "server",
                "operationMode": "server",
                "foxxApi": false,
                "host": "",
                "pid": std::process::id(),
                "serverInfo": {
                    "role": "SINGLE",
                    "maintenance": false,
                    "readOnly": false,
                    "writeOpsEnabled": true,
                    "state": "SINGLE",
                    "serverId": documents.identity(),
                },
            }),
        )),
        _ => Err(unknown_path(call)),
    }
}

/// Makes the error for a path without a route.
pub(super) fn unknown_path(call: &Call<'_>) -> DocumentError {
    let message = format!("unknown path '{}'", call.path);
    DocumentError::new(ErrorNumber::HTTP_NOT_FOUND, message)
}
