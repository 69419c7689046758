//! The parent process: it runs all peers in turn, round by round, each in its own process.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pellucid_io::{FileSystem, SystemFileSystem};

use crate::cgroup::ChildCgroups;
use crate::figures::Figures;
use crate::parts;
use crate::peer::{Outcome, text};
use crate::process;
use crate::workload::{KEY_LENGTH, VALUE_LENGTH};

/// The smallest memory limit; with less, some peer could not open its store.
const CONFINED_MIN_BYTES: u64 = 48 << 20;
/// Disk space per byte that is put, for the store with the highest amplification while it merges.
const DISK_PER_USER_BYTE: u64 = 5;

/// The extent of the measurement.
pub struct Plan {
    /// The number of puts, and of keys that they are drawn from.
    pub keys: u64,
    /// The number of rounds.
    pub runs: usize,
    /// The peers.
    pub peers: Vec<String>,
}

/// The figures of all rounds, by peer.
pub type Results = BTreeMap<String, Vec<Figures>>;

/// Runs all rounds.
pub fn run(plan: &Plan) -> Outcome<Results> {
    let folder = tempfile::Builder::new().prefix("pellucid-bench-").tempdir().map_err(text)?;
    let needed = plan.keys * (KEY_LENGTH + VALUE_LENGTH) as u64 * DISK_PER_USER_BYTE;
    let free = SystemFileSystem.free_bytes(folder.path()).map_err(text)?;
    if free < needed {
        let where_to = folder.path().display();
        return Err(format!(
            "{where_to} has {} MB free and the benchmark needs {}: set TMPDIR",
            free >> 20,
            needed >> 20
        ));
    }
    let mut results = Results::new();
    for round in 0..plan.runs {
        let mut order: Vec<&String> = plan.peers.iter().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for peer in order {
            eprintln!("round {} of {}: {peer}", round + 1, plan.runs);
            let run = Run { peer, keys: plan.keys, folder: folder.path().join(peer) };
            let figures = run.all().map_err(|error| format!("{peer}: {error}"))?;
            say_rates(&figures);
            results.entry(peer.clone()).or_default().push(figures);
            std::fs::remove_dir_all(&run.folder).map_err(text)?;
        }
    }
    Ok(results)
}

/// Prints the rates of one run as progress.
fn say_rates(figures: &Figures) {
    let rates = ["put", "get", "get_missing", "head", "get_beside_writer", "get_confined"];
    let rates = rates.iter().filter_map(|name| {
        let (rate, cpu) = (format!("{name}_per_s"), format!("{name}_cpu_us"));
        Some(format!("{name} {:.0}/s, {:.2} µs of CPU", figures.get(&rate)?, figures.get(&cpu)?))
    });
    eprintln!("  {}", rates.collect::<Vec<_>>().join("; "));
}

struct Run<'a> {
    peer: &'a str,
    keys: u64,
    folder: PathBuf,
}

impl Run<'_> {
    fn all(&self) -> Outcome<Figures> {
        std::fs::create_dir_all(&self.folder).map_err(text)?;
        let mut figures = self.child("fill", &[])?;
        if parts::is_wanted(parts::OPEN) {
            process::evict(&self.folder)?;
            figures.merge("clean_", &self.child("open", &[])?);
        }
        if parts::is_wanted(parts::CONFINED) {
            self.in_bounded_memory(&mut figures);
        }
        if parts::is_wanted(parts::KILL) {
            self.start("kill", &[])?;
            process::evict(&self.folder)?;
            figures.merge("killed_", &self.child("open", &[])?);
        }
        Ok(figures)
    }

    fn in_bounded_memory(&self, figures: &mut Figures) {
        let live_bytes = figures.get("live_bytes").unwrap_or(0.0) as u64;
        match self.confined((live_bytes / 4).max(CONFINED_MIN_BYTES)) {
            Ok(confined) => figures.merge("", &confined),
            Err(error) => eprintln!("{}: no look-ups in bounded memory: {error}", self.peer),
        }
    }

    fn confined(&self, limit_bytes: u64) -> Outcome<Figures> {
        process::evict(&self.folder)?;
        let groups = ChildCgroups::new(limit_bytes, &self.folder)?;
        let description = self.folder.with_extension("groups");
        std::fs::write(&description, groups.description()).map_err(text)?;
        self.child("confined", &[&limit_bytes.to_string(), &description.to_string_lossy()])
    }

    fn child(&self, role: &str, more: &[&str]) -> Outcome<Figures> {
        let output = self.start(role, more)?;
        if !output.status.success() {
            return Err(format!("{role} ended with {}", output.status));
        }
        Figures::from_json(String::from_utf8_lossy(&output.stdout).trim())
            .map_err(|error| format!("{role} printed no figures: {error}"))
    }

    fn start(&self, role: &str, more: &[&str]) -> Outcome<Output> {
        let mut command = Command::new(own_program()?);
        command.args(["child", role, self.peer]).arg(&self.folder).arg(self.keys.to_string());
        command.args(more).stderr(Stdio::inherit());
        // SAFETY: prctl is safe between fork and exec, and allocates nothing.
        unsafe {
            command.pre_exec(|| {
                // End the child if the parent is killed.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        command.output().map_err(|error| format!("cannot start {role}: {error}"))
    }
}

fn own_program() -> Outcome<PathBuf> {
    // The link stays valid if a new build replaces the file.
    let link = Path::new("/proc/self/exe");
    if link.exists() { Ok(link.to_path_buf()) } else { std::env::current_exe().map_err(text) }
}
