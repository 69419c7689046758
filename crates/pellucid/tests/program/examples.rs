//! The programs of `docs/examples.md`: each runs against a server and prints what the page says.

use std::path::Path;
use std::process::Command;

use crate::common::{example, finish, root, serve, text};
use tempfile::TempDir;

/// Returns the only block of the page in this language.
fn block(language: &str) -> String {
    let page = std::fs::read_to_string(root().join("docs/examples.md")).unwrap();
    let mut blocks = page.split("```").skip(1).step_by(2);
    let block = blocks.find_map(|block| block.strip_prefix(&format!("{language}\n")));
    block.unwrap_or_else(|| panic!("docs/examples.md has no {language}")).to_owned()
}

/// Writes the block of a language to `file`, runs `command` on it against a new server, and checks
/// the output.
fn prints_what_the_page_says(language: &str, file: &str, command: &[&str]) {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join(file);
    std::fs::write(&program, block(language)).unwrap();
    let mut run = Command::new(command[0]);
    run.args(&command[1..]).arg(program).current_dir(folder.path());
    assert_prints(language, run);
}

fn assert_prints(language: &str, mut command: Command) {
    let (_folder, server) = serve(&[]);
    command.env("PELLUCID_URL", server.url());
    let output = finish(command);
    assert_eq!(text(&output.stdout), block("text"), "{language}: {}", text(&output.stderr));
    assert!(output.status.success(), "{language}: {}", text(&output.stderr));
}

#[test]
fn curl() {
    prints_what_the_page_says("bash", "steps.sh", &["bash", "-eu"]);
}

#[test]
fn python() {
    prints_what_the_page_says("python", "steps.py", &["python3"]);
}

#[test]
fn javascript() {
    prints_what_the_page_says("javascript", "steps.mjs", &["node"]);
}

/// Go is often installed in a folder that is not in `PATH`.
#[test]
fn go() {
    let installed = "/usr/local/go/bin/go";
    let go = if Path::new(installed).exists() { installed } else { "go" };
    prints_what_the_page_says("go", "steps.go", &[go, "run"]);
}

#[test]
fn rust() {
    let file = root().join("backends/client/examples/first_steps.rs");
    let program = std::fs::read_to_string(file).unwrap();
    let program = program.split_once("\n\n").map(|(_, program)| program);
    assert_eq!(program, Some(block("rust").as_str()), "the example is the page's");
    assert_prints("rust", example("pellucid-client", "first_steps"));
}
