//! `bench-allocators`: compares the server with the system's allocator and with other allocators.
//!
//! The program gets its memory from the C library, so a preloaded library can replace the
//! allocator. The same binary is measured in all cases, and no allocator becomes a dependency.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::RunSettings;
use crate::bars::median;
use crate::client::Client;
use crate::interval::of_median;
use crate::peers::{Server, start_pellucid_over, start_pellucid_with, text};
use crate::quiet_rounds::turns;
use crate::wrk::{full_throttle, full_throttle_put};

/// The folder of Debian's libraries; they are in a folder for the architecture below it.
const LIBRARIES: &str = "/usr/lib";
/// The allocators, and the beginnings of their libraries' names.
const ALLOCATORS: [(&str, &str); 2] =
    [("jemalloc", "libjemalloc.so."), ("mimalloc", "libmimalloc.so.")];
const CONNECTIONS: usize = 64;
/// Runs of each side per requested run, because the differences are only a few percent.
const TURNS_PER_RUN: usize = 2;
/// The number of documents in an import.
const DOCUMENTS: u64 = 20_000;
const COLLECTION: &str = "imported";

/// The kind of work whose rate is measured.
#[derive(Clone, Copy)]
enum LoadKind {
    Get,
    Put,
    Import,
}

impl LoadKind {
    const ALL: [(&str, LoadKind); 3] =
        [("GET", LoadKind::Get), ("PUT", LoadKind::Put), ("import", LoadKind::Import)];

    fn per_second(self, server: &Server, lines: &str, seconds: u64) -> Result<f64, String> {
        match self {
            LoadKind::Get => full_throttle(&server.url, CONNECTIONS, seconds),
            LoadKind::Put => full_throttle_put(&server.url, CONNECTIONS, seconds),
            LoadKind::Import => {
                let mut client = Client::connect(&server.url)?;
                let begun = Instant::now();
                let target = format!("/_api/import?collection={COLLECTION}&type=documents");
                client.call("POST", &target, lines)?;
                Ok(DOCUMENTS as f64 / begun.elapsed().as_secs_f64())
            }
        }
    }
}

/// Runs the benchmark. It has no bar: it helps to choose an allocator.
pub fn run(effort: RunSettings) -> Result<bool, String> {
    let lines = lines()?;
    for (name, begin) in ALLOCATORS {
        let library = find(begin)?;
        let (other, system) = (start_pellucid_over(&library)?, start_pellucid_with(&[])?);
        if !other.has_mapped(begin) || system.has_mapped(begin) {
            return Err(format!("{} is not what the server allocates from", library.display()));
        }
        for server in [&other, &system] {
            let collection = format!("{{\"name\":\"{COLLECTION}\"}}");
            Client::connect(&server.url)?.call("POST", "/_api/collection", &collection)?;
            for (_, work) in LoadKind::ALL {
                work.per_second(server, &lines, 1)?;
            }
        }
        for (what, work) in LoadKind::ALL {
            compare(name, what, effort, |is_other| {
                let server = if is_other { &other } else { &system };
                let cpu_seconds = server.cpu_seconds();
                let rate = work.per_second(server, &lines, effort.seconds)?;
                Ok([rate, server.cpu_seconds() - cpu_seconds])
            })?;
        }
        let mebibytes = |server: &Server| server.anonymous_bytes() >> 20;
        println!(
            "{name}: {} MiB in memory in the end, the system\'s {}",
            mebibytes(&other),
            mebibytes(&system)
        );
    }
    Ok(true)
}

/// Measures both sides alternately, and prints rates and ratios.
fn compare(
    name: &str,
    what: &str,
    effort: RunSettings,
    measure: impl FnMut(bool) -> Result<[f64; 2], String>,
) -> Result<(), String> {
    let pairs = turns(effort.runs * TURNS_PER_RUN, measure)?;
    let rate = |side: fn(&([f64; 2], [f64; 2])) -> f64| {
        median(&pairs.iter().map(side).collect::<Vec<_>>())
    };
    let ratios: Vec<f64> = pairs.iter().map(|(other, system)| other[0] / system[0]).collect();
    let [low, high] = of_median(&ratios);
    println!(
        "{name}, {what}: {:.0}/s, the system\'s {:.0}/s; {:.3} of it, with 95 % certainty {low:.3} \
         to {high:.3}; processor time {:.2} s and {:.2} s",
        rate(|pair| pair.0[0]),
        rate(|pair| pair.1[0]),
        median(&ratios),
        rate(|pair| pair.0[1]),
        rate(|pair| pair.1[1]),
    );
    Ok(())
}

/// The documents of an import, one per line.
fn lines() -> Result<String, String> {
    let mut lines = String::new();
    for number in 0..DOCUMENTS {
        let name = format!("name {}", number * 7_919 % DOCUMENTS);
        writeln!(
            lines,
            "{{\"number\":{number},\"name\":\"{name}\",\"of\":{{\"a\":[1,2,3],\"b\":\"{name}\"}}}}"
        )
        .map_err(text)?;
    }
    Ok(lines)
}

/// Finds the library whose name begins with `begin`.
fn find(begin: &str) -> Result<PathBuf, String> {
    let entries = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let is_it = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(begin))
    };
    let found = entries(Path::new(LIBRARIES)).into_iter().flat_map(|folder| entries(&folder));
    found.into_iter().find(is_it).ok_or_else(|| {
        format!("there is no {begin}* below {LIBRARIES}: install libjemalloc2 and libmimalloc2.0")
    })
}
