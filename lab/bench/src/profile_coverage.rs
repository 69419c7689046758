//! Measures the share of the server's processor time that profiles explain, under PUT, GET, and GET
//! of other nodes' keys, and prints the table of docs/profiles.md.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::RunSettings;
use crate::bars::{Bar, judge};
use crate::client::Client;
use crate::nodes::start_nodes;
use crate::peers::{LOAD_CORE, pellucid, start_pellucid_with, text};
use crate::wrk::script_file;

const CONNECTIONS: &str = "64";
/// The requested samples per second. The kernel gives at most as many as it has timer ticks.
const HERTZ: u64 = 499;
/// Seconds of each profile per second of effort.
const SECONDS_EACH: u64 = 5;
/// The fewest samples of a profile: with fewer, a share of 97 % could not be told from 95 %.
const SAMPLES_MIN: u64 = 1_000;
/// The memory of the store. It is so small that PUTs fill memtables many times, and their tables
/// are merged.
const MEMORY: &str = "8M";
/// The number of keys of the loads.
const KEYS: u64 = 100_000;
/// The length of a value in bytes.
const VALUE_BYTES: usize = 103;

/// The columns of the table, each with its components. HTTP is divided by phases.
const COLUMNS: [(&str, &[&str]); 13] = [
    (WRITE, &[]),
    ("HTTP: receive, parse, loop", &["HTTP"]),
    ("API", &["API"]),
    ("engine", &["engine", "store"]),
    ("journal", &["engine journal"]),
    ("ledger", &["engine ledger"]),
    ("flush", &["flush"]),
    ("compaction", &["compaction"]),
    (
        "sync, other jobs",
        &["sync", "segments", "collection", "directory", "ledger", "pages", "background"],
    ),
    ("forwarding", &["forwarding"]),
    ("account", &["account"]),
    ("profiler", &["profiler"]),
    (REST, &[]),
];
const WRITE: &str = "HTTP: write";
const REST: &str = "rest";

/// The division of the processor time of one load.
struct ProfileCoverage {
    /// The names of the columns, each with its share in percent.
    columns: Vec<(&'static str, f64)>,
    samples: u64,
    /// The explained share, from 0 to 1.
    explained: f64,
}

impl ProfileCoverage {
    /// Parses the table that the server returns for `format=shares`.
    fn parse(shares: &str) -> Result<ProfileCoverage, String> {
        let mut columns: Vec<(&'static str, f64)> =
            COLUMNS.iter().map(|(name, _)| (*name, 0.0)).collect();
        let (mut samples, mut explained) = (None, None);
        for line in shares.lines().skip(1) {
            if let Some(count) = line.strip_prefix("samples: ") {
                samples = count.trim().parse().ok();
            } else if let Some(share) = line.strip_prefix("explained by phase and component: ") {
                explained = percent_of(share);
            } else if let Some((phase, component, percent)) = row_of(line) {
                let name = column_of(phase, component);
                columns.iter_mut().filter(|column| column.0 == name).for_each(|c| c.1 += percent);
            }
        }
        let samples = samples.ok_or("the table does not say how many samples it has")?;
        let explained = explained.ok_or("the table does not say how much is explained")? / 100.0;
        Ok(ProfileCoverage { columns, samples, explained })
    }

    fn share(&self, name: &str) -> f64 {
        self.columns.iter().filter(|column| column.0 == name).map(|column| column.1).sum()
    }
}

fn percent_of(text: &str) -> Option<f64> {
    text.trim().strip_suffix('%')?.parse().ok()
}

/// Parses the phase, component and percentage of a line.
fn row_of(line: &str) -> Option<(&str, &str, f64)> {
    let (rest, percent) = line.trim_end().rsplit_once(' ')?;
    // Phases and components may contain blanks, so the line is split at the column's width.
    let (phase, component) = rest.split_at_checked(20)?;
    Some((phase.trim(), component.trim(), percent_of(percent)?))
}

fn column_of(phase: &str, component: &str) -> &'static str {
    if component == "HTTP" && phase == "write" {
        return WRITE;
    }
    let of = COLUMNS.iter().find(|(_, components)| components.contains(&component));
    of.map_or(REST, |(name, _)| name)
}

/// A load of one kind of request.
struct Load<'a> {
    name: &'a str,
    method: &'a str,
    address: &'a str,
    /// The prefix of its keys.
    key: &'a str,
    /// The number of its keys.
    keys: u64,
}

