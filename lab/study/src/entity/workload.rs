//! The requests of the study: those of the original, by similar scripts, and the filling before
//! them.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pellucid_load::{
    Limit, LoadOptions, LoadResult, Pacer, RequestSource, ScriptOptions, Target, ThreadShare, run,
};

use super::plan::VALUE_BYTES;
use crate::error::StudyError;
use crate::loads::all_answered;

/// The timeout of a request, both while the store is filled and under load.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Connections while the store is filled.
const FILL_CONNECTIONS: usize = 4;
/// Requests in flight on each connection while the store is filled.
const FILL_DEPTH: usize = 32;
/// The step between two keys of the filling. It is a prime above any number of keys, so the steps
/// visit every key once, in scattered order.
const STRIDE: u64 = 2_654_435_761;

/// The kind of requests of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadKind {
    Put,
    Get,
}

impl LoadKind {
    pub(super) const ALL: [LoadKind; 2] = [LoadKind::Put, LoadKind::Get];

    pub(super) fn title(self) -> &'static str {
        match self {
            LoadKind::Put => "PUT",
            LoadKind::Get => "GET",
        }
    }

    /// The prefix of the names of charts.
    pub(super) fn name(self) -> &'static str {
        match self {
            LoadKind::Put => "put",
            LoadKind::Get => "get",
        }
    }

    /// The operation in the server's account.
    pub(super) fn operation(self) -> &'static str {
        match self {
            LoadKind::Put => "entity_put",
            LoadKind::Get => "entity_get",
        }
    }

    /// A wrk2 script: each request is for a random key from 1 to `keys`.
    pub(super) fn script(self, keys: u64) -> String {
        let url = format!("'/v0/entity?id=' .. math.random(1, {keys})");
        match self {
            LoadKind::Put => format!(
                "local value = '{}'\nrequest = function()\n  return wrk.format('PUT', {url}, {{}}, \
                 value)\nend\n",
                value()
            ),
            LoadKind::Get => {
                format!("request = function()\n  return wrk.format(nil, {url})\nend\n")
            }
        }
    }
}

fn value() -> String {
    "A value as long as that of the study. ".chars().cycle().take(VALUE_BYTES).collect()
}

fn failed(error: impl std::fmt::Display) -> StudyError {
    StudyError::Step(format!("the load: {error}"))
}

fn options(url: &str) -> Result<LoadOptions, StudyError> {
    let mut options = LoadOptions::new(Target::parse(url).map_err(failed)?);
    options.timeout = TIMEOUT;
    options.threads = 1;
    Ok(options)
}

/// Puts every key once.
pub(super) fn fill(url: &str, keys: u64) -> Result<(), StudyError> {
    let mut options = options(&format!("{url}/v0/entity"))?;
    let host = options.target.host_header();
    options.connections = FILL_CONNECTIONS;
    options.pipeline_depth = FILL_DEPTH;
    options.sources = Some(Arc::new(move |share: ThreadShare| -> Box<dyn RequestSource> {
        Box::new(filling(share.first_request, keys, host.clone()))
    }));
    all_answered(options, keys, "PUTs of the filling").map(|_| ())
}

/// The requests of the filling, from number `next` on.
fn filling(mut next: u64, keys: u64, host: String) -> impl RequestSource {
    let value = value();
    move |out: &mut Vec<u8>| {
        let product = u128::from(next % keys) * u128::from(STRIDE);
        let key = (product % u128::from(keys)) as u64 + 1;
        next += 1;
        // Writing to a vector cannot fail.
        let _ = write!(
            out,
            "PUT /v0/entity?id={key} HTTP/1.1\r\nHost: {host}\r\n\
             Content-Length: {VALUE_BYTES}\r\n\r\n{value}"
        );
    }
}

/// Runs an open-loop load on one connection at a constant rate, until `stop` at the latest.
pub(super) fn load(
    url: &str,
    script: &Path,
    rate: f64,
    seconds: u64,
    pacer: Pacer,
    stop: &Arc<AtomicBool>,
) -> Result<LoadResult, StudyError> {
    let mut options = options(url)?;
    options.stop = Arc::clone(stop);
    options.pacer = pacer;
    options.connections = 1;
    options.limit = Limit::Duration(Duration::from_secs(seconds));
    options.rate_per_second = Some((rate as u64).max(1));
    options.script = Some(ScriptOptions { path: script.to_path_buf(), arguments: Vec::new() });
    let result = run(&options, &mut |_| {}).and_then(LoadResult::whole).map_err(failed)?;
    if result.requests == 0 {
        let hint = result.first_error.unwrap_or_default();
        return Err(failed(format!("no request was answered: {hint}")));
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_puts_every_key_once() {
        let mut filling = filling(0, 1_000, "h".to_owned());
        let mut seen: Vec<u64> = Vec::new();
        for _ in 0..1_000 {
            let mut out = Vec::new();
            filling.next(&mut out);
            let text = String::from_utf8(out).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert_eq!(body.len(), VALUE_BYTES);
            let key = head.strip_prefix("PUT /v0/entity?id=").unwrap().split(' ').next().unwrap();
            seen.push(key.parse().unwrap());
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(1..=1_000));
    }

    /// Regression: a load went on to its end after the signal that had killed its server.
    #[test]
    fn a_load_ends_with_its_study() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", server.local_addr().unwrap());
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), LoadKind::Get.script(1)).unwrap();
        let stop = Arc::new(AtomicBool::new(true));
        assert!(load(&url, script.path(), 1.0, 600, Pacer::Exact, &stop).is_err());
    }
}
