//! Memory budgets: one for a server, a share for each request.
//!
//! A [`Budget`] limits the bytes that all requests of a server hold together: incoming bodies, rows
//! of queries, results that wait for their reader. A request takes a [`Share`] of it, which has a
//! limit of its own, and takes bytes from the share **before** it allocates them. A share that is
//! dropped gives everything back.
//!
//! ```
//! use pellucid_budget::{Budget, BudgetError};
//!
//! let server = Budget::new(1 << 20);
//! let mut request = server.share(100_000);
//! request.take(80_000)?;
//! assert_eq!(request.take(30_000), Err(BudgetError::Share { bytes_max: 100_000 }));
//! request.give_back(80_000);
//! request.take(30_000)?;
//! # Ok::<(), BudgetError>(())
//! ```

#![forbid(unsafe_code)]

mod budget;
mod share;

pub use budget::{Budget, BudgetError};
pub use share::{LEASE_BYTES, Share};
