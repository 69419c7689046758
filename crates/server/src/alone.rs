//! Tests that change what the whole process has, such as its limits: each runs in a process of its
//! own.

use std::process::Command;

/// The variable that names the test that this process is for.
const VARIABLE: &str = "PELLUCID_TEST_ALONE";

/// Runs the test `name`, as the harness calls it, in another process of this binary.
pub(crate) fn run(name: &str, test: impl FnOnce()) {
    if std::env::var_os(VARIABLE).is_some_and(|set| set == name) {
        return test();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args([name, "--exact"]).env(VARIABLE, name).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
