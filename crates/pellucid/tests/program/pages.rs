//! Tests of the commands in the documents. The program must accept each of them, and the blocks
//! marked `sh` are run in their order. The page of benchmarks is checked too.

mod run;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::common::{example, finish, root, text, unset};
use crate::nodes::free_addresses;
use tempfile::TempDir;

/// The time limit of all commands of a page, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// The least number of commands in the documents. If fewer are found, the search is wrong.
const COMMANDS_MIN: usize = 40;
/// The ports of the servers on the pages. The first is the default of `pellucid serve`.
const PORTS: [&str; 4] = [":8080", ":8081", ":8082", ":8443"];
/// The line that separates the outputs of the blocks.
const MARK: &str = "== block ==\n";
/// The folders of the repository with programs that documents may name.
const ROOMS: [&str; 5] = ["fuzz/", "lab/", "packaging/", "scripts/", "studies/"];

/// Returns the documents that show commands, with their texts. Notes of the laboratory are left
/// out, because they describe the state of their day.
fn documents() -> Vec<(PathBuf, String)> {
    let within = |folder: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let crates = within("crates").into_iter().chain(within("backends"));
    let readmes = crates.map(|path| path.join("README.md")).filter(|path| path.exists());
    let paths = within("docs").into_iter().chain(within(".")).chain(readmes);
    let paths = paths.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    paths.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Returns the code spans in the text of a document, without its blocks.
fn spans(document: &str) -> Vec<&str> {
    let texts = document.split("```").step_by(2);
    texts.flat_map(|text| text.split('`').skip(1).step_by(2)).collect()
}

/// Returns the lines of all code blocks and the code spans of a document.
fn code(document: &str) -> Vec<&str> {
    let blocks = document.split("```").skip(1).step_by(2).flat_map(str::lines);
    blocks.chain(spans(document)).collect()
}

/// Returns the commands of the program in the blocks and the code spans of a document. A line that
/// ends in a backslash continues. A span with alternatives or placeholders is not a command.
fn commands(document: &str) -> Vec<String> {
    let document = document.replace("\\\n", " ").replace("target/release/pellucid ", "pellucid ");
    let (mut commands, mut is_block) = (Vec::new(), false);
    for line in document.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        let mut words = line.split_whitespace().skip_while(|word| word.contains('='));
        let is_ours = words.next() == Some("pellucid");
        if is_ours && !is_fence && (is_block || line.starts_with("    ")) {
            commands.push(line.trim().trim_end_matches('&').to_owned());
        }
    }
    let spans = spans(&document).into_iter().filter(|span| span.starts_with("pellucid "));
    commands.extend(spans.filter(|span| !span.contains(['|', '…', '<'])).map(str::to_owned));
    commands
}

/// Returns a shell in a folder, with the program in its `PATH`, and without the variables of this
/// process's environment that the program reads.
fn shell(folder: &Path) -> Command {
    let mut shell = unset("bash");
    let programs = Path::new(env!("CARGO_BIN_EXE_pellucid")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    shell.env("PATH", format!("{}:{path}", programs.display()));
    shell.args(["-eu", "-o", "pipefail"]).current_dir(folder);
    shell
}

#[test]
fn the_program_accepts_every_command_of_the_documents() {
    let folder = TempDir::new().unwrap();
    let mut count = 0;
    for (path, document) in documents() {
        for command in commands(&document) {
            // All arguments are parsed before the help is given.
            let help = "pellucid() { command pellucid \"$@\" --help > help.txt; }";
            let mut shell = shell(folder.path());
            shell.arg("-c").arg(format!("{help}\n{command}\n"));
            let output = finish(shell);
            let errors = text(&output.stderr);
            assert!(output.status.success(), "{}: {command}: {errors}", path.display());
            count += 1;
        }
    }
    assert!(count >= COMMANDS_MIN, "{count} commands");
}

/// Returns the words that follow `word` in the code of a document.
fn words_after<'a>(document: &'a str, word: &str) -> Vec<&'a str> {
    let lines = code(document).into_iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let pairs = lines.flat_map(|words| words.windows(2).map(|w| (w[0], w[1])).collect::<Vec<_>>());
    pairs.filter(|(first, _)| *first == word).map(|(_, second)| second).collect()
}

