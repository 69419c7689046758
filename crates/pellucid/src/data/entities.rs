//! `pellucid get`, `put` and `delete`: reads and writes single entities.

use std::fs::File;
use std::io::{self, Read, stdin};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pellucid_client::http::HttpRequest;

use super::PATIENCE;
use super::table::TableArgument;
use crate::Failure;
use crate::output_stream::OutputStream;
use crate::remote_server::{ServerAddress, encoded, question};

/// Write the value of an entity to standard output, byte for byte.
///
/// The exit code is 4 if there is no such entity.
///
/// Example: pellucid get http://127.0.0.1:8080 greeting
#[derive(Args)]
pub(crate) struct GetArguments {
    #[command(flatten)]
    server: ServerAddress,
    /// The key.
    key: String,
    #[command(flatten)]
    table: TableArgument,
}

/// Write an entity. Without a value or a file, the value is all of standard input.
///
/// The exit code is 5 if a condition does not hold.
///
/// Example: pellucid put http://127.0.0.1:8080 greeting hello
///
/// Example: tar c folder | pellucid put http://127.0.0.1:8080 backups/today --sync disk
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PutArguments {
    #[command(flatten)]
    server: ServerAddress,
    /// The key.
    key: String,
    #[command(flatten)]
    table: TableArgument,
    /// The value.
    #[arg(conflicts_with = "file")]
    value: Option<String>,
    /// A file with the value.
    #[arg(long)]
    file: Option<PathBuf>,
    /// The failure that an acknowledged write survives [default: that of the server's --sync].
    #[arg(long)]
    sync: Option<SyncLevel>,
    /// Seconds after which the entity is gone.
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u64>,
    #[command(flatten)]
    condition: Condition,
    /// Only if there is no such entity.
    #[arg(long, conflicts_with = "if_match")]
    if_absent: bool,
}

/// Remove an entity. Without a condition, it is no error if there is none.
///
/// The exit code is 5 if a condition does not hold.
///
/// Example: pellucid delete http://127.0.0.1:8080 greeting
#[derive(Args)]
pub(crate) struct DeleteArguments {
    #[command(flatten)]
    server: ServerAddress,
    /// The key.
    key: String,
    #[command(flatten)]
    table: TableArgument,
    /// The failure that an acknowledged write survives [default: that of the server's --sync].
    #[arg(long)]
    sync: Option<SyncLevel>,
    #[command(flatten)]
    condition: Condition,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum SyncLevel {
    /// No failure is promised to be survived; today the same as os.
    Memory,
    /// The end of the process.
    Os,
    /// The end of the process, and a crash or a power failure of the machine.
    Disk,
}

#[derive(Args)]
struct Condition {
    /// Only if this is the entity's ETag (`pellucid scan` prints them), or * for any.
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
}

impl SyncLevel {
    pub(super) fn parameter(this: Option<SyncLevel>) -> String {
        let value = this.and_then(|this| this.to_possible_value());
        value.map_or(String::new(), |value| format!("&sync={}", value.get_name()))
    }
}

impl Condition {
    /// The `If-Match` header with its line end; empty without a condition.
    fn line(&self) -> Result<String, Failure> {
        let Some(etag) = &self.if_match else { return Ok(String::new()) };
        let bare = etag.trim_matches('"');
        // The ETag of a compressed response ends with the name of its coding.
        let number = bare.strip_suffix("+gzip").or_else(|| bare.strip_suffix("+deflate"));
        let number = number.unwrap_or(bare);
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        match bare {
            "*" => Ok("If-Match: *\r\n".to_owned()),
            _ if is_number => Ok(format!("If-Match: \"{bare}\"\r\n")),
            _ => Err(Failure::usage("--if-match takes an ETag, such as 7 or 7+gzip, or *")),
        }
    }
}

fn path_of(key: &str, table: &TableArgument) -> Result<String, Failure> {
    if key.is_empty() {
        return Err(Failure::usage("the key is empty"));
    }
    Ok(format!("/v0/entity?id={}{}", encoded(key), table.parameter()))
}

/// Reads an entity.
pub(crate) fn get(arguments: &GetArguments) -> Result<(), Failure> {
    let remote = arguments.server.remote(&[])?;
    let path = path_of(&arguments.key, &arguments.table)?;
    let asked = HttpRequest { patience: PATIENCE, ..HttpRequest::get(&path) };
    let mut out = OutputStream::standard();
    let answer = remote.ask_in_pieces(&asked, &mut |status, body| {
        if status == 200 {
            out.write(body)?;
            body.clear();
        }
        Ok(())
    })?;
    match answer.status {
        200 => out.end(),
        // If the table is missing, the answer has a body that says so.
        404 if answer.body.is_empty() => {
            Err(Failure::missing(format!("there is no entity `{}`", arguments.key)))
        }
        _ => Err(answer.failure(&arguments.table.grant("read"))),
    }
}

/// Writes an entity.
pub(crate) fn put(arguments: &PutArguments) -> Result<(), Failure> {
    let remote = arguments.server.remote(&[])?;
    let mut headers = arguments.condition.line()?;
    if arguments.if_absent {
        headers += "If-None-Match: *\r\n";
    }
    let mut path =
        path_of(&arguments.key, &arguments.table)? + &SyncLevel::parameter(arguments.sync);
    if let Some(ttl) = arguments.ttl {
        path += &format!("&ttl={ttl}");
    }
    let value = arguments.value()?;
    if value.is_empty() {
        headers += "Content-Length: 0\r\n";
    }
    let asked = HttpRequest { headers: &headers, ..question("PUT", &path, &value, PATIENCE) };
    let answer = remote.ask(&asked)?;
    match answer.status {
        201 => Ok(()),
        412 => Err(condition_failed(&arguments.key)),
        _ => Err(answer.failure(&arguments.table.grant("write"))),
    }
}

impl PutArguments {
    fn value(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        match (&self.value, &self.file) {
            (Some(value), _) => bytes.extend_from_slice(value.as_bytes()),
            (None, Some(path)) => {
                let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
                read.map_err(|error| unreadable(&path.display().to_string(), &error))?;
            }
            (None, None) => {
                let read = stdin().lock().read_to_end(&mut bytes);
                read.map_err(|error| unreadable("standard input", &error))?;
            }
        }
        Ok(bytes)
    }
}

pub(super) fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::work(format!("cannot read {name}: {error}"))
}

/// Removes an entity.
pub(crate) fn delete(arguments: &DeleteArguments) -> Result<(), Failure> {
    let remote = arguments.server.remote(&[])?;
    let headers = arguments.condition.line()?;
    let path = path_of(&arguments.key, &arguments.table)? + &SyncLevel::parameter(arguments.sync);
    let asked = HttpRequest { headers: &headers, ..question("DELETE", &path, b"", PATIENCE) };
    let answer = remote.ask(&asked)?;
    match answer.status {
        202 => Ok(()),
        412 => Err(condition_failed(&arguments.key)),
        _ => Err(answer.failure(&arguments.table.grant("write"))),
    }
}

fn condition_failed(key: &str) -> Failure {
    Failure::condition(format!("the condition does not hold for `{key}`: nothing was changed"))
}
