//! A call of the document API: the parts of an HTTP request that the handlers need. It may outlive
//! the request.

use std::borrow::Cow;

use pellucid_document::{DocumentError, ErrorNumber, Result};
use pellucid_http::{ClientWatch, Request, plain_tag};
use pellucid_value::{DuplicateRule, ObjectRef, Ref, json, packed};
use serde_json::{Map, Value};

use crate::gate::OMIT_CHALLENGES;
use crate::names::Operation;
use crate::query::flag_of_word;
use crate::routes::{HandlerThread, Method, Path, Route, Target, decode};

use super::control::Control;

/// The most bytes of a body that is parsed on the event loop.
const LIGHT_BODY_BYTES_MAX: usize = 64 * 1024;

/// A call of the document API.
#[derive(Clone)]
pub(crate) struct Call<'a> {
    pub(crate) route: &'static Route,
    pub(crate) method: Method,
    parts: Path<'a>,
    /// The path as it was sent.
    pub(crate) path: Cow<'a, str>,
    query: Option<Cow<'a, str>>,
    pub(crate) if_match: Option<Cow<'a, [u8]>>,
    pub(crate) if_none_match: Option<Cow<'a, [u8]>>,
    pub(crate) transaction: Option<Cow<'a, [u8]>>,
    pub(crate) is_async: bool,
    /// True if a refusal is to have no challenges.
    pub(crate) is_quiet: bool,
    pub(crate) body: Cow<'a, [u8]>,
    /// The number of the request in the account.
    pub(crate) request: u64,
    /// True on a thread that may wait for the disk.
    pub(crate) may_wait: bool,
    /// The control by which other threads can end the call, once it is handed to a worker.
    pub(crate) control: Option<Control>,
    /// The watch that tells if the client is gone, once the call is handed to a worker.
    pub(crate) client: Option<ClientWatch>,
}

impl<'a> Call<'a> {
    /// Makes the call of a request with this number. Takes the path out of `target`.
    pub(crate) fn of<'t: 'a>(
        request: &Request<'a>,
        target: &mut Target<'t>,
        number: u64,
    ) -> Call<'a> {
        let header = |name| request.header(name).map(Cow::Borrowed);
        Call {
            route: target.route,
            method: target.route.method_of(Method::of(request.method)),
            parts: target.path.take().unwrap_or_default(),
            path: Cow::Borrowed(request.path),
            query: request.query.map(Cow::Borrowed),
            if_match: header("if-match").map(unquoted),
            if_none_match: header("if-none-match").map(unquoted),
            transaction: header("x-arango-trx-id"),
            is_async: request.header("x-arango-async").is_some_and(|value| value == b"store"),
            is_quiet: request.header(OMIT_CHALLENGES).is_some(),
            body: Cow::Borrowed(request.body),
            request: number,
            may_wait: false,
            control: None,
            client: None,
        }
    }

    /// The operation of the call in the account.
    pub(crate) fn operation(&self) -> Operation {
        if self.is_array() { Operation::DocumentArray } else { self.route.operation }
    }

    /// True if the call is small enough for an event loop.
    pub(crate) fn is_light(&self) -> bool {
        match self.route.runs {
            HandlerThread::AtOnce => true,
            HandlerThread::IfSmall => self.body.len() <= LIGHT_BODY_BYTES_MAX && !self.is_array(),
            HandlerThread::IfPlanned | HandlerThread::OnWorker => false,
        }
    }

    /// Converts the call to one that outlives the request, for a thread that may wait.
    pub(crate) fn into_owned(self) -> Call<'static> {
        let owned =
            |bytes: Option<Cow<'a, [u8]>>| bytes.map(|bytes| Cow::Owned(bytes.into_owned()));
        let text = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        Call {
            route: self.route,
            method: self.method,
            parts: self.parts.into_owned(),
            path: text(self.path),
            query: self.query.map(text),
            if_match: owned(self.if_match),
            if_none_match: owned(self.if_none_match),
            transaction: owned(self.transaction),
            is_async: self.is_async,
            is_quiet: self.is_quiet,
            body: Cow::Owned(self.body.into_owned()),
            request: self.request,
            may_wait: true,
            control: self.control,
            client: self.client,
        }
    }

    /// Checks that the call was not ended. Long work calls this regularly.
    ///
    /// # Errors
    /// 1500 if it was ended, or has taken too long.
    pub(crate) fn check(&self) -> Result<()> {
        self.control.as_ref().map_or(Ok(()), Control::check)
    }

    /// True if another thread has ended the call.
    pub(crate) fn is_ended(&self) -> bool {
        self.control.as_ref().is_some_and(|control| control.kill_switch().is_killed())
    }

    /// True if the client has gone since the call was handed to a worker.
    pub(crate) fn is_forsaken(&self) -> bool {
        self.client.as_ref().is_some_and(ClientWatch::is_gone)
    }

    /// The name of the database.
    pub(crate) fn database(&self) -> &str {
        self.parts.database()
    }

    /// The segment of the path at `place` behind the database, if there is one.
    pub(crate) fn segment(&self, place: usize) -> Option<&str> {
        self.parts.segment(place)
    }

    /// The number of segments behind the database.
    pub(crate) fn length(&self) -> usize {
        self.parts.len()
    }

    /// The segment of its path for a part of its route, such as `{collection}`.
    pub(crate) fn part(&self, name: &str) -> Option<&str> {
        self.segment(self.route.place_of(name)?)
    }

    /// True if the call inserts the documents of an array.
    pub(crate) fn is_array(&self) -> bool {
        self.method == Method::Post
            && self.route.runs == HandlerThread::IfSmall
            && self.body.trim_ascii_start().first() == Some(&b'[')
    }

    /// True if the call only reads one document.
    pub(crate) fn reads_document(&self) -> bool {
        self.route.runs == HandlerThread::IfSmall && self.route.reads()
    }

    /// The decoded query parameter of this name; the last one if there are several. A value that is
    /// not validly percent-encoded is returned undecoded.
    pub(crate) fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        let query = self.query.as_deref()?;
        let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let found = pairs.rfind(|(key, _)| *key == name)?;
        Some(decode(found.1).unwrap_or(Cow::Borrowed(found.1)))
    }

    /// A query parameter that is true or false.
    ///
    /// # Errors
    /// 400 for any other word, so that a misspelled `true` does not count as false.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>> {
        let Some(word) = self.parameter(name) else { return Ok(None) };
        flag_of_word(&word)
            .map_err(|()| bad_request(format!("bad parameter: `{name}` is true or false")))
    }

    /// A query parameter that is true or false, and false if it is missing.
    ///
    /// # Errors
    /// Those of [`Call::flag`].
    pub(crate) fn is_set(&self, name: &str) -> Result<bool> {
        Ok(self.flag(name)?.unwrap_or(false))
    }

    /// The body as a JSON object; an empty one counts as an empty object.
    ///
    /// # Errors
    /// 600 if the body is no JSON, 400 if it is no object.
    pub(crate) fn object(&self) -> Result<Map<String, Value>> {
        if self.body.trim_ascii().is_empty() {
            return Ok(Map::new());
        }
        match serde_json::from_slice(&self.body) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err(bad_request("expecting an object in the body")),
            Err(error) => Err(bad_json(&error)),
        }
    }

    /// The body in packed form.
    ///
    /// # Errors
    /// 600 if it is no JSON.
    pub(crate) fn packed(&self) -> Result<Vec<u8>> {
        json::parse_packed(&self.body, DuplicateRule::Refuse).map_err(|error| bad_json(&error))
    }
}

