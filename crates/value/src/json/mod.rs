//! JSON text (RFC 8259): read straight into packed form, and written by the rules that ArangoDB's
//! drivers expect.

mod error;
mod number;
mod parse;
mod string;
mod write;

pub use error::{JsonError, JsonProblem};
pub use parse::{Limits, Parser, parse_packed, parse_value};
pub(crate) use string::is_plain;
pub use write::{length, to_string, to_string_up_to, write, write_number, write_string};
pub(crate) use write::{number_length, string_length};