/// Returns true if one of the crates has a program `name` of a kind such as `examples`.
fn has_program(kind: &str, name: &str) -> bool {
    let rooms = ["crates", "backends", "lab"].map(|room| fs::read_dir(root().join(room)).unwrap());
    let mut crates = rooms.into_iter().flatten().map(|entry| entry.unwrap().path());
    crates.any(|path| {
        let folder = path.join(kind);
        folder.join(format!("{name}.rs")).exists() || folder.join(name).join("main.rs").exists()
    })
}

#[test]
fn the_other_programs_that_documents_run_exist() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let mut count = 0;
    for (path, document) in documents() {
        let path = path.display();
        for target in words_after(&document, "make") {
            assert!(makefile.contains(&format!("\n{target}:")), "{path}: make {target}");
            count += 1;
        }
        for (flag, kind) in [("--example", "examples"), ("--test", "tests")] {
            for name in words_after(&document, flag) {
                assert!(has_program(kind, name), "{path}: {flag} {name}");
                count += 1;
            }
        }
        for line in code(&document) {
            let word = line.split_whitespace().next().unwrap_or_default();
            if ROOMS.iter().any(|room| word.starts_with(room)) && !word.contains(['*', '…']) {
                assert!(root().join(word).exists(), "{path}: {word}");
                count += 1;
            }
        }
    }
    assert!(count >= COMMANDS_MIN, "{count} commands");
}

/// A block of commands, and the output that its page shows, if any.
struct Step {
    commands: String,
    printed: Option<String>,
}

/// Returns the blocks of a page that are run, in their order.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in page.split("```").skip(1).step_by(2) {
        let (language, body) = block.split_once('\n').unwrap();
        match language {
            "sh" => steps.push(Step { commands: body.to_owned(), printed: None }),
            "text" => steps.last_mut().unwrap().printed = Some(body.to_owned()),
            _ => {}
        }
    }
    steps
}

/// Returns a free port for each of [`PORTS`].
fn free_ports() -> [String; 4] {
    let addresses = free_addresses(PORTS.len());
    std::array::from_fn(|at| format!(":{}", addresses[at].port()))
}

/// Replaces the ports of the page in a text by `ports`.
fn with_ports(text: &str, ports: &[String; 4]) -> String {
    let pairs = PORTS.iter().zip(ports);
    pairs.fold(text.to_owned(), |text, (said, free)| text.replace(said, free))
}

/// Runs a script in a folder to its end, and kills all processes that it leaves.
fn run_script(folder: &Path, script: &str, first_port: &str) -> ExitStatus {
    fs::write(folder.join("steps.sh"), script).unwrap();
    let file = |name| Stdio::from(File::create(folder.join(name)).unwrap());
    let mut shell = shell(folder);
    shell.arg("steps.sh").env("PELLUCID_LISTEN", format!("127.0.0.1{first_port}"));
    shell.stdout(file("printed")).stderr(file("errors")).process_group(0);
    let mut child = shell.spawn().unwrap();
    let group = libc::pid_t::try_from(child.id()).unwrap();
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if begun.elapsed() > PATIENCE => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    // SAFETY: the process group was made for the script, so it has no other processes.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    let errors = fs::read_to_string(folder.join("errors")).unwrap();
    status.unwrap_or_else(|| panic!("the tasks do not end: {errors}"))
}

/// Returns the output of a block without the lines of servers in the background.
fn without_servers(printed: &str) -> String {
    let lines = printed.lines().filter(|line| !line.starts_with("listening on "));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

#[test]
fn the_tasks_print_the_output_on_their_page() {
    let folder = TempDir::new().unwrap();
    let steps = steps(&fs::read_to_string(root().join("docs/tasks.md")).unwrap());
    let ports = free_ports();
    let mut script = "trap 'kill $(jobs -p) && wait' EXIT\n".to_owned();
    for Step { commands, .. } in &steps {
        let commands = with_ports(commands, &ports);
        script.push_str(&format!("printf '%s\\n' '{}'\n{commands}", MARK.trim()));
    }
    let status = run_script(folder.path(), &script, &ports[0]);
    let read = |name| fs::read_to_string(folder.path().join(name)).unwrap();
    let (printed, errors) = (read("printed"), read("errors"));
    assert!(status.success(), "{status}: {printed}\n{errors}");
    let blocks: Vec<_> = printed.split(MARK).skip(1).map(without_servers).collect();
    assert_eq!(blocks.len(), steps.len(), "{printed}");
    let mut compared = 0;
    for (Step { commands, printed }, block) in steps.iter().zip(&blocks) {
        if let Some(expected) = printed {
            assert_eq!(block, expected.trim(), "{commands}");
            compared += 1;
        }
    }
    assert!(compared >= 4, "{compared} blocks with what they print");
    // These outputs vary: the load's verdict and slow requests, the profile's flame graph, and the
    // name of the backup.
    assert!(printed.contains("Verdict: ") && printed.contains("\"operation\":\"entity_get\""));
    assert!(read("cpu.html").contains("<svg") && printed.contains("_daily"), "{printed}");
}

#[test]
fn the_documents_show_the_first_example_of_the_engine() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let program = read("crates/engine/examples/first.rs");
    let (_, program) = program.split_once("\n\n").unwrap();
    for page in ["docs/embedding.md", "crates/engine/README.md"] {
        assert!(read(page).contains(&format!("```rust\n{program}```\n")), "{page}");
    }
    let folder = TempDir::new().unwrap();
    let mut run = example("pellucid-engine", "first");
    run.current_dir(folder.path());
    let output = finish(run);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(folder.path().join("data/manifest").exists());
}

