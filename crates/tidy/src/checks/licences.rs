//! Checks the licences and sources of all external packages, including those for other platforms
//! and for fuzz targets. The packages of the benchmarks against other engines are left out: we
//! distribute none of them, and cargo knows a licence only after it has downloaded the package.

use std::process::Command;

use serde::Deserialize;

use crate::finding::Finding;
use crate::tree::{LOCK_NAME, Tree};

/// The accepted licences. Their code may be linked into a program under the Apache licence and
/// distributed without conditions beyond naming the authors.
const ACCEPTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Exceptions: a package, a further licence that it may have, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("libfuzzer-sys", "NCSA", "permissive, and part of the fuzz targets only")];

/// The folder of benchmarks against other engines, which has its own lock files.
const BENCHMARKS: &str = "lab/bench/";

/// The beginning of the source of packages from the default registry.
const REGISTRY: &str = "registry+https://github.com/rust-lang/";

/// The output of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// The source of the package; `None` for a package of this repository.
    source: Option<String>,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_ours = |path: &str| !path.starts_with(BENCHMARKS);
    let locks = tree.files.iter().filter(|file| file.name() == LOCK_NAME && is_ours(&file.path));
    locks.flat_map(|lock| findings_of_lock(tree, &lock.path)).collect()
}

fn findings_of_lock(tree: &Tree, lock: &str) -> Vec<Finding> {
    match metadata(tree, lock) {
        Ok(metadata) => metadata.packages.iter().flat_map(|of| findings_in(lock, of)).collect(),
        Err(what) => {
            let manifest = manifest_of(lock);
            let cure = format!(
                "if the lock is behind the manifests, \
                 `cargo update --workspace --manifest-path {manifest}` and commit it"
            );
            vec![Finding::new(lock, 1, what, cure)]
        }
    }
}

fn manifest_of(lock: &str) -> String {
    lock.replace(LOCK_NAME, "Cargo.toml")
}

fn metadata(tree: &Tree, lock: &str) -> Result<Metadata, String> {
    let arguments = ["metadata", "--format-version=1", "--locked", "--quiet", "--manifest-path"];
    let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(arguments)
        .arg(tree.root.join(manifest_of(lock)))
        .output()
        .map_err(|error| format!("cargo does not run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`cargo metadata` fails: {}", said.trim().replace('\n', " ")));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("`cargo metadata` prints something else: {error}"))
}

fn findings_in(lock: &str, package: &Package) -> Vec<Finding> {
    let Package { name, version, license, source } = package;
    let mut findings = Vec::new();
    let Some(source) = source else { return findings };
    let mut find = |what: String, cure: &str| findings.push(Finding::new(lock, 1, what, cure));
    if !source.starts_with(REGISTRY) {
        find(
            format!("{name} {version} comes from {source}"),
            "take a released version from the registry, which nobody can change afterwards",
        );
    }
    match license.as_deref() {
        None => find(
            format!("{name} {version} names no licence"),
            "use another package: without a licence nothing is permitted",
        ),
        Some(license) => match is_accepted(name, license) {
            Ok(true) => {}
            Ok(false) => find(
                format!("{name} {version} is under {license}"),
                "use another package, or accept the licence in crates/tidy/src/checks/licences.rs",
            ),
            Err(what) => find(
                format!("the licence of {name} {version}, `{license}`, is no expression: {what}"),
                "read its licence, and name the package in the exceptions if it is permissive",
            ),
        },
    }
    findings
}

fn is_accepted(name: &str, license: &str) -> Result<bool, String> {
    let expression = spdx::Expression::parse_mode(license, spdx::ParseMode::LAX)
        .map_err(|error| error.reason.to_string())?;
    Ok(expression.evaluate(|required| {
        let required = required.to_string();
        let excepted =
            |(package, licence, _): &(&str, &str, &str)| *package == name && *licence == required;
        ACCEPTED.contains(&&required[..]) || EXCEPTIONS.iter().any(excepted)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(license: Option<&str>, source: Option<&str>) -> Package {
        let owned = |text: &str| text.to_owned();
        Package {
            name: owned("example"),
            version: owned("1.0.0"),
            license: license.map(owned),
            source: source.map(owned),
        }
    }

    fn findings(license: Option<&str>) -> usize {
        let source = format!("{REGISTRY}index");
        findings_in(LOCK_NAME, &package(license, Some(&source))).len()
    }

    #[test]
    fn expressions_are_evaluated_and_not_compared() {
        for fine in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
        ] {
            assert_eq!(findings(Some(fine)), 0, "{fine}");
        }
        for bad in ["GPL-3.0-only", "MIT AND MPL-2.0", "Apache-2.0 WITH GCC-exception-3.1", "mine"]
        {
            assert_eq!(findings(Some(bad)), 1, "{bad}");
        }
        assert_eq!(findings(None), 1);
    }

    #[test]
    fn other_sources_are_findings_and_our_own_packages_are_not() {
        let git = package(Some("MIT"), Some("git+https://example.com/a#1"));
        assert_eq!(findings_in(LOCK_NAME, &git).len(), 1);
        assert_eq!(findings_in(LOCK_NAME, &package(None, None)).len(), 0);
    }

    #[test]
    fn an_exception_is_for_one_package() {
        assert_eq!(is_accepted("libfuzzer-sys", "MIT AND NCSA"), Ok(true));
        assert_eq!(is_accepted("example", "MIT AND NCSA"), Ok(false));
    }
}
