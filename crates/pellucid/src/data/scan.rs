//! Ranges of entities, a line each.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use pellucid_client::http::Question;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::table::TableArgument;
use super::{Out, PATIENCE, unwritable};
use crate::Failure;
use crate::remote::{ServerAddress, encoded};

/// Bytes that a line of the server's may have: values up to 384 MiB.
const LINE_BYTES_MAX: usize = 512 << 20;
/// The least key, where the range has no start.
const LEAST_KEY: &[u8] = &[0];

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

#[derive(Deserialize)]
struct Line<'a> {
    key: &'a str,
    value: &'a str,
    etag: String,
}

impl ScanArguments {
    fn path(&self) -> String {
        let prefix = self.prefix.as_deref().filter(|prefix| !prefix.is_empty());
        let start = prefix.or(self.start.as_deref()).filter(|start| !start.is_empty());
        let start = start.map_or(LEAST_KEY, str::as_bytes);
        let end = match prefix {
            Some(prefix) => after_prefix(prefix.as_bytes()),
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

/// The least key after all that begin with `prefix`; none if nothing is after them.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Writes the entities of a range.
pub(crate) fn scan(arguments: &ScanArguments) -> Result<(), Failure> {
    let remote = arguments.server.remote(&[])?;
    let path = arguments.path();
    let headers = "Accept: application/x-ndjson\r\n";
    let asked = Question { headers, patience: PATIENCE, ..Question::get(&path) };
    let (mut out, mut pending) = (Out::begin(), Vec::new());
    let mut is_read = true;
    let answered = remote.ask_in_pieces(&asked, &mut |status, body| {
        if status == 200 {
            pending.append(body);
            is_read = write_lines(&mut pending, arguments.keys, &mut out)?;
        }
        if is_read { Ok(()) } else { Err("nobody reads the rest".to_owned()) }
    });
    if !is_read {
        return Ok(());
    }
    let answer = answered?;
    if answer.status != 200 {
        return Err(answer.failure(&arguments.table.grant("read")));
    }
    out.end()
}

/// Writes the lines that are complete and removes them; false if nobody reads.
fn write_lines(pending: &mut Vec<u8>, keys: bool, out: &mut Out) -> Result<bool, String> {
    let Some(end) = pending.iter().rposition(|byte| *byte == b'\n') else {
        if pending.len() > LINE_BYTES_MAX {
            return Err(format!("an entity is longer than {LINE_BYTES_MAX} bytes in base64"));
        }
        return Ok(true);
    };
    let mut text = Vec::new();
    for line in pending[..end].split(|byte| *byte == b'\n') {
        write_line(line, keys, &mut text)?;
    }
    pending.drain(..=end);
    out.write(&text).map_err(|error| unwritable(error).text)
}

fn write_line(line: &[u8], keys: bool, text: &mut Vec<u8>) -> Result<(), String> {
    let malformed =
        |error: &dyn std::fmt::Display| format!("the server's line is no entity: {error}");
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| malformed(&error))?;
    let decode = |base64: &str| STANDARD.decode(base64).map_err(|error| malformed(&error));
    let key = decode(line.key)?;
    if keys {
        text.extend_from_slice(&key);
    } else {
        let mut shown = Map::new();
        show("key", key, &mut shown);
        show("value", decode(line.value)?, &mut shown);
        shown.insert("etag".to_owned(), line.etag.into());
        serde_json::to_writer(&mut *text, &shown).map_err(|error| malformed(&error))?;
    }
    text.push(b'\n');
    Ok(())
}

/// Bytes as text, or in base64 under a name that says so.
pub(super) fn show(name: &str, bytes: Vec<u8>, shown: &mut Map<String, Value>) {
    match String::from_utf8(bytes) {
        Ok(text) => shown.insert(name.to_owned(), text.into()),
        Err(error) => {
            shown.insert(format!("{name}_base64"), STANDARD.encode(error.as_bytes()).into())
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        for (prefix, end) in
            [(&b"a/"[..], Some(&b"a0"[..])), (b"a\xff\xff", Some(b"b")), (b"\xff", None)]
        {
            assert_eq!(after_prefix(prefix).as_deref(), end, "{prefix:?}");
        }
    }
}
