//! A request, borrowed from the buffer that it was read into.

/// A header: its name as sent, and its value without the white space around it.
pub type Header<'a> = httparse::Header<'a>;

/// A complete request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method as sent: methods are case-sensitive.
    pub method: &'a str,
    /// The path, still percent-encoded, beginning with `/` (or `*` alone).
    pub path: &'a str,
    /// The text behind the `?`; none without a `?`.
    pub query: Option<&'a str>,
    /// The headers in the order in which they were sent.
    pub headers: &'a [Header<'a>],
    /// The body, with its transfer coding decoded.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The value of the first header with this name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let named = |header: &&Header<'a>| header.name.eq_ignore_ascii_case(name);
        self.headers.iter().find(named).map(|header| header.value)
    }

    /// True if the comma-separated list in the headers `name` contains `token`; both match in any
    /// case.
    #[must_use]
    pub fn header_has(&self, name: &str, token: &str) -> bool {
        let named = self.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        let mut values = named.map(|header| header.value);
        values.any(|value| list_has(value, token))
    }
}

/// True if a comma-separated list contains `token`, in any case.
pub(crate) fn list_has(list: &[u8], token: &str) -> bool {
    list.split(|byte| *byte == b',')
        .any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}
