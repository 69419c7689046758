//! `pellucid get`, `put`, `delete`, `scan`, `changes`, `query`, `export` and `import`: a server's
//! data for scripts.
//!
//! Data goes to standard output and comes from standard input, and nothing else does.

mod cells;
mod changes;
mod csv;
mod entities;
mod entity;
mod export;
mod format;
mod import;
mod json;
mod query;
mod range;
mod results;
mod scan;
mod table;

use std::time::Duration;

pub(crate) use changes::{ChangesArguments, changes};
pub(crate) use entities::{DeleteArguments, GetArguments, PutArguments, delete, get, put};
pub(crate) use export::{ExportArguments, export};
pub(crate) use import::{ImportArguments, import};
pub(crate) use query::{QueryArguments, query};
pub(crate) use scan::{ScanArguments, scan};

/// The time that a server may be silent, unless said otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time for which a query may run before its first result, unless said otherwise.
const RUNTIME_SECONDS: u64 = 3_600;
/// The database that is asked unless said otherwise.
const DATABASE: &str = "_system";
