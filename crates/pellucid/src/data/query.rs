//! `pellucid query`: runs a query and prints one result per line.

use std::collections::BTreeMap;
use std::io::{Read, stdin};
use std::time::Duration;

use clap::Args;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::results::{BATCH_RESULTS, DatabaseClient};
use super::{DATABASE, RUNTIME_SECONDS};
use crate::Failure;
use crate::output_stream::OutputStream;
use crate::remote_server::ServerAddress;

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
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
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

    /// The bind variables as a JSON object. Their values are copied, so that none is changed.
    fn variables(&self) -> Result<String, Failure> {
        let mut variables = BTreeMap::new();
        for text in &self.binds {
            let wrong = |reason: &str| {
                let example = "write it as age=30, or name='\"Ada\"' for a text";
                Failure::usage(format!("--bind {text}: {reason}; {example}"))
            };
            let (name, value) = text.split_once('=').ok_or_else(|| wrong("there is no ="))?;
            serde_json::from_str::<IgnoredAny>(value).map_err(|error| wrong(&error.to_string()))?;
            if variables.insert(name, value).is_some() {
                return Err(Failure::usage(format!("--bind {name} is given twice")));
            }
        }
        let member = |(name, value): (&str, &str)| format!("{}:{value}", Value::from(name));
        let members: Vec<_> = variables.into_iter().map(member).collect();
        Ok(format!("{{{}}}", members.join(",")))
    }
}

/// Runs the query and writes all results.
pub(crate) fn query(arguments: &QueryArguments) -> Result<(), Failure> {
    let remote = arguments.server.remote(&[])?;
    let variables = arguments.variables()?;
    let text = Value::from(arguments.text()?);
    let asked = format!(r#"{{"query":{text},"bindVars":{variables},"batchSize":{BATCH_RESULTS}}}"#);
    let patience = Duration::from_secs(arguments.patience);
    let database = DatabaseClient { remote: &remote, database: &arguments.database, patience };
    let mut out = OutputStream::standard();
    database.results(&asked, &mut |results| {
        let mut text = results.join(&b'\n');
        if !results.is_empty() {
            text.push(b'\n');
        }
        out.write(&text).map_err(Failure::work)
    })?;
    out.end()
}
