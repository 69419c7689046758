//! A call of the document API: the parts of a request that its handlers need, which may outlive it.

use std::borrow::Cow;

use pellucid_document::{DocumentError, ErrorNumber};
use pellucid_http::{ClientWatch, Request, plain_tag};
use pellucid_value::{ObjectRef, Ref, json, packed};
use serde_json::{Map, Value};

use crate::names::Operation;
use crate::query::flag_of_word;
use crate::routes::{Method, Path, Route, Runs, Target, decode};

use super::control::Control;

/// A body up to this size is read on the event loop.
const LIGHT_BODY_BYTES_MAX: usize = 64 * 1024;

/// See the module.
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
    pub(crate) body: Cow<'a, [u8]>,
    /// The number of the request, by which it is accounted for.
    pub(crate) request: u64,
    /// It is on a thread that may wait for the medium.
    pub(crate) may_wait: bool,
    /// Ends it from elsewhere, once a worker is to make it.
    pub(crate) control: Option<Control>,
    /// Tells if its client is gone, once it is handed over.
    pub(crate) client: Option<ClientWatch>,
}

impl<'a> Call<'a> {
    /// The call of a request, by its number and its route; it takes the target's path.
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
            body: Cow::Borrowed(request.body),
            request: number,
            may_wait: false,
            control: None,
            client: None,
        }
    }

    /// The operation that it is accounted for as.
    pub(crate) fn operation(&self) -> Operation {
        if self.is_array() { Operation::DocumentArray } else { self.route.operation }
    }

    /// It is small enough for an event loop.
    pub(crate) fn is_light(&self) -> bool {
        match self.route.runs {
            Runs::AtOnce => true,
            Runs::IfSmall => self.body.len() <= LIGHT_BODY_BYTES_MAX && !self.is_array(),
            Runs::IfPlanned | Runs::OnWorker => false,
        }
    }

    /// A copy that outlives the request, for a thread that may wait.
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
            body: Cow::Owned(self.body.into_owned()),
            request: self.request,
            may_wait: true,
            control: self.control,
            client: self.client,
        }
    }

    /// Goes on, unless it was ended from elsewhere; for whatever takes long.
    ///
    /// # Errors
    /// 1500.
    pub(crate) fn check(&self) -> Result<(), DocumentError> {
        self.control.as_ref().map_or(Ok(()), Control::check)
    }

    /// It was ended from elsewhere.
    pub(crate) fn is_ended(&self) -> bool {
        self.control.as_ref().is_some_and(|control| control.kill_switch().is_killed())
    }

    /// It was handed over, and its client is gone meanwhile.
    pub(crate) fn is_forsaken(&self) -> bool {
        self.client.as_ref().is_some_and(ClientWatch::is_gone)
    }

    /// The name of the database.
    pub(crate) fn database(&self) -> &str {
        self.parts.database()
    }

    /// The segment at `place` behind the database, or nothing.
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

    /// It inserts the documents of an array.
    pub(crate) fn is_array(&self) -> bool {
        self.method == Method::Post
            && self.route.runs == Runs::IfSmall
            && self.body.trim_ascii_start().first() == Some(&b'[')
    }

    /// It reads one document and changes nothing.
    pub(crate) fn reads_document(&self) -> bool {
        self.route.runs == Runs::IfSmall && self.route.reads()
    }

    /// The parameter of this name, decoded; the last one, if it is given more than once. What is
    /// not encoded as it must be is taken as it is.
    pub(crate) fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        let query = self.query.as_deref()?;
        let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let found = pairs.rfind(|(key, _)| *key == name)?;
        Some(decode(found.1).unwrap_or(Cow::Borrowed(found.1)))
    }

    /// A parameter that is true or false.
    ///
    /// # Errors
    /// 400 for another word: a mistyped `true` is no `false`.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, DocumentError> {
        let Some(word) = self.parameter(name) else { return Ok(None) };
        flag_of_word(&word)
            .map_err(|()| bad_request(format!("bad parameter: `{name}` is true or false")))
    }

    /// A parameter that is false unless it is given as true.
    ///
    /// # Errors
    /// As those of [`Call::flag`].
    pub(crate) fn is_set(&self, name: &str) -> Result<bool, DocumentError> {
        Ok(self.flag(name)?.unwrap_or(false))
    }

    /// The body as a JSON object; an empty one counts as an empty object.
    ///
    /// # Errors
    /// 600 if there is something that is no JSON, 400 for another value.
    pub(crate) fn object(&self) -> Result<Map<String, Value>, DocumentError> {
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
    pub(crate) fn packed(&self) -> Result<Vec<u8>, DocumentError> {
        json::parse_packed(&self.body, json::Limits::default()).map_err(|error| bad_json(&error))
    }
}

/// The flag of this name in a body, unless it is missing or null.
///
/// # Errors
/// 10 for another value: a flag in quotes is not taken for one that is off.
pub(crate) fn flag_in(
    body: &Map<String, Value>,
    name: &str,
) -> Result<Option<bool>, DocumentError> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(bad_parameter(&format!("`{name}` is true or false"))),
    }
}

/// The error for a request that cannot be right: 400.
pub(crate) fn bad_request(message: impl Into<String>) -> DocumentError {
    DocumentError::new(ErrorNumber::HTTP_BAD_PARAMETER, message)
}

/// The error for a part of ArangoDB that is not built.
pub(crate) fn not_implemented(message: impl Into<String>) -> DocumentError {
    DocumentError::new(ErrorNumber::NOT_IMPLEMENTED, message)
}

/// The error for a malformed member of a body.
pub(crate) fn bad_parameter(what: &str) -> DocumentError {
    DocumentError::new(ErrorNumber::BAD_PARAMETER, format!("bad parameter: {what}"))
}

/// The error for text that is no JSON.
pub(crate) fn bad_json(error: &dyn std::fmt::Display) -> DocumentError {
    DocumentError::new(ErrorNumber::CORRUPTED_JSON, format!("VPackError error: {error}"))
}

/// The object in a packed value.
///
/// # Errors
/// 1227 for another value.
pub(crate) fn object_in(value: Ref<'_>) -> Result<ObjectRef<'_>, DocumentError> {
    value.as_object().ok_or_else(|| ErrorNumber::DOCUMENT_TYPE_INVALID.into())
}

/// A packed value that this process made.
pub(crate) fn open(packed: &[u8]) -> Ref<'_> {
    packed::open(packed).unwrap_or(Ref::Null)
}

/// Takes quotes, and the coding of the body that it came with, off an entity tag.
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
