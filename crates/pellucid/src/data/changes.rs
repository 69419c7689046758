//! `pellucid changes`: prints the writes of a table in their order, one per line.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use pellucid_client::http::HttpRequest;
use serde_json::Value;

use super::json::{Member, attribute, members};
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
    let are_documents = arguments.collection.is_some();
    let (mut out, mut lost) = (OutputStream::standard(), None);
    streamed_lines(&remote, &asked, ("a change", &arguments.grant()), &mut |lines| {
        out.write_now(&text_of(lines, are_documents, &mut lost)?)
    })?;
    out.end()?;
    lost.map_or(Ok(()), |text| Err(Failure::work(text)))
}

/// Converts lines of the server to lines of output. The message of an error line, which ends the
/// stream, goes to `lost`.
fn text_of(
    lines: &[u8],
    are_documents: bool,
    lost: &mut Option<String>,
) -> Result<Vec<u8>, String> {
    let malformed = || "the server's line is no change; is it Pellucid?".to_owned();
    let mut text = Vec::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let members = members(line).ok_or_else(malformed)?;
        match attribute(&members, r#""error""#) {
            Some(error) => *lost = Some(serde_json::from_slice(error).unwrap_or_default()),
            None => write_line(&members, are_documents, &mut text).ok_or_else(malformed)?,
        }
    }
    Ok(text)
}

/// Appends a line; `None` if it is malformed. Documents and their keys are copied unchanged.
fn write_line(members: &[Member<'_>], are_documents: bool, text: &mut Vec<u8>) -> Option<()> {
    text.push(b'{');
    for (place, Member { name, value }) in members.iter().enumerate() {
        if place > 0 {
            text.push(b',');
        }
        if !are_documents && [r#""key""#, r#""value""#].map(str::as_bytes).contains(name) {
            text.extend_from_slice(decoded(name, value)?.as_bytes());
            continue;
        }
        text.extend_from_slice(name);
        text.push(b':');
        text.extend_from_slice(value);
    }
    text.extend_from_slice(b"}\n");
    Some(())
}

/// Decodes a field in base64 to text if it is UTF-8; otherwise it is renamed and stays in base64.
fn decoded(name: &[u8], value: &[u8]) -> Option<String> {
    let name: &str = serde_json::from_slice(name).ok()?;
    let base64: &str = serde_json::from_slice(value).ok()?;
    Some(match String::from_utf8(STANDARD.decode(base64).ok()?) {
        Ok(text) => format!("\"{name}\":{}", Value::from(text)),
        Err(_) => format!("\"{name}_base64\":\"{base64}\""),
    })
}
