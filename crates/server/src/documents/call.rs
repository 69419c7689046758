//! A call of the document API: what of a request its handlers look at, which may outlive it.

use std::borrow::Cow;

use pellucid_document::{DocumentError, ErrorNumber};
use pellucid_http::{ClientWatch, Request};
use serde_json::{Map, Value};

pub(crate) use crate::routes::Method;
use crate::routes::{Path, Route, Runs, Target, decode};

use super::control::Control;

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
    /// Whether it is on a thread that may wait for the medium.
    pub(crate) may_wait: bool,
    /// What ends it from elsewhere, once a worker is to make it.
    pub(crate) control: Option<Control>,
    /// Whether its client is there, once it is handed over.
    pub(crate) client: Option<ClientWatch>,
}

impl<'a> Call<'a> {
    /// What a request asks of its route; it takes the target's path.
    pub(crate) fn of<'t: 'a>(request: &Request<'a>, target: &mut Target<'t>) -> Call<'a> {
        let header = |name| request.header(name).map(Cow::Borrowed);
        Call {
            route: target.route,
            method: Method::of(request.method),
            parts: target.path.take().unwrap_or_default(),
            path: Cow::Borrowed(request.path),
            query: request.query.map(Cow::Borrowed),
            if_match: header("if-match").map(unquoted),
            if_none_match: header("if-none-match").map(unquoted),
            transaction: header("x-arango-trx-id"),
            is_async: request.header("x-arango-async").is_some_and(|value| value == b"store"),
            body: Cow::Borrowed(request.body),
            request: 0,
            may_wait: false,
            control: None,
            client: None,
        }
    }

    /// The call, knowing the number of its request.
    pub(crate) fn numbered(self, request: u64) -> Call<'a> {
        Call { request, ..self }
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

    /// The call, under this control.
    pub(crate) fn controlled(self, control: Control) -> Call<'a> {
        Call { control: Some(control), ..self }
    }

    /// Goes on, unless it was ended from elsewhere; for whatever takes long.
    ///
    /// # Errors
    /// 1500.
    pub(crate) fn check(&self) -> Result<(), DocumentError> {
        self.control.as_ref().map_or(Ok(()), Control::check)
    }

    /// Whether it was handed over, and its client is gone meanwhile.
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

    /// How many segments there are behind the database.
    pub(crate) fn length(&self) -> usize {
        self.parts.len()
    }

    /// What its path has for a part of its route, such as `{collection}`.
    pub(crate) fn part(&self, name: &str) -> Option<&str> {
        self.segment(self.route.place_of(name)?)
    }

    /// Whether it inserts the documents of an array.
    pub(crate) fn is_array(&self) -> bool {
        self.method == Method::Post
            && self.route.runs == Runs::IfSmall
            && self.body.trim_ascii_start().first() == Some(&b'[')
    }

    /// Whether it reads one document and changes nothing.
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

    /// A parameter that is true or false; `undefined`, as arangojs sends it, is not given.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        let text = self.parameter(name)?;
        if text == "undefined" {
            return None;
        }
        let is_true = ["true", "yes", "on", "y", "1"];
        Some(is_true.iter().any(|word| text.eq_ignore_ascii_case(word)))
    }

    /// A parameter that is false unless it is given as true.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.flag(name).unwrap_or(false)
    }

    /// The body as a JSON object; one that is none, or empty, counts as an empty object.
    ///
    /// # Errors
    /// 600 if there is something that is no JSON.
    pub(crate) fn object(&self) -> Result<Map<String, Value>, DocumentError> {
        if self.body.trim_ascii().is_empty() {
            return Ok(Map::new());
        }
        match serde_json::from_slice(&self.body) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Ok(Map::new()),
            Err(error) => {
                let message = format!("VPackError error: {error}");
                Err(DocumentError::new(ErrorNumber::CORRUPTED_JSON, message))
            }
        }
    }
}

/// Takes quotes off an entity tag.
fn unquoted(tag: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let Cow::Borrowed(bytes) = tag else { return tag };
    let bytes = bytes.trim_ascii();
    let inner = |quote: u8| bytes.strip_prefix(&[quote])?.strip_suffix(&[quote]);
    Cow::Borrowed(inner(b'"').or_else(|| inner(b'\'')).unwrap_or(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(path: &str, query: Option<&str>, look: impl FnOnce(Call<'_>) -> T) -> T {
        let request = Request { method: "GET", path, query, headers: &[], body: b"" };
        look(Call::of(&request, &mut Target::of("GET", path, query)))
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
    fn flags_are_true_by_five_words() {
        let query = Some("a=YES&b=2&c=undefined&d=on");
        with("/_api/version", query, |call| {
            assert_eq!(call.flag("a"), Some(true));
            assert_eq!(call.flag("b"), Some(false));
            assert_eq!(call.flag("c"), None);
            assert!(call.is_set("d") && !call.is_set("e"));
        });
    }
}
