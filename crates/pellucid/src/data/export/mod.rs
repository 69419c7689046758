//! `pellucid export`: all entities of a server, or all documents of a collection, as a file.

mod columns;
mod documents;
mod entities;
mod export_output;
#[cfg(feature = "parquet")]
mod kinds;
#[cfg(feature = "parquet")]
mod table;

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;

use super::DATABASE;
use super::format::Format;
use super::table::TableArgument;
use crate::Failure;
use crate::remote_server::ServerAddress;
use export_output::ExportOutput;

/// Write all entities of a server, or all documents of a collection, to a file or standard output.
///
/// An export is as of one moment, but for that of a cluster. `pellucid import` writes the same
/// entities or documents to another server; their ETags and revisions are new there, and `_id` and
/// `_rev` are left out. A file is there once all of it is.
///
/// CSV has the columns key, value and expires_at_ms; bytes that are no UTF-8 need --base64. Of
/// documents, each attribute is a column. A cell that is a value of JSON is that value, any other
/// is a text (`pellucid import --infer`), and an empty one is no attribute.
///
/// Parquet has the same columns with types: keys and values as bytes, moments as timestamps. An
/// attribute whose values are all texts, all booleans or all numbers has a column of those, and any
/// other one of JSON.
///
/// Example: pellucid export http://127.0.0.1:8080 -o entities.ndjson
///
/// Example: pellucid export http://127.0.0.1:8080 --collection users -o users.csv
#[derive(Args)]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    server: ServerAddress,
    #[command(flatten)]
    table: TableArgument,
    /// The collection whose documents are written, and not the entities.
    #[arg(long, value_name = "NAME", conflicts_with = "table")]
    collection: Option<String>,
    /// The collection's database [default: _system].
    #[arg(long, value_name = "NAME", requires = "collection")]
    database: Option<String>,
    /// The form [default: as the file's name ends, else lines of JSON].
    #[arg(long)]
    format: Option<Format>,
    /// The file [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write all keys and values in base64, and not only those that are no UTF-8.
    #[arg(long, conflicts_with = "collection")]
    base64: bool,
    /// As Parquet: keys and values are texts, and one that is no UTF-8 is an error.
    #[arg(long, conflicts_with_all = ["collection", "base64"])]
    text: bool,
    /// Of a cluster: the entities of all nodes, and not only of the one that is asked.
    #[arg(long, conflicts_with = "collection")]
    cluster: bool,
    /// As CSV or Parquet: these attributes, and no others [default: all that any document has].
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', requires = "collection")]
    attributes: Vec<String>,
}

/// Writes the data.
pub(crate) fn export(arguments: &ExportArguments) -> Result<(), Failure> {
    let ExportArguments { server, collection, output, cluster, .. } = arguments;
    let format = Format::of(arguments.format, output.as_deref());
    format.check()?;
    if format == Format::Ndjson && !arguments.attributes.is_empty() {
        return Err(Failure::usage("--attributes are the columns of --format csv or parquet"));
    }
    let mut named = HashSet::new();
    if let Some(name) = arguments.attributes.iter().find(|name| !named.insert(*name)) {
        return Err(Failure::usage(format!("--attributes has `{name}` twice: name it once")));
    }
    if format != Format::Parquet && arguments.text {
        return Err(Failure::usage("--text is about the columns of --format parquet"));
    }
    if format == Format::Parquet && arguments.base64 {
        return Err(Failure::usage("--base64 is for text: Parquet has bytes as they are"));
    }
    let remote = server.remote(&[])?;
    let mut written = ExportOutput::begin(output.as_deref())?;
    let to = &mut written;
    if let Some(collection) = collection {
        let database = arguments.database.as_deref().unwrap_or(DATABASE);
        let export = documents::Export { remote: &remote, database, collection };
        match format {
            Format::Ndjson => export.lines(to)?,
            Format::Csv => export.rows(&arguments.attributes, to)?,
            #[cfg(feature = "parquet")]
            Format::Parquet => export.parquet(&arguments.attributes, to)?,
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => format.check()?,
        }
    } else {
        let (table, is_of_cluster) = (&arguments.table, *cluster);
        let export = entities::Export { remote: &remote, table, is_of_cluster };
        match format {
            Format::Ndjson => export.lines(arguments.base64, to)?,
            Format::Csv => export.rows(arguments.base64, to)?,
            #[cfg(feature = "parquet")]
            Format::Parquet => export.parquet(arguments.text, to)?,
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => format.check()?,
        }
    }
    written.end()
}
