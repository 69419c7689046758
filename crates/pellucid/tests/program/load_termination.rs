//! Tests of loads that end early or fail: the results so far are printed and written nevertheless,
//! and the exit code shows the failure.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use crate::common::{TestServer, done, failed, fails, json_of, pellucid, run, serve, text};
use serde_json::Value;
use tempfile::TempDir;

/// A server, and a folder for the script and the files of a load.
struct TestFixture {
    server: TestServer,
    folder: TempDir,
}

impl TestFixture {
    fn start() -> TestFixture {
        let (folder, server) = serve(&[]);
        TestFixture { server, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn url(&self) -> String {
        self.server.url() + "/v0/status"
    }

    /// Runs a load with further flags and a script, in which `FOLDER` is replaced by the folder.
    fn load(&self, script: &str, flags: &[&str]) -> Output {
        let folder = format!("[[{}]]", self.folder.path().display());
        std::fs::write(self.path("test.lua"), script.replace("FOLDER", &folder)).unwrap();
        let script = ["load", "-t", "1", "-s", &self.file("test.lua")];
        run(&[&script[..], flags, &[&self.url()]].concat())
    }
}

#[test]
fn a_script_that_fails_in_the_middle_leaves_what_was_measured() {
    let bench = TestFixture::start();
    let script = "local made = 0
        function request()
            made = made + 1
            if made > 60 then error('sixty') end
            return wrk.format()
        end";
    let (html, hgrm) = (bench.file("r.html"), bench.file("r.hgrm"));
    let files = ["-c", "2", "-d", "10m", "--html", &html, "--hgrm", &hgrm];
    let output = bench.load(script, &[&files[..], &["--json"]].concat());
    failed(&output, 1, "test.lua:4: sixty");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["requests"].as_u64().unwrap() >= 50, "{result}");
    assert!(result["failure"].as_str().unwrap().contains("test.lua:4: sixty"));
    assert_eq!(result["stopped_early"], true);
    let page = bench.read("r.html");
    assert!(page.contains("the run ended early") && page.contains("Percentiles"));
    assert!(bench.read("r.hgrm").contains("#[Mean"));
    let output = bench.load(script, &files);
    failed(&output, 1, "sixty");
    let shown = text(&output.stdout);
    assert!(shown.contains("Requests/sec") && shown.contains("Verdict"), "{shown}");
}

#[test]
fn an_error_in_done_comes_after_the_files() {
    let bench = TestFixture::start();
    let (html, hgrm, hlog) = (bench.file("r.html"), bench.file("r.hgrm"), bench.file("r.hlog"));
    let flags = ["-d", "1s", "-R", "50", "--html", &html, "--hgrm", &hgrm, "--hlog", &hlog];
    let output = bench.load("function done()\n error('at the end')\nend", &flags);
    failed(&output, 1, "test.lua:2: at the end");
    assert!(text(&output.stdout).contains("Requests/sec"));
    assert!(bench.read("r.html").contains("Percentiles"));
    assert!(bench.read("r.hgrm").contains("#[Mean") && bench.read("r.hlog").contains("HISTF"));
}

/// Regression: the generator's own lines came between the table and the output of `done`, where
/// wrk's users do not expect them, and the flags of wrk2 were unknown.
#[test]
fn done_prints_right_behind_the_table() {
    let bench = TestFixture::start();
    let script = "function done() print('done was called') end";
    let output = bench.load(script, &["-d", "1s", "-R", "50", "-U", "-B", "--pacing", "wrk2"]);
    let shown = done(&output);
    let (table, own) = shown.split_once("done was called\n").unwrap();
    assert!(table.lines().last().unwrap().starts_with("Transfer/sec:"), "{shown}");
    assert!(table.contains("(HdrHistogram - Uncorrected Latency"), "{shown}");
    assert!(own.contains("Response time") && own.contains("Verdict: "), "{shown}");
}

/// Regression: the results of earlier runs were lost if one run of a sweep failed.
#[test]
fn a_sweep_tells_of_the_runs_before_the_one_that_failed() {
    let bench = TestFixture::start();
    let script = "function setup()
            local file = io.open(FOLDER .. '/runs', 'a+')
            file:write('x')
            file:seek('set')
            if #file:read('*a') == 2 then error('the second run') end
            file:close()
        end
        function done() print('done was called') end";
    let html = bench.file("r.html");
    let flags = ["-d", "1s", "-c", "1,3,5", "--html", &html, "--json"];
    let output = bench.load(script, &flags);
    failed(&output, 1, "with 3 connections: script error: ");
    let shown = text(&output.stdout);
    let (json, after) = shown.split_once('\n').unwrap();
    let sweep: Value = serde_json::from_str(json).unwrap();
    assert_eq!(sweep["runs"].as_array().unwrap().len(), 1);
    assert_eq!(sweep["runs"][0]["connections"], 1);
    assert!(sweep["failures"][0].as_str().unwrap().contains("the second run"), "{sweep}");
    assert!(sweep["runs"][0]["account"]["phases"].is_array(), "the account was left out");
    assert!(bench.read("r.html").contains("1 connection"));
    assert_eq!(after, "done was called\n");
}

/// Regression: a script that ended its thread ended the sweep too, with exit code 0.
#[test]
fn a_sweep_goes_on_behind_a_run_that_its_script_ends() {
    let bench = TestFixture::start();
    let script = "local left = 1000
        function request()
            left = left - 1
            if left > 0 then return wrk.format() end
        end";
    let flags = ["-d", "10m", "-c", "1,2", "--server-cores", "1", "--json"];
    let sweep = json_of(&bench.load(script, &flags));
    let connections = sweep["runs"].as_array().unwrap().iter().map(|run| &run["connections"]);
    assert_eq!(connections.collect::<Vec<_>>(), [1, 2, 32]);
}

/// Regression: a sweep ignored `--slo`, and never called the script's `done`.
#[test]
fn a_sweep_keeps_its_objectives_and_calls_done() {
    let bench = TestFixture::start();
    let script = "function done(summary)
            local file = io.open(FOLDER .. '/done', 'a')
            file:write(summary.requests > 0 and 'x' or '-')
            file:close()
        end";
    let sweep = |slo: &str| {
        bench.load(
            script,
            &["-d", "1s", "-R", "50", "-c", "1,2", "--server-cores", "1", "--slo", slo],
        )
    };
    let output = sweep("p50=1us");
    failed(&output, 1, "with 1 connections: the objective was missed: ");
    assert!(text(&output.stderr).contains("with 32 connections: "));
    assert!(text(&output.stdout).contains("Recommended: "));
    assert_eq!(bench.read("done"), "xxx");
    assert_eq!(sweep("p50=30s,errors=100%").status.code(), Some(0));
}

/// Regression: a full disk as standard output made the load panic, and was told twice; a closed
/// pipe was a failure.
#[test]
fn a_result_that_cannot_be_printed_is_a_failure_unless_its_reader_has_gone() {
    let bench = TestFixture::start();
    let url = bench.url();
    let short = ["load", "-t", "1", "-d", "200ms", "-R", "50"];
    let kept = bench.path("a.json");
    let output = run(&[&short[..], &["--json", &url]].concat());
    std::fs::write(&kept, &output.stdout).unwrap();
    let kept = kept.to_str().unwrap();
    let html = bench.file("r.html");
    let cases = [
        [&short[..], &["--json", "--html", &html, &url]].concat(),
        [&short[..], &["-L", &url]].concat(),
        [&short[..], &["-c", "1,2", "--json", &url]].concat(),
        [&short[..], &["-c", "1,2", &url]].concat(),
        vec!["compare", kept, kept],
        vec!["compare", kept, kept, "--json"],
    ];
    for arguments in cases {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        for (out, count) in [(Stdio::from(full), 1), (writer.into(), 0)] {
            let mut command = pellucid(&arguments);
            let child = command.stdout(out).stderr(Stdio::piped()).spawn().unwrap();
            let output = child.wait_with_output().unwrap();
            let errors = text(&output.stderr);
            // On a busy machine, the run may fail for another reason: without an answer.
            let is_failed = output.status.code() == Some(1);
            assert!(is_failed || count == 0 && output.status.success(), "{arguments:?}: {errors}");
            let reports = errors.matches("cannot write to standard output").count();
            assert_eq!(reports, count, "{arguments:?}: {errors}");
        }
    }
    assert!(bench.read("r.html").contains("Percentiles"), "the report is written all the same");
}

/// Like wrk, the load accepts `-T5`, and arguments of the script after the URL.
#[test]
fn the_short_timeout_and_arguments_without_dashes_are_taken() {
    let bench = TestFixture::start();
    let script = "function init(args)
            assert(args[0]:find('/v0/status', 1, true))
            local file = io.open(FOLDER .. '/arguments', 'w')
            file:write(table.concat(args, ','))
            file:close()
        end";
    let url = bench.url();
    let load = |more: &[&str]| {
        let flags = ["load", "-t1", "-c2", "-d1", "-T5", "-s", &bench.file("test.lua"), &url];
        run(&[&flags[..], more].concat())
    };
    assert_eq!(bench.load(script, &["-d", "1s"]).status.code(), Some(0));
    for arguments in [&["1", "two"][..], &["--", "1", "two"]] {
        done(&load(arguments));
        assert_eq!(bench.read("arguments"), "1,two");
    }
    fails(&["load", "-d", "1s", &url, "1"], 2, "");
}
