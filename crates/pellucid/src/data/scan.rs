//! `pellucid scan`: prints a range of entities, one per line.

use clap::Args;
use pellucid_store::end_of_prefix;

use super::entity::Entity;
use super::range::{LEAST_KEY, lines_of_range};
use super::table::TableArgument;
use crate::Failure;
use crate::output_stream::OutputStream;
use crate::remote_server::{ServerAddress, encoded};

/// Write the entities of a range in the order of their keys, as JSON, one a line.
///
/// Bytes that are not UTF-8 stand in `key_base64` and `value_base64`.
///
/// Example: pellucid scan http://127.0.0.1:8080 --prefix users/ | jq -r .value
#[derive(Args)]
pub(crate) struct ScanArguments {
    #[command(flatten)]
    server: ServerAddress,
    /// The first key [default: the first there is].
    #[arg(long)]
    start: Option<String>,
    /// The key before which the range ends [default: after the last there is].
    #[arg(long)]
    end: Option<String>,
    #[command(flatten)]
    table: TableArgument,
    /// Only keys that begin so.
    #[arg(long, conflicts_with_all = ["start", "end"])]
    prefix: Option<String>,
    /// Most entities.
    #[arg(long)]
    limit: Option<u64>,
    /// From the last to the first.
    #[arg(long)]
    reverse: bool,
    /// Write keys alone, as they are, one a line.
    #[arg(long)]
    keys: bool,
    /// Of a cluster: the entities of all nodes, and not only of the one that is asked.
    #[arg(long)]
    cluster: bool,
}

impl ScanArguments {
    fn path(&self) -> String {
        let prefix = self.prefix.as_deref().filter(|prefix| !prefix.is_empty());
        let start = prefix.or(self.start.as_deref()).filter(|start| !start.is_empty());
        let start = start.map_or(LEAST_KEY, str::as_bytes);
        let end = match prefix {
            Some(prefix) => end_of_prefix(prefix.as_bytes()),
            None => self.end.as_ref().map(|end| end.as_bytes().to_vec()),
        };
        let mut path = format!("/v0/entities?start={}", encoded(start));
        if let Some(end) = end {
            path += &format!("&end={}", encoded(end));
        }
        if let Some(limit) = self.limit {
            path += &format!("&limit={limit}");
        }
        for (is_set, name) in [(self.reverse, "reverse"), (self.cluster, "cluster")] {
            if is_set {
                path += &format!("&{name}=true");
            }
        }
        path + &self.table.parameter()
    }
}

/// Writes the entities of a range.
pub(crate) fn scan(arguments: &ScanArguments) -> Result<(), Failure> {
    let remote = arguments.server.remote(&[])?;
    let mut out = OutputStream::standard();
    lines_of_range(&remote, (&arguments.path(), &arguments.table), &mut |lines| {
        let mut text = Vec::new();
        for line in lines.split(|byte| *byte == b'\n') {
            let entity = Entity::of_line(line)?;
            if arguments.keys {
                text.extend_from_slice(entity.key());
                text.push(b'\n');
            } else {
                entity.write_json(false, &mut text);
            }
        }
        out.write(&text)
    })?;
    out.end()
}
