//! `bench-documents`: compares documents with SQLite, which stores them as JSON text with one
//! expression index. It measures an import in one request or transaction, and a scan with a filter.
//! It also compares a query through an index with the GET of an entity, both by the phase `execute`
//! in the server's `/_admin/account`.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use pellucid_io::SeededRandom;
use serde_json::Value;

use crate::RunSettings;
use crate::bars::{Bar, judge, median};
use crate::client::Client;
use crate::peers::{LOAD_CORE, SERVER_CORE, pin_to, start_pellucid, text};
use crate::quiet_rounds::turns;

/// The number of documents, as in the study `connection-pool` (docs/studies.md).
const DOCUMENTS: u64 = 200_000;
const COLLECTION: &str = "transactionRelationship";
/// The bound of the scan's filter, which one document in a hundred passes.
const AMOUNT_LEAST: f64 = 9_900.0;
/// The number of documents that pass the filter.
const PASSING: u64 = DOCUMENTS / 100;
/// The number of scans after each import; their median counts.
const SCANS: usize = 5;
/// The number of PUTs in one pipeline while entities are stored.
const PUTS_AT_ONCE: usize = 200;
/// Queries and GETs are sent in this many alternating blocks, so that both see the same state of
/// the machine.
const TURNS: u64 = 10;

/// The results of one round.
struct Round {
    import_seconds: f64,
    scan_seconds: f64,
}

/// Runs the benchmark; returns true if all figures meet their required values.
pub fn run(effort: RunSettings) -> Result<bool, String> {
    pin_to(LOAD_CORE)?;
    let lines = lines();
    let folder = tempfile::tempdir().map_err(text)?;
    let path = folder.path().join("documents.jsonl");
    std::fs::write(&path, &lines).map_err(text)?;
    let mut peer = Peer::start(&path, folder.path())?;
    let requests = effort.seconds * 2_000;
    let (mut imports, mut scans, mut queries) = (Vec::new(), Vec::new(), Vec::new());
    let pairs = turns(effort.runs.div_ceil(2).max(3), |is_ours| match is_ours {
        true => ours(&lines, requests),
        // SQLite has no phase `execute`.
        false => Ok((peer.round()?, [f64::NAN; 2])),
    })?;
    for ((round, [query_ns, get_ns]), (theirs, _)) in pairs {
        println!(
            "import {:.0} against {:.0} documents/s; scan {:.1} against {:.1} ms; execute of a \
             query {:.1} µs, of a GET {:.1} µs",
            DOCUMENTS as f64 / round.import_seconds,
            DOCUMENTS as f64 / theirs.import_seconds,
            round.scan_seconds * 1e3,
            theirs.scan_seconds * 1e3,
            query_ns / 1e3,
            get_ns / 1e3
        );
        imports.push(theirs.import_seconds / round.import_seconds);
        scans.push(theirs.scan_seconds / round.scan_seconds);
        queries.push(query_ns / get_ns);
    }
    let held = [
        judge("documents_import_vs_sqlite", &imports, Bar::AtLeast(1.0)),
        judge("documents_scan_vs_sqlite", &scans, Bar::AtLeast(1.0)),
        judge("documents_query_vs_entity_get_execute_p50", &queries, Bar::AtMost(5.0)),
    ];
    Ok(held.into_iter().all(|holds| holds))
}

/// All documents, one per line.
fn lines() -> String {
    let mut lines = String::new();
    for number in 0..DOCUMENTS {
        // Amounts are spread evenly, so that exactly `PASSING` documents pass the filter.
        let amount = (number * 7_919 % DOCUMENTS) as f64 * 10_000.0 / DOCUMENTS as f64;
        let _ = writeln!(
            lines,
            "{{\"TxTp\":\"pain.001.001.11\",\"TenantId\":\"default\",\"CreDtTm\":\
             \"2026-05-04T11:{:02}:{:02}.123Z\",\"Amt\":{amount},\"Ccy\":\"USD\",\"PmtInfId\":\
             \"{}\",\"EndToEndId\":\"{}\",\"debtor\":{{\"id\":\"dbtr_{number}\",\"lat\":-3.1609,\
             \"long\":38.3588}}}}",
            number / 60 % 60,
            number % 60,
            identifier(number + DOCUMENTS),
            identifier(number)
        );
    }
    lines
}

