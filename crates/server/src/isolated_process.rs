//! Runs tests in a process of their own, if they change the state of the whole process, such as
//! its limits.

use std::process::Command;

/// The environment variable with the name of the test that this process runs.
const VARIABLE: &str = "PELLUCID_TEST_ALONE";

/// Runs `test` in another process of this test binary. `name` is the full name of the test that
/// calls this.
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
