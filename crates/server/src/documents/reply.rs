//! Replies in the envelopes that ArangoDB's drivers expect.

use pellucid_budget::Budget;
use pellucid_document::{DocumentError, ErrorNumber, StoredRevision};
use pellucid_store::Value as StoreValue;
use serde_json::{Map, Value, json};

use super::encoding::Encoding;
use super::memory::over_budget;
use crate::reply::{Body, INLINE_BODY_BYTES_MAX, Reply};

/// Makes a reply of encoded JSON, which keeps its share of memory.
pub(super) fn encoded(status: u16, encoding: Encoding<'_>) -> Reply {
    let (body, memory) = encoding.finish();
    Reply { memory: Some(memory), ..Reply::json(status, body) }
}

/// Makes a success reply: adds `error` and `code` to the members of `fields`.
pub(super) fn success(status: u16, fields: Value) -> Reply {
    let mut object = match fields {
        Value::Object(object) => object,
        other => Map::from_iter([("result".to_owned(), other)]),
    };
    object.insert("error".to_owned(), json!(false));
    object.insert("code".to_owned(), json!(status));
    Reply::value(status, &Value::Object(object))
}

/// Makes an error reply with another status than that of the error's number.
pub(super) fn error_as(status: u16, error: &DocumentError) -> Reply {
    error_with_id(status, error, None)
}

/// Makes an error reply about the revision of a document, which names the document.
pub(super) fn revision_error(status: u16, error: &DocumentError, id: &str) -> Reply {
    error_with_id(status, error, Some(id))
}

fn error_with_id(status: u16, error: &DocumentError, id: Option<&str>) -> Reply {
    let mut body = json!({
        "error": true,
        "code": status,
        "errorNum": error.number.0,
        "errorMessage": error.message,
    });
    let Some(StoredRevision { key, revision }) = error.stored.as_deref() else {
        return Reply::value(status, &body);
    };
    body["_key"] = json!(key);
    body["_rev"] = json!(revision);
    if let Some(id) = id {
        body["_id"] = json!(id);
    }
    Reply::value(status, &body).with_header("ETag", format!("\"{revision}\""))
}

/// Makes a reply with an empty text body.
pub(super) fn empty(status: u16) -> Reply {
    Reply::bytes(status, "text/plain", Vec::new())
}

/// Takes the memory of a large body from the budget until the body is sent. If there is not enough,
/// the reply becomes an error.
pub(super) fn counted(mut reply: Reply, budget: &Budget) -> Reply {
    let Body::Value(StoreValue::Owned(body)) = &reply.body else { return reply };
    if body.len() <= INLINE_BODY_BYTES_MAX || reply.memory.is_some() {
        return reply;
    }
    let mut memory = budget.share(usize::MAX);
    match memory.take(body.len()) {
        Ok(()) => reply.memory = Some(memory),
        Err(error) => return over_budget(error).into(),
    }
    reply
}

impl From<DocumentError> for Reply {
    fn from(error: DocumentError) -> Reply {
        let reply = error_as(status_of(error.number), &error);
        Reply { store_failure: error.cause, ..reply }
    }
}

impl From<ErrorNumber> for Reply {
    fn from(number: ErrorNumber) -> Reply {
        DocumentError::from(number).into()
    }
}

/// The error numbers of invalid requests, sorted.
const BAD_REQUESTS: &[u16] = &[
    10, 17, 400, 600, 601, 1204, 1205, 1208, 1213, 1214, 1216, 1218, 1221, 1222, 1226, 1227, 1229,
    1232, 1233, 1235, 1237, 1501, 1502, 1504, 1510, 1511, 1512, 1522, 1539, 1540, 1541, 1542, 1543,
    1550, 1551, 1552, 1553, 1561, 1562, 1563, 1569, 1572, 1573, 1575, 1578, 1579, 1580, 1581, 1620,
    1621, 1651, 1652, 1653, 1700, 1850,
];

/// The HTTP status of one of ArangoDB's error numbers.
fn status_of(number: ErrorNumber) -> u16 {
    match number.0 {
        bad if BAD_REQUESTS.contains(&bad) => 400,
        401 => 401,
        11 | 1004 | 1230 => 403,
        404 | 1202 | 1203 | 1212 | 1228 | 1238 | 1582 | 1591 | 1600 | 1655 | 1703 | 1924 | 1926 => {
            404
        }
        405 => 405,
        406 => 406,
        1200 | 1207 | 1210 | 1601 | 1702 | 1925 => 409,
        21 | 1500 | 1654 => 410,
        412 | 21004 => 412,
        9 | 31 | 501 | 1470 | 1471 => 501,
        30 | 38 | 503 | 21003 => 503,
        _ => 500,
    }
}

#[cfg(test)]
mod tests {
    use pellucid_store::StoreError;

    use super::*;

    /// Regression: damage that a document request met left no line in the log.
    #[test]
    fn a_reply_about_an_error_of_the_store_keeps_it_for_the_log() {
        let damage = StoreError::Corruption("4.table is damaged at offset 8".to_owned());
        let reply = Reply::from(DocumentError::from(damage));
        let kept = reply.store_failure.map(|error| error.to_string());
        assert_eq!(kept.as_deref(), Some("4.table is damaged at offset 8"));
        let of_user = DocumentError::new(ErrorNumber::INTERNAL, "at position 1: invalid JSON");
        assert!(Reply::from(of_user).store_failure.is_none());
    }

    #[test]
    fn numbers_have_the_statuses_that_drivers_know() {
        let status = |number| status_of(ErrorNumber(number));
        assert_eq!(status(1202), 404);
        assert_eq!(status(1210), 409);
        assert_eq!(status(1200), 409);
        assert_eq!(status(1500), 410);
        assert_eq!(status(21003), 503);
        assert_eq!(status(32), 500);
        assert_eq!(status(9), 501);
        assert_eq!(status(7), 500);
    }

    #[test]
    fn errors_have_all_four_attributes() {
        let reply = Reply::from(ErrorNumber::DOCUMENT_NOT_FOUND);
        let Body::Value(body) = reply.body else { panic!("errors have a body") };
        let body: Value = serde_json::from_slice(&body).unwrap();
        let expected = json!({
            "error": true, "code": 404, "errorNum": 1202, "errorMessage": "document not found",
        });
        assert_eq!((reply.status, body), (404, expected));
    }
}
