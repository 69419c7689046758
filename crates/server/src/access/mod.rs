//! Accounts: their passwords and tokens, and their rights.
//!
//! A running server uses `Accounts`. It checks the header `Authorization` at once if that takes
//! microseconds: for a token, a web token, or a password that was verified before. A password that
//! is new to this process costs milliseconds of Argon2. Then the verdict is `Verdict::Slow`, and
//! the request is handed over to another thread, since an event loop must not wait (see `gate`).
//!
//! Accounts are kept in a file beside the store ([`AccountFile`]). The command line changes the
//! file, and the server follows the changes.

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
mod verification_cache;
mod verifier;

pub use accounts::Authentication;
pub(crate) use accounts::{Accounts, Verdict};
pub(crate) use attempts::RateLimitError;
pub use error::AccessError;
pub use file::AccountFile;
pub(crate) use identity::Identity;
#[cfg(test)]
pub(crate) use identity::{Proof, WebToken};
pub(crate) use modes::warn_of;
pub use record::{ACCOUNTS_MAX, AccountList, AccountRecord};
pub(crate) use rights::Scope;
pub use rights::{Grants, Right};
pub use secret::Secret;
pub(crate) use sites::{SiteRefusal, Sites, host_of, machine_names};
pub use token::TokenRecord;
pub(crate) use verifier::Verifier;