/// Runs the loads, and prints their table; returns true if all bars hold.
pub fn run(effort: RunSettings) -> Result<bool, String> {
    let server = start_pellucid_with(&["--memory", MEMORY])?;
    let address = format!("http://{}", server.address());
    let load = |name, method| Load { name, method, address: &address, key: "", keys: KEYS };
    let mut rows = Vec::new();
    for (name, method) in [("PUT", "PUT"), ("GET", "GET")] {
        rows.push((name, explain(&load(name, method), effort)?));
    }
    drop(server);
    let nodes = start_nodes(2)?;
    let key = nodes.key_of(1)?;
    let (name, address) = ("GET, forwarded", format!("http://{}", nodes.addresses[0]));
    let forwarded = Load { name, method: "GET", address: &address, key: &key, keys: 0 };
    rows.push((name, explain(&forwarded, effort)?));
    print_table(&rows);
    let mut holds = true;
    for (name, row) in &rows {
        let name = name.to_lowercase().replace(", ", "_");
        holds &= judge(&format!("{name}_cpu_explained"), &[row.explained], Bar::AtLeast(0.97));
        let samples = row.samples as f64;
        let least = Bar::AtLeast(SAMPLES_MIN as f64);
        holds &= judge(&format!("{name}_cpu_samples"), &[samples], least);
    }
    // A PUT load without flushes and merges would explain less than is asked for.
    for job in ["flush", "compaction"] {
        let name = format!("put_cpu_has_{job}");
        holds &= judge(&name, &[rows[0].1.share(job) / 100.0], Bar::AtLeast(0.001));
    }
    Ok(holds)
}

/// Runs the load, and fetches the profiles of processor time, allocations and waits meanwhile.
fn explain(load: &Load<'_>, effort: RunSettings) -> Result<ProfileCoverage, String> {
    let seconds = effort.seconds * SECONDS_EACH;
    // The variable keeps the temporary file in place until the load has ended.
    let script = script(load)?;
    let mut running = start(load, &script, seconds + 8)?;
    std::thread::sleep(Duration::from_secs(1));
    let mut client = Client::connect(load.address)?;
    let mut shares = |kind: &str, more: &str| {
        let target = format!("/debug/pprof/{kind}?format=shares&{more}");
        client.call("GET", &target, "").map(|page| String::from_utf8_lossy(page).into_owned())
    };
    let cpu = shares("profile", &format!("seconds={seconds}&hz={HERTZ}"))?;
    println!("{}, processor time:\n{cpu}", load.name);
    for kind in ["allocs", "block"] {
        println!("{}, {kind}:\n{}", load.name, shares(kind, "seconds=1")?);
    }
    if !running.wait().map_err(text)?.success() {
        return Err(format!("the load of {}s failed, so the profiles are of none", load.name));
    }
    ProfileCoverage::parse(&cpu)
}

fn start(load: &Load<'_>, script: &tempfile::NamedTempFile, seconds: u64) -> Result<Child, String> {
    Command::new("taskset")
        .args(["-c", LOAD_CORE])
        .arg(pellucid())
        .args(["load", "-c", CONNECTIONS, "-t", "1", "-d", &format!("{seconds}s"), "-s"])
        .arg(script.path())
        .arg(load.address)
        .stdout(Stdio::null())
        .spawn()
        .map_err(text)
}

fn script(load: &Load<'_>) -> Result<tempfile::NamedTempFile, String> {
    let Load { method, key, keys, .. } = load;
    let id =
        if *keys > 0 { format!("'{key}' .. math.random(1, {keys})") } else { format!("'{key}'") };
    let body =
        if *method == "PUT" { format!("string.rep('v', {VALUE_BYTES})") } else { "''".into() };
    script_file(&format!(
        "request = function()\n  local id = {id}\n  \
         return wrk.format('{method}', '/v0/entity?id=' .. id, {{}}, {body})\nend\n"
    ))
}

/// Prints the table in the form that docs/profiles.md has.
fn print_table(rows: &[(&str, ProfileCoverage)]) {
    let names: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
    println!("| load | {} | samples |", names.join(" | "));
    println!("|---{}|---|", "|---".repeat(names.len()));
    for (name, row) in rows {
        let shares: Vec<_> = names.iter().map(|name| format!("{:.1} %", row.share(name))).collect();
        println!("| {name} | {} | {} |", shares.join(" | "), row.samples);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_table_of_the_server_is_parsed() {
        let shares = "phase or job         component          share\n\
                      write                HTTP               50.5%\n\
                      parse                HTTP                9.5%\n\
                      execute              engine journal     20.0%\n\
                      job compaction       compaction         15.0%\n\
                      unlabelled           other               5.0%\n\
                      samples: 4321\n\
                      explained by phase and component: 95.0%\n";
        let read = ProfileCoverage::parse(shares).unwrap();
        assert_eq!((read.samples, read.explained), (4_321, 0.95));
        assert_eq!(read.share(WRITE), 50.5);
        assert_eq!(read.share("HTTP: receive, parse, loop"), 9.5);
        assert_eq!((read.share("journal"), read.share("compaction")), (20.0, 15.0));
        assert_eq!((read.share(REST), read.share("ledger")), (5.0, 0.0));
        assert!(ProfileCoverage::parse("phase or job\n").is_err());
    }
}
