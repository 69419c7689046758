//! The embedded store: a journal of records and a ledger of keys.

mod codec;
mod error;
mod ledger;

pub use codec::KEY_LENGTH_MAX;
pub use error::{Error, Result};
