//! Operations: the kinds of requests that a file describes.

use super::check::Check;
use super::keys::Keys;
use super::template::Template;
use super::value::Values;
use pellucid_client::http::Header;

/// The largest number of operations in a file.
pub const MAX_OPERATIONS: usize = 64;

/// One kind of request.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) weight: u64,
    pub(crate) bodiless: bool,
    /// The names of its headers in the file.
    pub(crate) header_names: Vec<String>,
    /// Request line and headers, up to the length of the body, which is the last header.
    pub(crate) head: Template,
    pub(crate) keys: Keys,
    pub(crate) values: Option<Values>,
    pub(crate) check: Check,
}

impl Operation {
    /// Adds those of the headers of all requests that the file does not replace.
    pub(crate) fn add_headers(&mut self, headers: &[Header]) {
        for Header { name, value } in headers {
            if !self.header_names.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                self.head.push(format!("{name}: {value}\r\n").as_bytes());
            }
        }
    }
}
