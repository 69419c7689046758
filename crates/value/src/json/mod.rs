//! JSON text (RFC 8259): parsed directly to packed form, and written in the format that ArangoDB's
//! drivers expect.

mod error;
mod number;
mod parse;
mod scalar;
mod string;
mod write;

pub use error::{JsonError, JsonProblem};
pub use parse::{Parser, parse_packed, parse_value};
pub(crate) use scalar::{number_length, string_length};
pub use scalar::{write_number, write_string};
pub(crate) use string::is_plain;
pub use write::{length, to_string, to_string_up_to, write};
