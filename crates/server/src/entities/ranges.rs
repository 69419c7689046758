//! `GET /v0/entities`: a range, streamed as fast as the client reads it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_budget::{Budget, Share};
use pellucid_http::{BodySource, FillResult, READ_BYTES_MAX, Request};
use pellucid_store::{Object, Result as StoreResult, StoreError};

use crate::log::Log;
use crate::query::{flag_parameter, number_parameter, parameter};

/// The media type of output with one JSON object per line.
const NDJSON: &str = "application/x-ndjson";

/// The framing of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `key\nvalue` for each entry, with no separator between entries. A client cannot always split
    /// it again; the form exists because the API is defined so.
    Plain,
    /// One JSON object per line, key and value in base64.
    Ndjson,
}

impl Form {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Form::Plain => "application/octet-stream",
            Form::Ndjson => NDJSON,
        }
    }
}

/// The parameters of a range.
pub(crate) struct Query<'q> {
    pub(crate) start: Cow<'q, [u8]>,
    pub(crate) end: Option<Cow<'q, [u8]>>,
    /// The limit of entries.
    pub(crate) left: u64,
    pub(crate) reverse: bool,
    /// True if the client asks for the entries of all nodes.
    pub(crate) is_of_cluster: bool,
}

impl Query<'_> {
    /// A copy for a thread, which does not borrow from the request.
    pub(crate) fn into_owned(self) -> Query<'static> {
        let owned = |key: Cow<'_, [u8]>| Cow::Owned(key.into_owned());
        let Query { start, end, left, reverse, is_of_cluster } = self;
        Query { start: owned(start), end: end.map(owned), left, reverse, is_of_cluster }
    }
}

/// Reads the parameters of a range.
///
/// # Errors
/// If a parameter is missing or wrong.
pub(crate) fn parse(query: Option<&str>) -> Result<Query<'_>, String> {
    let start = parameter(query, "start")?.filter(|start| !start.is_empty());
    let start = start.ok_or_else(|| "`start` is missing or empty".to_owned())?;
    let end = parameter(query, "end")?;
    if end.as_ref().is_some_and(|end| end.is_empty()) {
        return Err("`end` is empty: leave it out for the end of the table".to_owned());
    }
    let left = number_parameter(query, "limit")?.unwrap_or(u64::MAX);
    let flag = |name| flag_parameter(query, name);
    let (reverse, is_of_cluster) = (flag("reverse")?, flag("cluster")?);
    Ok(Query { start, end, left, reverse, is_of_cluster })
}

/// Returns true if the header `Accept` has this media type, with any parameters.
pub(crate) fn names_type(request: &Request<'_>, media_type: &str) -> bool {
    let accepts = request.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("accept"));
    let mut types = accepts
        .flat_map(|header| header.value.split(|byte| *byte == b','))
        .filter_map(|item| item.split(|byte| *byte == b';').next());
    types.any(|item| item.trim_ascii().eq_ignore_ascii_case(media_type.as_bytes()))
}

/// The form that the client asks for: NDJSON if `Accept` has its media type, otherwise plain.
pub(crate) fn form_of(request: &Request<'_>) -> Form {
    if names_type(request, NDJSON) { Form::Ndjson } else { Form::Plain }
}

/// A source of the entries of a range.
pub(crate) trait Entries: Send {
    /// The name of the source in the log.
    const NAME: &'static str;

    /// The next entry.
    ///
    /// # Errors
    /// If a store fails before the end of the range.
    fn next(&mut self) -> StoreResult<NextEntry<'_>>;

    /// Releases what the source can find again, before the client may pause.
    fn release(&mut self) {}

    /// The expiry of the last entry, in milliseconds since the Unix epoch; `None` if it never
    /// expires, or the store does not know.
    fn expires_at_ms(&self) -> Option<u64> {
        None
    }

    /// The duration of the last entry's read, if the client asked for timing.
    fn read_ns(&self) -> Option<u64> {
        None
    }
}

