//! `pellucid doctor`: checks a machine for settings that cost a server time, memory or safety, and
//! names the cures.

mod checks;
mod machine;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use self::checks::{Check, State, examine};
use self::machine::Machine;
use crate::Failure;
use crate::settings::default_folder;

/// The version of the JSON.
const SCHEMA: &str = "pellucid.doctor.v1";

/// Check limits, file system, clock, memory and processors of this machine.
///
/// It ends with 1 if a server could not work here.
///
/// Example: pellucid doctor --data /var/lib/pellucid
#[derive(Args)]
pub(crate) struct DoctorArguments {
    /// The folder of the store, there or yet to be made [default: that of `pellucid serve`].
    #[arg(long, env = "PELLUCID_DATA")]
    data: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Read /proc and /sys below this folder.
    #[arg(long, default_value = "/", hide = true)]
    root: PathBuf,
}

/// Prints the results of all checks.
///
/// # Errors
/// If a server could not work on this machine.
pub(crate) fn run(arguments: &DoctorArguments) -> Result<(), Failure> {
    let folder = arguments.data.clone().or_else(default_folder);
    let folder = folder.unwrap_or_else(|| PathBuf::from("."));
    let checks = examine(&Machine::below(&arguments.root), &existing(&folder));
    let text = if arguments.json {
        format!("{:#}\n", json_of(&checks))
    } else {
        checks.iter().map(line).collect()
    };
    print_part!("{text}");
    let broken = checks.iter().filter(|check| check.state == State::Broken);
    let names = broken.map(|check| check.name).collect::<Vec<_>>();
    if names.is_empty() {
        return Ok(());
    }
    Err(Failure::work(format!("a server cannot work here: see {}", names.join(", "))))
}

/// The folder, or its nearest existing ancestor, with symbolic links resolved.
fn existing(folder: &Path) -> PathBuf {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let there = absolute.ancestors().find_map(|folder| folder.canonicalize().ok());
    there.unwrap_or(absolute)
}

fn line(check: &Check) -> String {
    let Check { name, state, value, advice } = check;
    let advice = advice.as_ref().map(|advice| format!("         {advice}\n"));
    format!("{:<8} {name}: {value}\n{}", state.name(), advice.unwrap_or_default())
}

fn json_of(checks: &[Check]) -> Value {
    let check = |check: &Check| {
        json!({
            "name": check.name,
            "state": check.state.name(),
            "value": check.value,
            "advice": check.advice,
        })
    };
    json!({ "schema": SCHEMA, "checks": checks.iter().map(check).collect::<Vec<_>>() })
}
