//! `GET /v0/entities`: a range, streamed as the client takes it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_http::{BodySource, Filled, READ_BYTES_MAX, Request};
use pellucid_store::{Object, Range, Scan, Store, StoreError, Table};

use crate::log::Log;
use crate::query::{number_parameter, parameter, text_parameter};

/// The media type of framed output.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// How entries are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `key\nvalue` back to back, as the contract has it; it cannot be split again.
    Plain,
    /// One JSON object a line, key and value in base64.
    Ndjson,
}

impl Form {
    pub(crate) fn content_type(self) -> &'static [u8] {
        match self {
            Form::Plain => b"application/octet-stream",
            Form::Ndjson => NDJSON.as_bytes(),
        }
    }
}

/// Why a range is not served.
pub(crate) enum NoRange {
    Rejected(String),
    Store(StoreError),
}

/// Begins the walk that `request` asks for.
pub(crate) fn begin(
    request: &Request<'_>,
    store: &dyn Store,
    table: Table,
    log: &Log,
) -> Result<(Form, RangeBody), NoRange> {
    let query = request.query;
    let rejected = NoRange::Rejected;
    let start = parameter(query, "start").map_err(rejected)?.filter(|start| !start.is_empty());
    let start = start.ok_or_else(|| rejected("`start` is missing or empty".to_owned()))?;
    let end = parameter(query, "end").map_err(rejected)?;
    if end.as_ref().is_some_and(|end| end.is_empty()) {
        return Err(rejected("`end` is empty: leave it out for the end of the table".to_owned()));
    }
    let left = number_parameter(query, "limit").map_err(rejected)?.unwrap_or(u64::MAX);
    let reverse = match text_parameter(query, "reverse").map_err(rejected)?.as_deref() {
        None | Some("false") => false,
        Some("" | "true") => true,
        Some(_) => return Err(rejected("`reverse` is neither true nor false".to_owned())),
    };
    let form = if request.header_has("accept", NDJSON) { Form::Ndjson } else { Form::Plain };
    let range = Range { start: &start, end: end.as_deref(), reverse };
    let scan = store.scan(table, range).map_err(NoRange::Store)?;
    Ok((form, RangeBody { scan, form, left, log: log.clone() }))
}

/// The entries of a range as a body.
pub(crate) struct RangeBody {
    scan: Box<dyn Scan>,
    form: Form,
    left: u64,
    log: Log,
}

impl BodySource for RangeBody {
    fn fill(&mut self, out: &mut Vec<u8>) -> Filled {
        let begin = out.len();
        while out.len() - begin < READ_BYTES_MAX {
            if self.left == 0 {
                return Filled::Last;
            }
            match self.scan.next() {
                Ok(None) => return Filled::Last,
                Ok(Some((key, object))) => write_entry(out, self.form, key, &object),
                Err(error) => {
                    self.log.write(&format!("a range was cut short: {error}"));
                    return Filled::Broken;
                }
            }
            self.left -= 1;
        }
        Filled::More
    }
}

fn write_entry(out: &mut Vec<u8>, form: Form, key: &[u8], object: &Object) {
    match form {
        Form::Plain => {
            out.extend_from_slice(key);
            out.push(b'\n');
            out.extend_from_slice(&object.value);
        }
        Form::Ndjson => {
            let (key, value) = (STANDARD.encode(key), STANDARD.encode(&*object.value));
            let sequence = object.head.sequence;
            let line = format!(
                "{{\"key\":\"{key}\",\"value\":\"{value}\",\"etag\":\"\\\"{sequence}\\\"\"}}\n"
            );
            out.extend_from_slice(line.as_bytes());
        }
    }
}
