//! What the server says of itself where drivers ask: versions, roles, modes.

use pellucid_clock::WallTime;
use pellucid_document::{DocumentError, ErrorNumber};
use serde_json::json;

use super::api::DocumentApi;
use super::call::{Call, Method};
use super::reply::Reply;

impl DocumentApi {
    /// Answers `/_api/version` and `/_api/engine`.
    pub(crate) fn about_call(&self, call: &Call<'_>) -> Result<Reply, DocumentError> {
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
        let version = &*self.settings.reported_version;
        let mut body = json!({ "server": "arango", "license": "community", "version": version });
        if call.is_set("details") {
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
    pub(crate) fn admin_call(&self, call: &Call<'_>) -> Result<Reply, DocumentError> {
        match (call.method, call.segment(1), call.segment(2)) {
            (Method::Get, Some("server"), Some("role")) => {
                Ok(Reply::success(200, json!({ "role": "SINGLE", "mode": "default" })))
            }
            (Method::Get, Some("server"), Some("availability")) => {
                if self.pool.is_busy() {
                    let message = "the queue is three quarters full";
                    return Err(DocumentError::new(ErrorNumber(503), message));
                }
                self.documents.check_served()?;
                Ok(Reply::success(200, json!({ "mode": "default" })))
            }
            (Method::Get, Some("server"), Some("mode")) => {
                Ok(Reply::success(200, json!({ "mode": "default" })))
            }
            (Method::Put, Some("server"), Some("mode")) => {
                match call.object()?.get("mode").and_then(|mode| mode.as_str()) {
                    Some("default") => Ok(Reply::success(200, json!({ "mode": "default" }))),
                    Some("readonly") => {
                        let message = "the mode `readonly` is not implemented";
                        Err(DocumentError::new(ErrorNumber::NOT_IMPLEMENTED, message))
                    }
                    _ => Err(ErrorNumber::HTTP_BAD_PARAMETER.into()),
                }
            }
            (Method::Get, Some("server"), Some("id")) => {
                let message = "only servers of a cluster have an id";
                Err(DocumentError::new(ErrorNumber(500), message))
            }
            (Method::Get, Some("time"), None) => {
                let seconds = WallTime::now().unix_ms() as f64 / 1e3;
                Ok(Reply::success(200, json!({ "time": seconds })))
            }
            (Method::Get, Some("status"), None) => Ok(Reply::value(
                200,
                &json!({
                    "server": "arango",
                    "license": "community",
                    "version": &*self.settings.reported_version,
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
                        "serverId": self.documents.identity(),
                    },
                }),
            )),
            (_, Some("backup"), _) => {
                let message = "backups are not implemented";
                Err(DocumentError::new(ErrorNumber::NOT_IMPLEMENTED, message))
            }
            _ => Err(unknown_path(call)),
        }
    }
}

/// The error for a path that there is not.
pub(crate) fn unknown_path(call: &Call<'_>) -> DocumentError {
    let message = format!("unknown path '{}'", call.path);
    DocumentError::new(ErrorNumber::HTTP_NOT_FOUND, message)
}
