//! Queries, a result a line.

use std::io::{Read, stdin};
use std::time::Duration;

use clap::Args;
use pellucid_client::http::Question;
use serde_json::{Map, Value, json};

use super::json::{attribute, elements};
use super::{Out, unwritable};
use crate::Failure;
use crate::remote::{Answer, Remote, ServerAddress, encoded, question};

/// Results that one answer brings.
const BATCH_RESULTS: u32 = 1_000;
/// The time for which a query may run before its first result, unless said otherwise.
const RUNTIME_SECONDS: u64 = 3_600;
/// The database that is asked unless said otherwise.
const DATABASE: &str = "_system";

/// Run a query (AQL) and write its results as JSON, one a line.
///
/// Without a query, all of standard input is one.
///
/// Example: pellucid query http://127.0.0.1:8080 'FOR i IN 1..@n RETURN i' --bind n=3
#[derive(Args)]
pub(crate) struct QueryArguments {
    #[command(flatten)]
    server: ServerAddress,
    /// The query.
    query: Option<String>,
    /// The database.
    #[arg(long, default_value = DATABASE)]
    database: String,
    /// A bind variable: its name, without @, and its value as JSON.
    #[arg(long = "bind", value_name = "NAME=JSON")]
    binds: Vec<String>,
    /// Most seconds until the first results.
    #[arg(long, value_name = "SECONDS", default_value_t = RUNTIME_SECONDS)]
    patience: u64,
}

impl QueryArguments {
    fn text(&self) -> Result<String, Failure> {
        if let Some(query) = &self.query {
            return Ok(query.clone());
        }
        let mut text = String::new();
        let read = stdin().lock().read_to_string(&mut text);
        read.map_err(|error| Failure::work(format!("cannot read standard input: {error}")))?;
        Ok(text)
    }

    fn variables(&self) -> Result<Map<String, Value>, Failure> {
        let variable = |text: &String| {
            let wrong = |reason: &str| {
                let example = "write it as age=30, or name='\"Ada\"' for a text";
                Failure::usage(format!("--bind {text}: {reason}; {example}"))
            };
            let (name, value) = text.split_once('=').ok_or_else(|| wrong("there is no ="))?;
            let value = serde_json::from_str(value).map_err(|error| wrong(&error.to_string()))?;
            Ok((name.to_owned(), value))
        };
        self.binds.iter().map(variable).collect()
    }
}

/// Runs the query and writes all results.
pub(crate) fn query(arguments: &QueryArguments) -> Result<(), Failure> {
    let remote = arguments.server.remote(&[])?;
    let variables = arguments.variables()?;
    let asked = json!({
        "query": arguments.text()?,
        "bindVars": variables,
        "batchSize": BATCH_RESULTS,
    });
    let patience = Duration::from_secs(arguments.patience);
    let path = format!("/_db/{}/_api/cursor", encoded(&arguments.database));
    let mut answer = ask(&remote, "POST", &path, asked.to_string().as_bytes(), patience)?;
    let mut out = Out::begin();
    loop {
        let is_read = write_results(&answer.body, &mut out)?;
        let next = attribute(&answer.body, "hasMore") == Some(b"true");
        if !next {
            return out.end();
        }
        let id = attribute(&answer.body, "id");
        let id = id.and_then(|id| serde_json::from_slice::<String>(id).ok());
        let id = id.ok_or_else(malformed)?;
        let path = format!("{path}/{}", encoded(id));
        if !is_read {
            // The cursor would hold its memory until it is too old.
            ask(&remote, "DELETE", &path, b"", patience)?;
            return Ok(());
        }
        answer = ask(&remote, "POST", &path, b"", patience)?;
    }
}

fn ask(
    remote: &Remote,
    method: &str,
    path: &str,
    body: &[u8],
    patience: Duration,
) -> Result<Answer, Failure> {
    let asked = Question { ..question(method, path, body, patience) };
    let answer = remote.ask(&asked)?;
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    Err(answer.failure("database/NAME=read"))
}

/// Writes the results of an answer; false if nobody reads.
fn write_results(body: &[u8], out: &mut Out) -> Result<bool, Failure> {
    let results = attribute(body, "result").and_then(elements).ok_or_else(malformed)?;
    let mut text = results.join(&b'\n');
    if !results.is_empty() {
        text.push(b'\n');
    }
    out.write(&text).map_err(unwritable)
}

fn malformed() -> Failure {
    Failure::work("the server's answer is no batch of results; is it Pellucid?")
}