/// An identifier that looks like a random UUID, different for each number.
fn identifier(number: u64) -> String {
    let (high, low) = (SeededRandom::at(number * 2), SeededRandom::at(number * 2 + 1));
    let (time, middle, version) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
    let (variant, node) = (low >> 48 & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    format!("{time:08x}-{middle:04x}-4{version:03x}-{variant:04x}-{node:012x}")
}

/// SQLite in a separate process, on the core that the server uses in its turns.
struct Peer {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(lines: &Path, folder: &Path) -> Result<Peer, String> {
        let mut child = Command::new("taskset")
            .args(["-c", SERVER_CORE, "python3", "-c", include_str!("sqlite.py")])
            .arg(lines)
            .arg(folder)
            .arg(AMOUNT_LEAST.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start python3: {error}"))?;
        let answers = BufReader::new(child.stdout.take().ok_or("no output to read")?);
        let mut peer = Peer { child, answers };
        if peer.line()?.trim() == "ready" { Ok(peer) } else { Err("SQLite is not there".into()) }
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(text)?;
        Ok(line)
    }

    /// Runs a command and returns its seconds. `count` is the expected number of documents.
    fn ask(&mut self, command: &str, count: u64) -> Result<f64, String> {
        let input = self.child.stdin.as_mut().ok_or("no input to write")?;
        writeln!(input, "{command}").map_err(text)?;
        let line = self.line()?;
        let (seconds, found) = line.trim().split_once(' ').ok_or("SQLite said nothing")?;
        if found.parse() != Ok(count) {
            return Err(format!("SQLite has {found} documents where {count} were expected"));
        }
        seconds.parse().map_err(text)
    }

    fn round(&mut self) -> Result<Round, String> {
        let import_seconds = self.ask("import", DOCUMENTS)?;
        let scans: Result<Vec<f64>, String> =
            (0..SCANS).map(|_| self.ask("scan", PASSING)).collect();
        Ok(Round { import_seconds, scan_seconds: median(&scans?) })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process ends when its input ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Runs a round on a new server; also returns the medians of the phase `execute` of queries and of
/// GETs, in nanoseconds.
fn ours(lines: &str, requests: u64) -> Result<(Round, [f64; 2]), String> {
    let server = start_pellucid("full")?;
    let mut client = Client::connect(&server.url)?;
    client.call("POST", "/_api/collection", &format!("{{\"name\":\"{COLLECTION}\"}}"))?;
    let index = "{\"type\":\"persistent\",\"fields\":[\"EndToEndId\"]}";
    client.call("POST", &format!("/_api/index?collection={COLLECTION}"), index)?;
    let begun = Instant::now();
    let target = format!("/_api/import?type=documents&collection={COLLECTION}");
    let answer = client.call("POST", &target, lines)?;
    let import_seconds = begun.elapsed().as_secs_f64();
    let report: Value = serde_json::from_slice(answer).map_err(text)?;
    if report["created"].as_u64() != Some(DOCUMENTS) {
        return Err(format!("the import created other than {DOCUMENTS} documents: {report}"));
    }
    let scans: Result<Vec<f64>, String> = (0..SCANS).map(|_| scan(&mut client)).collect();
    let round = Round { import_seconds, scan_seconds: median(&scans?) };
    store_entities(&mut client, lines)?;
    for turn in 0..TURNS {
        let range = turn * requests / TURNS..(turn + 1) * requests / TURNS;
        range.clone().try_for_each(|number| query(&mut client, number))?;
        for number in range {
            let key = number * 7_919 % DOCUMENTS;
            client.call("GET", &format!("/v0/entity?id={key}"), "")?;
        }
    }
    Ok((round, medians(&mut client)?))
}

fn scan(client: &mut Client) -> Result<f64, String> {
    let body = format!(
        "{{\"query\":\"FOR doc IN {COLLECTION} FILTER doc.Amt >= @least RETURN doc\",\
         \"bindVars\":{{\"least\":{AMOUNT_LEAST}}},\"batchSize\":{DOCUMENTS}}}"
    );
    let begun = Instant::now();
    let answer = client.call("POST", "/_api/cursor", &body)?;
    let seconds = begun.elapsed().as_secs_f64();
    let found = answer.windows(12).filter(|bytes| bytes == b"\"EndToEndId\"").count();
    if found as u64 == PASSING {
        Ok(seconds)
    } else {
        Err(format!("the scan found {found} documents where {PASSING} were expected"))
    }
}

fn query(client: &mut Client, number: u64) -> Result<(), String> {
    let id = identifier(number * 7_919 % DOCUMENTS);
    let body = format!(
        "{{\"query\":\"FOR doc IN {COLLECTION} FILTER doc.EndToEndId == @id RETURN doc\",\
         \"bindVars\":{{\"id\":\"{id}\"}}}}"
    );
    let answer = client.call("POST", "/_api/cursor", &body)?;
    let is_found = answer.windows(id.len()).any(|bytes| bytes == id.as_bytes());
    if is_found { Ok(()) } else { Err(format!("the query did not find {id}")) }
}

/// Stores each document as an entity too, so that queries and GETs search in sets of the same
/// size.
fn store_entities(client: &mut Client, lines: &str) -> Result<(), String> {
    let lines: Vec<&str> = lines.lines().collect();
    let chunks = lines.chunks(PUTS_AT_ONCE).zip((0..).step_by(PUTS_AT_ONCE));
    for (chunk, first) in chunks {
        let puts = (first..).zip(chunk);
        let puts = puts.map(|(key, body)| ("PUT", format!("/v0/entity?id={key}"), *body));
        client.call_all(puts)?;
    }
    Ok(())
}

/// The medians of `execute` in nanoseconds: of all queries, among which the few scans do not move
/// the median, and of GETs of entities.
fn medians(client: &mut Client) -> Result<[f64; 2], String> {
    let account: Value =
        serde_json::from_slice(client.call("GET", "/_admin/account", "")?).map_err(text)?;
    let of = |operation: &str| {
        let operations = account["operations"].as_array().ok_or("there is no account")?;
        let is_it = |one: &&Value| one["operation"] == operation && one["outcome"] == "ok";
        let one = operations.iter().find(is_it).ok_or("the account lacks an operation")?;
        let phases = one["phases"].as_array().ok_or("the account has no phases")?;
        let execute = phases.iter().find(|phase| phase["name"] == "execute");
        execute.and_then(|phase| phase["p50_ns"].as_f64()).ok_or("there is no `execute`")
    };
    Ok([of("query")?, of("entity_get")?])
}
