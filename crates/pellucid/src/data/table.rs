//! The table that a command is about.

use clap::Args;

use crate::remote::encoded;

/// See the module.
#[derive(Args, Default)]
pub(crate) struct TableArgument {
    /// The table of entities [default: entities]. `PUT /v0/tables/NAME` makes one.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
}

impl TableArgument {
    /// The parameter behind others, or nothing.
    pub(super) fn parameter(&self) -> String {
        self.table.as_deref().map_or(String::new(), |name| format!("&table={}", encoded(name)))
    }

    /// The grant that a command with this right takes.
    pub(super) fn grant(&self, right: &str) -> String {
        format!("table/{}={right}", self.table.as_deref().unwrap_or("entities"))
    }
}
