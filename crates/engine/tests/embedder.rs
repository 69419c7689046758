//! A program outside the workspace embeds the engine. It is built with cargo's defaults: without
//! frame pointers and without `.cargo/config.toml`.
//!
//! `PELLUCID_EMBEDDER_KEYS=5000000 PELLUCID_EMBEDDER_ROUNDS=10` runs a longer version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The number of keys, enough for threads to wait for the writer lock in each round.
const KEYS: u64 = 200_000;
const ROUNDS: u64 = 3;
/// The environment variables that pass flags to a build.
const FLAG_VARIABLES: [&str; 5] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
];

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a number"))
}

fn expect_success(what: &str, output: &Output) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}\n{text}", output.status);
}

/// Builds the program in `folder`, which no configuration of the workspace affects.
fn build(folder: &Path) -> PathBuf {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (sources, crates) = (engine.join("tests/embedder"), engine.parent().unwrap());
    let manifest = fs::read_to_string(sources.join("manifest.toml")).unwrap();
    let manifest = manifest.replace("CRATES", crates.to_str().unwrap());
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::copy(sources.join("program.rs"), folder.join("program.rs")).unwrap();
    // Use the same versions of external crates as the workspace, which are already downloaded.
    fs::copy(crates.join("../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("embedder");
    let mut cargo = Command::new(env!("CARGO"));
    for variable in FLAG_VARIABLES {
        cargo.env_remove(variable);
    }
    cargo.current_dir(folder).env("CARGO_TARGET_DIR", &target);
    let output = cargo.args(["build", "-q", "--release", "--offline"]).output().unwrap();
    expect_success("cargo build", &output);
    target.join("release/embedder")
}

/// Regression: three of four such runs ended with SIGSEGV. Code that released a lock while another
/// thread waited looked for the stack at the address in the frame pointer register, which held an
/// arbitrary value.
#[test]
fn a_program_without_frame_pointers_fills_a_store_from_two_threads() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path());
    let keys = number("PELLUCID_EMBEDDER_KEYS", KEYS);
    for round in 0..number("PELLUCID_EMBEDDER_ROUNDS", ROUNDS) {
        let store = folder.path().join(format!("store-{round}"));
        let output = Command::new(&program).arg(&store).arg(keys.to_string()).output().unwrap();
        expect_success(&format!("round {round}"), &output);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.trim(), format!("{keys} keys"));
        fs::remove_dir_all(store).unwrap();
    }
}
