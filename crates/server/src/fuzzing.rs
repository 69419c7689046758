//! The decoders of what clients send, for fuzzers: any bytes must be refused or decoded, without a
//! panic. It is no part of the interface and may change any day.

use std::borrow::Cow;

/// Parses the body of `POST /v0/batch` and returns the number of its entries.
///
/// # Errors
/// What the client would be told.
pub fn parse_batch(body: &[u8]) -> Result<usize, String> {
    crate::batch::parse(body).map(|entries| entries.len())
}

/// The value of parameter `name` in a query.
///
/// # Errors
/// What the client would be told.
pub fn query_parameter(query: &str, name: &str) -> Result<Option<Vec<u8>>, String> {
    crate::query::parameter(Some(query), name).map(|value| value.map(Cow::into_owned))
}
