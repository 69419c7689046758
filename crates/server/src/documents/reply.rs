//! What the document API answers: statuses, envelopes and headers as ArangoDB's drivers expect
//! them.

use pellucid_budget::{Budget, Share};
use pellucid_document::{DocumentError, ErrorNumber, Standing};
use pellucid_http::{BodySource, Filled, Handled, READ_BYTES_MAX, Response};
use serde_json::{Map, Value, json};

use super::encoding::Encoding;
use super::memory::over_budget;

/// A body up to this size is copied behind its headers; a larger one is sent from where it lies.
const INLINE_BODY_BYTES_MAX: usize = READ_BYTES_MAX;

/// An answer that is complete.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Body,
    /// The memory of the body, if it was taken before the body was made.
    pub(crate) memory: Option<Share>,
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Body {
    Bytes(Vec<u8>),
    /// That of an answer to HEAD: only its length is known.
    Length(u64),
}

impl Reply {
    /// JSON as it is.
    pub(crate) fn json(status: u16, body: Vec<u8>) -> Reply {
        let content_type = "application/json";
        let (headers, body) = (Vec::new(), Body::Bytes(body));
        Reply { status, content_type, headers, body, memory: None }
    }

    /// JSON as it was encoded, and its memory.
    pub(super) fn encoded(status: u16, encoding: Encoding<'_>) -> Reply {
        let (body, memory) = encoding.finish();
        Reply { memory: Some(memory), ..Reply::json(status, body) }
    }

    /// JSON as it is.
    pub(crate) fn value(status: u16, value: &Value) -> Reply {
        Reply::json(status, value.to_string().into_bytes())
    }

    /// `fields` in the envelope of success.
    pub(crate) fn success(status: u16, fields: Value) -> Reply {
        let mut object = match fields {
            Value::Object(object) => object,
            other => Map::from_iter([("result".to_owned(), other)]),
        };
        object.insert("error".to_owned(), json!(false));
        object.insert("code".to_owned(), json!(status));
        Reply::value(status, &Value::Object(object))
    }

    /// An error in its envelope, with the status that belongs to its number.
    pub(crate) fn error(error: &DocumentError) -> Reply {
        Reply::error_as(status_of(error.number), error)
    }

    /// As [`Reply::error`], with another status.
    pub(crate) fn error_as(status: u16, error: &DocumentError) -> Reply {
        let mut body = json!({
            "error": true,
            "code": status,
            "errorNum": error.number.0,
            "errorMessage": error.message,
        });
        let Some(Standing { key, revision }) = error.standing.as_deref() else {
            return Reply::value(status, &body);
        };
        body["_key"] = json!(key);
        body["_rev"] = json!(revision);
        Reply::value(status, &body).with_header("ETag", format!("\"{revision}\""))
    }

    /// An answer without a body.
    pub(crate) fn empty(status: u16) -> Reply {
        let (content_type, body) = ("text/plain", Body::Bytes(Vec::new()));
        Reply { status, content_type, headers: Vec::new(), body, memory: None }
    }

    /// Has a large body hold its memory until it is sent; what there is no memory for is another
    /// answer.
    pub(crate) fn counted(mut self, budget: &Budget) -> Reply {
        let Body::Bytes(body) = &self.body else { return self };
        if body.len() <= INLINE_BODY_BYTES_MAX || self.memory.is_some() {
            return self;
        }
        let mut memory = budget.share(usize::MAX);
        match memory.take(body.len()) {
            Ok(()) => self.memory = Some(memory),
            Err(error) => return Reply::error(&over_budget(error)),
        }
        self
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: String) -> Reply {
        self.headers.push((name, value));
        self
    }

    /// Writes it.
    pub(crate) fn send(
        self,
        response: &mut Response<'_>,
        queued_ns: u64,
        add: impl FnOnce(&mut Response<'_>),
    ) -> Handled {
        response.status(self.status).header("Content-Type", self.content_type.as_bytes());
        response.header_with("X-Arango-Queue-Time-Seconds", |out| match queued_ns {
            0 => out.extend_from_slice(b"0.000000"),
            waited_ns => {
                let seconds = waited_ns as f64 / 1e9;
                out.extend_from_slice(format!("{seconds:.6}").as_bytes());
            }
        });
        for (name, value) in &self.headers {
            response.header(name, value.as_bytes());
        }
        add(response);
        match self.body {
            Body::Length(length_bytes) => response.finish_length(length_bytes),
            Body::Bytes(body) if body.len() > INLINE_BODY_BYTES_MAX => {
                response.finish_streamed(Some(body.len() as u64));
                return Handled::Stream(Box::new(Sending { body, sent: 0, _memory: self.memory }));
            }
            Body::Bytes(body) => response.finish(&body),
        }
        Handled::Done
    }
}

impl From<DocumentError> for Reply {
    fn from(error: DocumentError) -> Reply {
        Reply::error(&error)
    }
}

impl From<ErrorNumber> for Reply {
    fn from(number: ErrorNumber) -> Reply {
        Reply::error(&number.into())
    }
}

/// A large body on its way.
struct Sending {
    body: Vec<u8>,
    sent: usize,
    /// The memory of the body, held as long as it is.
    _memory: Option<Share>,
}

impl BodySource for Sending {
    fn fill(&mut self, out: &mut Vec<u8>) -> Filled {
        let end = (self.sent + READ_BYTES_MAX).min(self.body.len());
        out.extend_from_slice(&self.body[self.sent..end]);
        self.sent = end;
        if end == self.body.len() { Filled::Last } else { Filled::More }
    }
}

/// The HTTP status that ArangoDB answers a number with.
pub(crate) fn status_of(number: ErrorNumber) -> u16 {
    match number.0 {
        10
        | 17
        | 400
        | 600
        | 601
        | 1204
        | 1205
        | 1208
        | 1213
        | 1214
        | 1216
        | 1218
        | 1221
        | 1222
        | 1226
        | 1227
        | 1229
        | 1232
        | 1233
        | 1235
        | 1237
        | 1501
        | 1502
        | 1504
        | 1510..=1512
        | 1522
        | 1539..=1543
        | 1550..=1553
        | 1561..=1563
        | 1569
        | 1572
        | 1573
        | 1575
        | 1578..=1581
        | 1620
        | 1621
        | 1651..=1653
        | 1700
        | 1850 => 400,
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
    use super::*;

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
        let reply = Reply::error(&ErrorNumber::DOCUMENT_NOT_FOUND.into());
        let Body::Bytes(body) = reply.body else { panic!("errors have a body") };
        let body: Value = serde_json::from_slice(&body).unwrap();
        let expected = json!({
            "error": true, "code": 404, "errorNum": 1202, "errorMessage": "document not found",
        });
        assert_eq!((reply.status, body), (404, expected));
    }
}
