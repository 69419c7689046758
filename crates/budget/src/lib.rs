//! Memory budgets: one for a server, a share for each request.
//!
//! A [`Budget`] bounds the bytes that all requests of a server hold together: bodies that come in,
//! rows of queries, results that wait for their reader. A request takes a [`Share`] of it, which
//! has a bound of its own, and asks the share **before** it allocates. A share that is dropped
//! gives everything back.
//!
//! ```
//! use pellucid_budget::{Budget, OverBudget};
//!
//! let server = Budget::new(1 << 20);
//! let mut request = server.share(100_000);
//! request.take(80_000)?;
//! assert_eq!(request.take(30_000), Err(OverBudget::Share { bytes_max: 100_000 }));
//! request.give_back(80_000);
//! request.take(30_000)?;
//! # Ok::<(), OverBudget>(())
//! ```

#![forbid(unsafe_code)]

mod budget;
mod share;

pub use budget::{Budget, OverBudget};
pub use share::{LEASE_BYTES, Share};
