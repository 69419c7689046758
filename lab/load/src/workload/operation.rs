//! Operations: the kinds of requests that a file describes.

use super::check::Check;
use super::keys::Keys;
use super::template::Template;
use super::value::Values;

/// The largest number of operations in a file.
pub const MAX_OPERATIONS: usize = 64;

/// One kind of request.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) weight: u64,
    pub(crate) bodiless: bool,
    /// True if the headers of the file have a `Host`.
    pub(crate) has_host: bool,
    /// Request line and headers, up to the length of the body, which is the last header.
    pub(crate) head: Template,
    pub(crate) keys: Keys,
    pub(crate) values: Option<Values>,
    pub(crate) check: Check,
}
