//! A call of the document API: what of a request its handlers look at, which may outlive it.

use std::borrow::Cow;

use pellucid_document::{DocumentError, ErrorNumber, SYSTEM_DATABASE};
use pellucid_http::{ClientWatch, Request};
use serde_json::{Map, Value};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    /// The name of the database.
    pub(crate) database: Cow<'a, str>,
    /// The path behind the database, decoded, one by one.
    pub(crate) segments: Vec<Cow<'a, str>>,
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
    /// Whether its client is there, once it is handed over.
    pub(crate) client: Option<ClientWatch>,
}

/// The methods that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
    Other,
}

impl Method {
    fn of(name: &str) -> Method {
        match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "PATCH" => Method::Patch,
            "DELETE" => Method::Delete,
            "OPTIONS" => Method::Options,
            _ => Method::Other,
        }
    }
}

/// Whether a path is one of the document API.
pub(crate) fn is_ours(path: &str) -> bool {
    let first = path.split('/').nth(1).unwrap_or("");
    match first {
        "_api" | "_db" | "_open" => true,
        "_admin" => {
            let second = path.split('/').nth(2).unwrap_or("");
            matches!(second, "server" | "time" | "status" | "version" | "database" | "backup")
        }
        _ => false,
    }
}

impl<'a> Call<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// 400 for a path that is not encoded as it must be.
    pub(crate) fn of(request: &Request<'a>) -> Result<Call<'a>, DocumentError> {
        let bad = || {
            let message = "the path is not percent-encoded as it must be";
            DocumentError::new(ErrorNumber::HTTP_BAD_PARAMETER, message)
        };
        let mut segments = Vec::with_capacity(6);
        for segment in request.path.split('/').skip(1) {
            segments.push(decode(segment).ok_or_else(bad)?);
        }
        if segments.last().is_some_and(|last| last.is_empty()) {
            segments.pop();
        }
        let mut database = Cow::Borrowed(SYSTEM_DATABASE);
        if segments.first().is_some_and(|first| first == "_db") && segments.len() >= 2 {
            database = segments.remove(1);
            segments.remove(0);
        }
        let header = |name| request.header(name).map(Cow::Borrowed);
        Ok(Call {
            method: Method::of(request.method),
            database,
            segments,
            path: Cow::Borrowed(request.path),
            query: request.query.map(Cow::Borrowed),
            if_match: header("if-match").map(unquoted),
            if_none_match: header("if-none-match").map(unquoted),
            transaction: header("x-arango-trx-id"),
            is_async: request.header("x-arango-async").is_some_and(|value| value == b"store"),
            body: Cow::Borrowed(request.body),
            request: 0,
            may_wait: false,
            client: None,
        })
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
            method: self.method,
            database: text(self.database),
            segments: self.segments.into_iter().map(text).collect(),
            path: text(self.path),
            query: self.query.map(text),
            if_match: owned(self.if_match),
            if_none_match: owned(self.if_none_match),
            transaction: owned(self.transaction),
            is_async: self.is_async,
            body: Cow::Owned(self.body.into_owned()),
            request: self.request,
            may_wait: true,
            client: self.client,
        }
    }

    /// Whether it was handed over, and its client is gone meanwhile.
    pub(crate) fn is_forsaken(&self) -> bool {
        self.client.as_ref().is_some_and(ClientWatch::is_gone)
    }

    /// Whether it reads one document and changes nothing.
    pub(crate) fn reads_document(&self) -> bool {
        matches!(self.method, Method::Get | Method::Head) && self.segment(1) == Some("document")
    }

    /// The segment at `place`, or nothing.
    pub(crate) fn segment(&self, place: usize) -> Option<&str> {
        self.segments.get(place).map(|segment| &**segment)
    }

    /// The parameter of this name, decoded; the last one, if it is given more than once. What is
    /// not encoded as it must be is taken as it is.
    pub(crate) fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        let query = self.query.as_deref()?;
        let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let found = pairs.rfind(|(key, _)| *key == name)?;
        Some(decode(found.1).unwrap_or(Cow::Borrowed(found.1)))
    }

    /// Whether the parameter is given at all.
    pub(crate) fn has_parameter(&self, name: &str) -> bool {
        self.parameter(name).is_some()
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

/// Takes the percent-encoding off; nothing if it is malformed or no UTF-8.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            decoded.push(*first);
            rest = after;
            continue;
        }
        let [high, low, after @ ..] = after else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        decoded.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = after;
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(path: &str, query: Option<&str>, look: impl FnOnce(Call<'_>) -> T) -> T {
        let request = Request { method: "GET", path, query, headers: &[], body: b"" };
        look(Call::of(&request).unwrap())
    }

    #[test]
    fn paths_are_split_before_they_are_decoded() {
        with("/_db/a%2Fb/_api/document/c/x%25:y+z", None, |call| {
            assert_eq!(call.database, "a/b");
            assert_eq!(call.segments, ["_api", "document", "c", "x%:y+z"]);
        });
        with("/_api/version/", Some(""), |call| {
            assert_eq!(
                (&*call.database, &call.segments[..]),
                ("_system", &["_api".into(), "version".into()][..])
            );
        });
        let request =
            Request { method: "GET", path: "/_api/%zz", query: None, headers: &[], body: b"" };
        assert_eq!(Call::of(&request).unwrap_err().number.0, 400);
    }

    #[test]
    fn flags_are_true_by_five_words() {
        let query = Some("a=YES&b=2&c=undefined&d=on&onlyget");
        with("/_api/x", query, |call| {
            assert_eq!(call.flag("a"), Some(true));
            assert_eq!(call.flag("b"), Some(false));
            assert_eq!(call.flag("c"), None);
            assert!(call.is_set("d") && !call.is_set("e") && call.has_parameter("onlyget"));
        });
    }

    #[test]
    fn which_paths_are_ours() {
        for path in ["/_api/version", "/_db/x/_api/cursor", "/_open/auth", "/_admin/server/role"] {
            assert!(is_ours(path), "{path}");
        }
        assert!(is_ours("/_admin/backup/create") && !is_ours("/_admin/backups"));
        for path in ["/_admin/account", "/_admin/engine", "/metrics", "/v0/entity", "/"] {
            assert!(!is_ours(path), "{path}");
        }
    }
}
