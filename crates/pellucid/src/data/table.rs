//! The argument `--table` of commands that access a table.

use clap::Args;

use crate::remote_server::encoded;

/// The argument `--table`.
#[derive(Args, Default)]
pub(crate) struct TableArgument {
    /// The table of entities [default: entities]. `PUT /v0/tables/NAME` makes one.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
}

impl TableArgument {
    /// The query parameter for the table, to append after others; empty for the default table.
    pub(super) fn parameter(&self) -> String {
        self.table.as_deref().map_or(String::new(), |name| format!("&table={}", encoded(name)))
    }

    /// The grant for the table that a command with this right needs.
    pub(super) fn grant(&self, right: &str) -> String {
        format!("table/{}={right}", self.table.as_deref().unwrap_or("entities"))
    }
}