#[test]
fn the_page_of_benchmarks_begins_with_missed_bars() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("bench");
    fs::create_dir(&out).unwrap();
    let http = "64 connections\n\
        {\"bar\":\"get\",\"value\":0.950,\"at_most\":0.85,\"holds\":false,\
        \"runs\":10,\"spread\":0.010}\n\
        {\"figure\":\"idle\",\"value\":679,\"runs\":1,\"spread\":0.000}\n\
        make: *** [Makefile:66: bench-http] Error 1\n";
    let profiles = "{\"bar\":\"heap\",\"value\":1.0004,\"interval_95\":[0.9890,1.0090],\
        \"at_least\":0.99,\"holds\":true,\"runs\":400}\n";
    fs::write(out.join("http.txt"), http).unwrap();
    fs::write(out.join("profiles.txt"), profiles).unwrap();
    let page = || {
        let mut bench = Command::new(root().join("scripts/bench"));
        bench.args(["--page", "http", "profiles"]).env("CARGO_TARGET_DIR", folder.path());
        let code = finish(bench).status.code();
        (code, fs::read_to_string(out.join("performance.md")).unwrap())
    };
    let (code, told) = page();
    assert_eq!(code, Some(1), "{told}");
    let (loses, all) = told.split_once("## http").unwrap();
    assert!(loses.contains("1 of 2 bars do not hold here"), "{told}");
    assert!(loses.contains("| `get` | **0.95** | at most 0.85 | 0.01 | 10 |"), "{told}");
    assert!(!loses.contains("`heap`") && all.contains("| `idle` | 679 |"), "{told}");
    assert!(all.contains("| `heap` | 1.0004 | at least 0.99 | 0.989 to 1.009 | 400 |"), "{told}");
    fs::write(out.join("http.txt"), "make: *** [Makefile:66: bench-http] Error 2\n").unwrap();
    let (code, told) = page();
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("`make bench-http` ended with 2"), "{told}");
}

/// Regression: a benchmark passed that ended with a missed bar's exit code without one, because a
/// program was missing, and so did one whose `make` a signal ended.
#[test]
fn a_benchmark_that_did_not_run_to_its_end_does_not_pass() {
    let folder = TempDir::new().unwrap();
    let make = folder.path().join("make");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let held = r#"{"bar":"get","value":1,"at_least":1,"holds":true,"runs":1,"spread":0}"#;
    let message = "echo 'make: *** [Makefile:66: bench-http] Error";
    for (end, ended) in [
        ("exit 0".to_owned(), None),
        (format!("{message} 1'; exit 2"), Some("1")),
        (format!("{message} 3'; exit 2"), Some("3")),
        ("kill -9 $$".to_owned(), Some("-9")),
    ] {
        fs::write(&make, format!("#!/bin/sh\necho '{held}'\n{end}\n")).unwrap();
        fs::set_permissions(&make, fs::Permissions::from_mode(0o755)).unwrap();
        let mut bench = Command::new(root().join("scripts/bench"));
        bench.arg("http").env("CARGO_TARGET_DIR", folder.path()).env("PATH", &path);
        let code = finish(bench).status.code();
        let told = fs::read_to_string(folder.path().join("bench/performance.md")).unwrap();
        assert_eq!(code, Some(if ended.is_some() { 2 } else { 0 }), "{end}: {told}");
        let message = ended.map(|code| format!("`make bench-http` ended with {code}: "));
        assert!(message.is_none_or(|message| told.contains(&message)), "{end}: {told}");
    }
}
