//! `pellucid changes`: prints the writes of a table in their order, one per line.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use pellucid_client::http::HttpRequest;
use serde_json::{Map, Value};

use super::range::streamed_lines;
use super::table::TableArgument;
use super::{DATABASE, PATIENCE};
use crate::Failure;
use crate::output_stream::OutputStream;
use crate::remote_server::{ServerAddress, encoded};

/// The longest silence of a server with `--follow`. It sends its position every 15 s.
const FOLLOWED_PATIENCE: Duration = Duration::from_secs(60);

/// Write the writes of a table or a collection in their order, as JSON, one a line.
///
/// A line with a sequence number alone says how far the stream is: remember the last one, and go on
/// with it as --since. It ends with 1 if the writes after it were collected; the message says from
/// where on they are there.
///
/// Example: pellucid changes http://127.0.0.1:8080 --since 0
///
/// Example: pellucid changes http://127.0.0.1:8080 --follow --prefix users/ | jq -r .key
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ChangesArguments {
    #[command(flatten)]
    server: ServerAddress,
    /// The last sequence number that is known; 0 for all writes [default with --follow: the
    /// newest].
    #[arg(long, required_unless_present = "follow")]
    since: Option<u64>,
    /// Go on with what is written later, until the server or this command is stopped.
    #[arg(long)]
    follow: bool,
    /// Only keys that begin so.
    #[arg(long)]
    prefix: Option<String>,
    /// Only writes that survive the loss of the machine's power.
    #[arg(long)]
    durable: bool,
    #[command(flatten)]
    table: TableArgument,
    /// The documents of this collection in place of entities.
    #[arg(long, conflicts_with = "table")]
    collection: Option<String>,
    /// The collection's database [default: _system].
    #[arg(long, requires = "collection")]
    database: Option<String>,
}

impl ChangesArguments {
    fn path(&self) -> String {
        let mut path = format!("/v0/changes?follow={}", self.follow);
        if let Some(since) = self.since {
            path += &format!("&since={since}");
        }
        let texts = [
            ("prefix", self.prefix.as_deref()),
            ("collection", self.collection.as_deref()),
            ("database", self.database.as_deref()),
            ("sync", self.durable.then_some("disk")),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                path += &format!("&{name}={}", encoded(text));
            }
        }
        path + &self.table.parameter()
    }

    fn grant(&self) -> String {
        match &self.collection {
            None => self.table.grant("read"),
            Some(name) => {
                let database = self.database.as_deref().unwrap_or(DATABASE);
                format!("database/{database}/{name}=read")
            }
        }
    }
}

/// Requests the changes and prints them.
pub(crate) fn changes(arguments: &ChangesArguments) -> Result<(), Failure> {
    let remote = arguments.server.remote(&[])?;
    let path = arguments.path();
    let patience = if arguments.follow { FOLLOWED_PATIENCE } else { PATIENCE };
    let asked = HttpRequest { patience, ..HttpRequest::get(&path) };
    let (mut out, mut lost) = (OutputStream::standard(), None);
    streamed_lines(&remote, &asked, ("a change", &arguments.grant()), &mut |lines| {
        out.write_now(&text_of(lines, &mut lost)?)
    })?;
    out.end()?;
    lost.map_or(Ok(()), |text| Err(Failure::work(text)))
}

/// Converts lines of the server to lines of output. The message of an error line, which ends the
/// stream, goes to `lost`.
fn text_of(lines: &[u8], lost: &mut Option<String>) -> Result<Vec<u8>, String> {
    let malformed =
        |error: &dyn std::fmt::Display| format!("the server's line is no change: {error}");
    let mut text = Vec::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let line: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| malformed(&error))?;
        if let Some(error) = line.get("error") {
            *lost = Some(error.as_str().unwrap_or_default().to_owned());
            continue;
        }
        let shown = shown(line).map_err(|error| malformed(&error))?;
        serde_json::to_writer(&mut text, &shown).map_err(|error| malformed(&error))?;
        text.push(b'\n');
    }
    Ok(text)
}

/// Decodes the base64 fields of a line to text where they are UTF-8; otherwise they are renamed and
/// stay in base64. The keys of documents are text already.
fn shown(line: Map<String, Value>) -> Result<Map<String, Value>, base64::DecodeError> {
    let is_document = line.contains_key("document");
    let mut shown = Map::new();
    for (name, value) in line {
        match (&*name, &value) {
            ("key" | "value", Value::String(text)) if !is_document => {
                match String::from_utf8(STANDARD.decode(text)?) {
                    Ok(text) => shown.insert(name, text.into()),
                    Err(error) => {
                        let base64 = STANDARD.encode(error.as_bytes());
                        shown.insert(format!("{name}_base64"), base64.into())
                    }
                };
            }
            _ => {
                shown.insert(name, value);
            }
        }
    }
    Ok(shown)
}
