//! `pellucid get`, `put`, `delete`, `scan`, `changes`, `query`, `export` and `import`: access to a
//! server's data for scripts.
//!
//! Standard output and standard input carry data only; messages go to standard error.

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

/// The default of the longest silence of a server.
const PATIENCE: Duration = Duration::from_secs(60);
/// The default of the longest wait for results of a query.
const RUNTIME_SECONDS: u64 = 3_600;
/// The default database.
const DATABASE: &str = "_system";
