//! Accounts: their passwords and tokens, and their rights.
//!
//! [`Accounts`] is what a running server asks. A request's header `Authorization` is judged at once
//! where that takes microseconds: a token, a web token, a password that was right before. A
//! password that is new to this process costs Argon2's milliseconds, and [`Verdict::Slow`] says so:
//! the request is then handed over, since an event loop must not wait (see `gate`).
//!
//! Accounts live in a file beside the store ([`AccountFile`]), which the command line changes and
//! the server follows.

mod accounts;
mod attempts;
mod credentials;
mod error;
mod file;
mod identity;
mod jwt;
mod modes;
mod password;
mod record;
mod rights;
mod secret;
mod sites;
mod token;
mod verified;
mod verifier;

pub use accounts::{Accounts, Authentication, Verdict};
pub(crate) use attempts::TooMany;
pub use error::AccessError;
pub use file::AccountFile;
pub use identity::{Identity, Proof};
pub(crate) use modes::warn_of;
pub use record::{ACCOUNTS_MAX, AccountList, AccountRecord};
pub use rights::{Grants, Right, Scope};
pub use secret::Secret;
pub(crate) use sites::{Foreign, Sites, host_of, machine_names};
pub use token::TokenRecord;
pub(crate) use verifier::Verifier;