/// The flag of this name in a body, unless it is missing or null.
///
/// # Errors
/// 10 for any other value, so that a flag in quotes does not count as false.
pub(crate) fn flag_in(body: &Map<String, Value>, name: &str) -> Result<Option<bool>> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(bad_parameter(&format!("`{name}` is true or false"))),
    }
}

/// Makes the error for an invalid request: 400.
pub(crate) fn bad_request(message: impl Into<String>) -> DocumentError {
    DocumentError::new(ErrorNumber::HTTP_BAD_PARAMETER, message)
}

/// Makes the error for a part of ArangoDB that is not implemented: 9.
pub(crate) fn not_implemented(message: impl Into<String>) -> DocumentError {
    DocumentError::new(ErrorNumber::NOT_IMPLEMENTED, message)
}

/// Makes the error for an invalid member of a body: 10.
pub(crate) fn bad_parameter(what: &str) -> DocumentError {
    DocumentError::new(ErrorNumber::BAD_PARAMETER, format!("bad parameter: {what}"))
}

/// Makes the error for a body that is no JSON: 600.
pub(crate) fn bad_json(error: &dyn std::fmt::Display) -> DocumentError {
    DocumentError::new(ErrorNumber::CORRUPTED_JSON, format!("VPackError error: {error}"))
}

/// The object in a packed value.
///
/// # Errors
/// 1227 for another value.
pub(crate) fn object_in(value: Ref<'_>) -> Result<ObjectRef<'_>> {
    value.as_object().ok_or_else(|| ErrorNumber::DOCUMENT_TYPE_INVALID.into())
}

/// Opens a packed value that this process made.
pub(crate) fn open(packed: &[u8]) -> Ref<'_> {
    packed::open(packed).unwrap_or(Ref::Null)
}

/// Removes the quotes from an entity tag, and the suffix for a compressed body.
fn unquoted(tag: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let Cow::Borrowed(bytes) = tag else { return tag };
    let bytes = bytes.trim_ascii();
    let inner = |quote: u8| bytes.strip_prefix(&[quote])?.strip_suffix(&[quote]);
    Cow::Borrowed(plain_tag(inner(b'"').or_else(|| inner(b'\'')).unwrap_or(bytes)).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(path: &str, query: Option<&str>, look: impl FnOnce(Call<'_>) -> T) -> T {
        let request = Request { method: "GET", path, query, headers: &[], body: b"" };
        look(Call::of(&request, &mut Target::of("GET", path, query), 0))
    }

    #[test]
    fn parts_are_those_of_the_route() {
        with("/_db/a%2Fb/_api/document/c/x%25:y+z", None, |call| {
            assert_eq!((call.database(), call.part("{collection}")), ("a/b", Some("c")));
            assert_eq!((call.part("{key}"), call.part("{index}")), (Some("x%:y+z"), None));
            assert!(call.reads_document() && !call.is_array());
        });
    }

    #[test]
    fn flags_are_true_or_false_by_five_words_each() {
        let query = Some("a=YES&b=off&c=undefined&d=on&f=ture&g=&h");
        with("/_api/version", query, |call| {
            assert_eq!(call.flag("a").unwrap(), Some(true));
            assert_eq!(call.flag("b").unwrap(), Some(false));
            assert_eq!(call.flag("c").unwrap(), None);
            assert!(call.is_set("d").unwrap() && !call.is_set("e").unwrap());
            for name in ["f", "g", "h"] {
                assert_eq!(call.flag(name).unwrap_err().number, ErrorNumber::HTTP_BAD_PARAMETER);
            }
        });
    }
}