/// The next step of a range.
pub(crate) enum NextEntry<'a> {
    /// An entry.
    Here(Cow<'a, [u8]>, Object),
    /// The client asked for this key, but it has no entry.
    Absent(Cow<'a, [u8]>),
    /// The entry has not arrived yet. The transport asks the body again when it has.
    NotHere,
    /// The end of the range.
    Over,
}

/// The entries of a range as the body of a reply.
pub(crate) struct RangeBody<E> {
    entries: E,
    form: Form,
    left: u64,
    /// The entry whose value is being written. Large values are written in pieces, so that a stream
    /// holds little memory.
    open: Option<OpenEntry>,
    /// The memory of a large value that is being written. It is kept for the next one: if other
    /// ranges took it in between, this one would be cut short.
    memory: Share,
    log: Log,
}

/// An entry whose value is being written.
struct OpenEntry {
    object: Object,
    expires_at_ms: Option<u64>,
    sent: usize,
}

impl<E: Entries> RangeBody<E> {
    /// A body of `left` entries at most, whose large values take from `memory`.
    pub(crate) fn new(
        entries: E,
        form: Form,
        left: u64,
        memory: &Budget,
        log: &Log,
    ) -> RangeBody<E> {
        let (memory, log) = (memory.share(usize::MAX), log.clone());
        RangeBody { entries, form, left, open: None, memory, log }
    }

    /// Appends the next piece to `out`.
    ///
    /// # Errors
    /// If the source of the entries fails before the end of the range, or there is no memory for a
    /// large value.
    pub(crate) fn try_fill(&mut self, out: &mut Vec<u8>) -> StoreResult<FillResult> {
        let full = out.len() + READ_BYTES_MAX;
        while out.len() < full {
            if let Some(entry) = &mut self.open {
                if entry.write(out, self.form, full - out.len())? {
                    if self.form == Form::Ndjson {
                        write_end(out, self.entries.read_ns());
                    }
                    self.open = None;
                }
                continue;
            }
            if self.left == 0 {
                return Ok(FillResult::Last);
            }
            let found = match self.entries.next()? {
                NextEntry::Over => return Ok(FillResult::Last),
                NextEntry::NotHere => return Ok(FillResult::Waiting),
                NextEntry::Here(key, object) => {
                    write_key(out, self.form, &key);
                    Some(object)
                }
                NextEntry::Absent(key) => {
                    out.extend_from_slice(b"{\"key\":\"");
                    write_base64(out, &key);
                    out.extend_from_slice(b"\",\"found\":false");
                    None
                }
            };
            match found {
                None => write_end(out, self.entries.read_ns()),
                Some(object) => {
                    self.hold(object.value.held_bytes())?;
                    let expires_at_ms = self.entries.expires_at_ms();
                    self.open = Some(OpenEntry { object, expires_at_ms, sent: 0 });
                }
            }
            self.left -= 1;
        }
        Ok(FillResult::More)
    }

    /// Holds the memory of a value, in place of that of the value before.
    fn hold(&mut self, value_bytes: usize) -> StoreResult<()> {
        let bytes = if value_bytes > READ_BYTES_MAX { value_bytes } else { 0 };
        let held_bytes = self.memory.held_bytes();
        self.memory.give_back(held_bytes.saturating_sub(bytes));
        let taken = self.memory.take(bytes.saturating_sub(held_bytes));
        taken.map_err(|over| StoreError::Busy(over.to_string()))
    }

    pub(crate) fn entries(&mut self) -> &mut E {
        &mut self.entries
    }

    /// Releases what can be found again, before the client may pause.
    pub(crate) fn release(&mut self) {
        self.entries.release();
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }
}

impl<E: Entries> BodySource for RangeBody<E> {
    fn fill(&mut self, out: &mut Vec<u8>) -> FillResult {
        self.try_fill(out).unwrap_or_else(|error| {
            self.log.failed_request(&format!("{} was cut short", E::NAME), &error);
            FillResult::Broken
        })
    }
}

fn write_key(out: &mut Vec<u8>, form: Form, key: &[u8]) {
    match form {
        Form::Plain => {
            out.extend_from_slice(key);
            out.push(b'\n');
        }
        Form::Ndjson => {
            out.extend_from_slice(b"{\"key\":\"");
            write_base64(out, key);
            out.extend_from_slice(b"\",\"value\":\"");
        }
    }
}

impl OpenEntry {
    /// Writes the next part of the value, about `room` bytes; true if the entry is complete.
    fn write(&mut self, out: &mut Vec<u8>, form: Form, room: usize) -> StoreResult<bool> {
        let begin = self.sent;
        self.sent += self.object.value.read(|bytes| match (form, &bytes[begin..]) {
            (Form::Plain, rest) => {
                let piece = &rest[..rest.len().min(room)];
                out.extend_from_slice(piece);
                piece.len()
            }
            (Form::Ndjson, rest) => write_base64_piece(out, rest, room),
        })?;
        let is_over = self.sent == self.object.value.len();
        if is_over && form == Form::Ndjson {
            let sequence = self.object.head.sequence;
            out.extend_from_slice(format!("\",\"etag\":\"\\\"{sequence}\\\"\"").as_bytes());
            if let Some(expires_at_ms) = self.expires_at_ms {
                out.extend_from_slice(format!(",\"expires_at_ms\":{expires_at_ms}").as_bytes());
            }
        }
        Ok(is_over)
    }
}

/// Ends a line of NDJSON, with the duration of the read if there is one.
fn write_end(out: &mut Vec<u8>, read_ns: Option<u64>) {
    if let Some(read_ns) = read_ns {
        out.extend_from_slice(format!(",\"read_ns\":{read_ns}").as_bytes());
    }
    out.extend_from_slice(b"}\n");
}

/// Appends the begin of `rest`, about `room` letters, to `out` in base64. Returns the number of
/// bytes that this covers. Three bytes are four letters, so only the last piece ends within them.
pub(crate) fn write_base64_piece(out: &mut Vec<u8>, rest: &[u8], room: usize) -> usize {
    let piece = &rest[..rest.len().min((room / 4).max(1) * 3)];
    write_base64(out, piece);
    piece.len()
}

/// Appends `bytes` to `out` in base64.
pub(crate) fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let begin = out.len();
    out.resize(begin + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[begin..]);
    assert_eq!(written, Ok(out.len() - begin), "three bytes are four letters, rounded up");
}
