//! Tests of the load generator's command line beyond that of wrk: verdicts, bars, files, searches,
//! sweeps and comparisons.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{
    TestServer, done, failed, fails, json_of, pellucid, run, serve, signal, spawn, stub_server,
    text, wait_until,
};
use pellucid_clock::Clock;
use serde_json::Value;
use tempfile::TempDir;

fn url(server: &TestServer) -> String {
    server.url() + "/v0/status"
}

/// The beginnings of the headings of the charts of a load on Pellucid.
const CHARTS: [&str; 8] = [
    "Percentiles",
    "Heat map",
    "The way of requests around percentiles",
    "The way of the slowest requests",
    "What ran in the server",
    "What the server",
    "Errors and backlog",
    "Throughput",
];

#[test]
fn a_run_ends_with_a_verdict_and_leaves_its_files() {
    let (folder, server) = serve(&[]);
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (html, hgrm, hlog) = (file("r.html"), file("r.hgrm"), file("r.hlog"));
    let flags = ["load", "-t", "1", "-c", "4", "-d", "1s", "-R", "300", "-H", "X-Note: two words"];
    let files = ["--html", &html, "--hgrm", &hgrm, "--hlog", &hlog];
    let output = run(&[&flags[..], &files, &[&url(&server)]].concat());
    let shown = done(&output);
    assert!(shown.contains("  Verdict: "), "{shown}");
    let page = std::fs::read_to_string(&html).unwrap();
    // The command can be given again.
    for part in ["Verdict: ", "-H &#39;X-Note: two words&#39; --html", "Kernel"] {
        assert!(page.contains(part), "{part}");
    }
    let figures = page.split("<figure").skip(1).map(|text| text.split("</figure>").next().unwrap());
    let figures: Vec<&str> = figures.filter(|figure| figure.contains("<td")).collect();
    for chart in CHARTS {
        let heading = format!("<h3>{chart}");
        assert!(figures.iter().any(|figure| figure.contains(&heading)), "{heading}");
    }
    assert!(std::fs::read_to_string(&hgrm).unwrap().contains("#[Mean"));
    let log = std::fs::read_to_string(&hlog).unwrap();
    assert!(log.contains("#[StartTime: ") && log.contains("HISTF"), "{log}");
}

#[test]
fn files_that_cannot_be_written_are_told_before_or_after_the_run() {
    let (folder, server) = serve(&[]);
    let load =
        |flags: &[&str]| run(&[&["load", "-t", "1", "-d", "1s"], flags, &[&url(&server)]].concat());
    failed(&load(&["--html", "/nowhere/r.html"]), 2, "/nowhere/r.html");
    // A device that is always full.
    let full = load(&["--html", "/dev/full"]);
    failed(&full, 1, "/dev/full");
    assert!(text(&full.stdout).contains("Requests/sec"), "the figures are on the terminal");
    // Regression: a load that never began left an empty file.
    let new = folder.path().join("new.html");
    fails(&["load", "--html", new.to_str().unwrap(), "http://127.0.0.1:1"], 1, "unable to connect");
    assert!(!new.exists());
}

#[test]
fn objectives_decide_the_exit_code() {
    let (_folder, server) = serve(&[]);
    let load =
        |slo: &str| run(&["load", "-t", "1", "-d", "1s", "-R", "20", "--slo", slo, &url(&server)]);
    assert_eq!(load("p50=30s,errors=100%").status.code(), Some(0));
    failed(&load("p50=1us"), 1, "the objective was missed: ");
    failed(&load("p50"), 2, "p99=5ms");
    fails(&["load", "--find-max", &url(&server)], 2, "--slo");
}

#[test]
fn a_description_of_work_is_run_and_its_mistakes_are_told_with_their_line() {
    let (folder, server) = serve(&[]);
    let file = folder.path().join("work.toml");
    let root = server.url();
    // The one in the documentation is whole.
    let documented = include_str!("../../../../docs/load.md").split("```toml").nth(1).unwrap();
    let documented = documented.split("```").next().unwrap();
    std::fs::write(&file, documented).unwrap();
    let flags = ["load", "--json", "-d", "1s", "-R", "100", "--warm-up", "0s", "--work"];
    let output = run(&[&flags[..], &[file.to_str().unwrap(), &root]].concat());
    assert!(json_of(&output)["requests"].as_u64().unwrap() > 0);
    std::fs::write(&file, format!("shine = true{documented}")).unwrap();
    let broken = run(&["load", "--work", file.to_str().unwrap(), &root]);
    failed(&broken, 2, "work.toml:1: unknown field");
    let work = "[load]\nthreads = 1\nconnections = 4\nrate = 200\nduration = '1s'\n\
        [keys]\ncount = 10\ndistribution = 'zipf'\n\
        [[operation]]\nname = 'write'\nmethod = 'PUT'\npath = '/v0/entity?id={key}'\n\
        value = { size = [10, 50] }\nexpect = { status = ['2xx'] }\n\
        [[operation]]\nname = 'read'\npath = '/v0/entity?id={key}'\n\
        expect = { status = [200, 404] }\n";
    std::fs::write(&file, work).unwrap();
    let output = run(&["load", "--json", "--work", file.to_str().unwrap(), &root]);
    let result = json_of(&output);
    assert_eq!(result["rate_per_second"], 200);
    let names: Vec<&str> = result["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|operation| operation["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["write", "read"]);
    assert_eq!((&result["errors"]["check"], &result["errors"]["status"]), (&0.into(), &0.into()));
    assert!(result["verdict"]["name"].is_string() && !result["timeline"][0].is_null());
    assert!(result["account"]["phases"].is_array(), "{}", result["account"]);
}

#[test]
fn an_interrupt_keeps_the_results_so_far() {
    let answered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&answered);
    let url = answering(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let folder = TempDir::new().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (html, hgrm) = (file("r.html"), file("r.hgrm"));
    let files = ["--html", &html, "--hgrm", &hgrm];
    let mut command = pellucid(&[&["load", "-t", "1", "-d", "10m"], &files[..], &[&url]].concat());
    let child = spawn(&mut command);
    // With so many answers, each of the ten connections is likely to have had one.
    wait_until(|| answered.load(Ordering::SeqCst), |answers| *answers >= 100);
    signal(&child, libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    let shown = done(&output);
    assert!(shown.starts_with("Running 10m test"), "{shown}");
    for part in ["Requests/sec", "Stopped early", "Verdict"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // The files have the results so far too.
    assert!(std::fs::read_to_string(&html).unwrap().contains("Verdict: "));
    assert!(std::fs::read_to_string(&hgrm).unwrap().contains("#[Mean"));
}

#[test]
fn a_sweep_compares_numbers_of_connections() {
    let (_folder, server) = serve(&[]);
    let arguments = ["load", "-d", "1s", "-R", "200", "-c", "1,3", "--server-cores", "20"];
    let output = run(&[&arguments[..], &["-L", &url(&server)]].concat());
    let shown = done(&output);
    assert!(shown.contains("Recommended: ") && shown.contains("wait p99"), "{shown}");
    for connections in [1, 3, 40] {
        assert!(shown.contains(&format!("\n{connections} connections:\n")), "{shown}");
    }
    assert_eq!(shown.matches("Detailed Percentile spectrum").count(), 3, "{shown}");
    assert!(shown.contains("The rule max(32, 2 × server's cores) = "), "{shown}");
    let sweep = json_of(&run(&[&arguments[..], &["--json", &url(&server)]].concat()));
    assert_eq!(sweep["schema"], "pellucid.sweep.v1");
    assert_eq!(sweep["runs"][1]["connections"], 3);
    // The number of connections that the rule recommends is tried too.
    assert_eq!(sweep["runs"][2]["connections"], 40);
    assert_eq!(sweep["rule"]["connections"], 40);
    assert!(sweep["rule"]["holds"].is_boolean(), "{}", sweep["rule"]);
}

/// Regression: the server's account of a run contained the end of the run before.
#[test]
fn the_account_of_a_run_of_a_sweep_holds_no_other_run() {
    let (_folder, server) = serve(&[]);
    let url = server.url() + "/v0/entity?id=1";
    let flags = ["load", "-t", "1", "-d", "1s", "-c", "1,2", "--server-cores", "1", "--accept"];
    let sweep = json_of(&run(&[&flags[..], &["404", "--json", &url]].concat()));
    let runs = sweep["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        let [count, answered, cut] =
            [&run["account"]["count"], &run["requests"], &run["unanswered"]]
                .map(|number| number.as_u64().unwrap());
        assert!(count > 0 && count <= answered + cut, "{count} {answered} {cut}");
    }
}

/// Starts a server that calls `note` for every request, and then answers it.
fn answering(note: impl Fn() + Send + Sync + 'static) -> String {
    stub_server(move |mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
            if line == "\r\n" {
                note();
                let sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                if sent.is_err() {
                    return;
                }
            }
            line.clear();
        }
    })
}

/// Regression: the credentials of a load stood in its results.
#[test]
fn results_are_without_credentials() {
    let url = answering(|| {});
    let folder = TempDir::new().unwrap();
    let html = folder.path().join("r.html");
    let flags = ["load", "-t", "1", "-d", "1s", "-R", "50", "--json", "-Hcookie: id=s3cret"];
    let header = ["-H", "Authorization: Bearer s3cret", "--html", html.to_str().unwrap()];
    let output = run(&[&flags[..], &header, &[&url]].concat());
    let result = json_of(&output);
    assert_eq!(result["url"], url);
    let command = result["command"].as_str().unwrap();
    assert!(command.contains(" -H 'Authorization: …' --html "), "{command}");
    for written in [text(&output.stdout), &std::fs::read_to_string(&html).unwrap()] {
        assert!(written.contains("Authorization: …") && !written.contains("s3cret"), "{command}");
    }
}

/// The precision of the search is tested in virtual time (`find_max.rs`). This test checks that the
/// command ends with a rate and its files. The server has a limit and the objective is generous, so
/// that there is a rate to find.
#[test]
fn the_search_finds_a_rate_and_says_so() {
    let next = Mutex::new(Instant::now());
    let url = answering(move || {
        let slot = {
            let mut next = next.lock().unwrap();
            *next = (*next).max(Instant::now()) + Duration::from_millis(10);
            *next
        };
        std::thread::sleep(slot.saturating_duration_since(Instant::now()));
    });
    let arguments = ["load", "--find-max", "--quick", "--slo", "p50=20s,errors=100%", "-t", "1"];
    let folder = TempDir::new().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (html, hgrm, hlog) = (file("r.html"), file("r.hgrm"), file("r.hlog"));
    let files = ["--html", &html, "--hgrm", &hgrm, "--hlog", &hlog];
    // The search exceeds the time limit of other commands, so this one has none.
    let command = [&arguments[..], &files[..], &["--json", &url]].concat();
    let output = pellucid(&command).output().unwrap();
    let knee = json_of(&output);
    // Regression: the files were left empty; they must be those of the run that confirmed the rate.
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("Highest stable rate: ") && page.contains("Percentiles"));
    assert!(std::fs::read_to_string(&hgrm).unwrap().contains("#[Mean"));
    assert!(std::fs::read_to_string(&hlog).unwrap().contains("HISTF"));
    assert_eq!(knee["failure"], Value::Null);
    assert_eq!(knee["schema"], "pellucid.knee.v1");
    assert!(knee["rate_per_second"].as_f64().unwrap() >= 1.0, "{knee}");
    assert_eq!(knee["found_per_second"].as_array().unwrap().len(), 1);
    assert!(knee["trials"].as_array().unwrap().len() > 2);
    assert!(knee["phases"][0]["phase"].is_string(), "{knee}");
}

fn result_of(server: &TestServer, folder: &Path, name: &str, rate: &str) -> String {
    let output = run(&["load", "--json", "-t", "1", "-d", "1s", "-R", rate, &url(server)]);
    let path = folder.join(name);
    std::fs::write(&path, &output.stdout).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn two_results_are_compared_and_bars_decide_the_exit_code() {
    let (folder, server) = serve(&[]);
    let before = result_of(&server, folder.path(), "a.json", "1000");
    let after = result_of(&server, folder.path(), "b.json", "200");
    server.stop();
    let output = run(&["compare", &before, &after]);
    let shown = done(&output);
    assert!(shown.contains("p99") && shown.contains("Throughput fell by"), "{shown}");
    let with = |bars: &str, more: &[&str]| {
        run(&[&["compare", &before, &after, "--fail-if", bars], more].concat())
    };
    assert_eq!(with("throughput<-99%,errors>90%", &[]).status.code(), Some(0));
    failed(&with("throughput<-20%", &[]), 1, "throughput<-20%");
    failed(&with("p99>10%", &[]), 2, "p99>+10%");
    let json = with("throughput<-20%", &["--json"]);
    let compared: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(compared["schema"], "pellucid.compare.v1");
    assert_eq!(compared["crossed"].as_array().unwrap().len(), 1);
    assert!(compared["sections"][0]["phases"].as_array().unwrap().len() > 3);
    assert_eq!(compared["sections"][0]["phases_of"], "server");
    let curve = compared["sections"][0]["quantiles"].as_array().unwrap();
    assert!(curve.len() > 15 && curve.iter().all(|point| point["after_ns"]["high"].is_number()));
    // Without the server's account, the comparison uses the ways that the client recorded.
    let mut foreign: Value = serde_json::from_slice(&std::fs::read(&after).unwrap()).unwrap();
    foreign["account"] = Value::Null;
    let other = folder.path().join("foreign.json");
    std::fs::write(&other, foreign.to_string()).unwrap();
    let json = json_of(&run(&["compare", &before, other.to_str().unwrap(), "--json"]));
    assert_eq!(json["sections"][0]["phases_of"], "way_around_p50");
    let steps = json["sections"][0]["phases"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["name"] == "server: parse"), "{steps:?}");
    // An interrupted result, and one that lacks a section, cannot meet a bar.
    let mut halved: Value = serde_json::from_slice(&std::fs::read(&after).unwrap()).unwrap();
    halved["stopped_early"] = Value::Bool(true);
    std::fs::write(&other, halved.to_string()).unwrap();
    let halved = ["compare", &before, other.to_str().unwrap()];
    let shown = run(&halved);
    let reason = "ended before its time (it was given up, or an interrupt or its script ended it)";
    assert!(done(&shown).contains(reason));
    failed(&run(&[&halved[..], &["--fail-if", "p99>9h"]].concat()), 2, "p99>9h");
    failed(&run(&[&halved[..], &["--fail-if", "p99>9s"]].concat()), 1, "its script ended it");
    // Regression: errors were divided by the answers alone, so that a share was infinite or above
    // one, and a connection that broke counted as one request.
    let mut dying: Value = serde_json::from_slice(&std::fs::read(&after).unwrap()).unwrap();
    dying["unanswered"] = dying["requests"].clone();
    dying["failed_requests"] = dying["requests"].clone();
    dying["errors"]["read"] = 1.into();
    std::fs::write(&other, dying.to_string()).unwrap();
    let command = ["compare", &before, other.to_str().unwrap(), "--json"];
    let shares = &json_of(&run(&command))["sections"][0]["error_share"];
    assert_eq!(shares, &serde_json::json!([0.0, 0.5]));
    let bars = "p50>+1%,p95>+1%,p97.5>+1%,p99>+1%,mean>+1%";
    done(&run(&["compare", &before, &before, "--fail-if", bars]));
    fails(&["compare", &before, "/nowhere.json"], 2, "/nowhere.json");
    let nonsense = folder.path().join("n.json");
    std::fs::write(&nonsense, "{}").unwrap();
    fails(&["compare", &before, nonsense.to_str().unwrap()], 2, "pellucid.load.v1");
}

/// Regression: a number of connections that only one of two sweeps had was ignored by the
/// comparison.
#[test]
fn a_section_of_only_one_file_is_named_and_fails_the_bar() {
    let (folder, server) = serve(&[]);
    let result = result_of(&server, folder.path(), "a.json", "500");
    server.stop();
    let mut run_of: Value = serde_json::from_slice(&std::fs::read(&result).unwrap()).unwrap();
    let mut sweep = |name: &str, connections: &[u64]| {
        let runs = connections.iter().map(|number| {
            run_of["connections"] = (*number).into();
            run_of.clone()
        });
        let runs: Vec<Value> = runs.collect();
        let path = folder.path().join(name);
        let document = serde_json::json!({ "schema": "pellucid.sweep.v1", "runs": runs });
        std::fs::write(&path, document.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (whole, half) = (sweep("whole.json", &[1, 10]), sweep("half.json", &[1]));
    let told = run(&["compare", &whole, &half]);
    assert!(done(&told).contains("10 connections\n  only in "), "{}", done(&told));
    let json = json_of(&run(&["compare", &half, &whole, "--json"]));
    assert_eq!(json["only_in_one"][0]["name"], "10 connections");
    fails(&["compare", &whole, &half, "--fail-if", "p99>+10%"], 1, "10 connections is only");
    done(&run(&["compare", &whole, &whole, "--fail-if", "p99>+10%"]));
}

/// The client's and the server's phases are joined for each request: the steps of a request's way
/// add up to its response time, and include the server's phases.
#[test]
fn the_way_of_a_request_holds_the_servers_phases_and_adds_up() {
    let (_folder, server) = serve(&[]);
    let url = server.url() + "/v0/entity?id=1";
    server.client().put("/v0/entity?id=1", b"value");
    let load = |more: &[&str]| {
        let flags = ["load", "-t", "1", "-c", "2", "-d", "2s", "-R", "400", "--around", "95"];
        run(&[&flags[..], more, &[&url]].concat())
    };
    let result = json_of(&load(&["--json"]));
    let ways = &result["ways"];
    assert!(ways["told_by_server"].as_u64().unwrap() > 0, "{ways}");
    let slowest = ways["slowest"].as_array().unwrap();
    let around = ways["around"].as_array().unwrap();
    assert!(around.iter().any(|way| way["percentile"] == 95.0));
    let (mut placed, mut told) = (0, 0);
    for (way, whole) in slowest
        .iter()
        .map(|w| (w, "response_ns"))
        .chain(around.iter().map(|w| (w, "response_mean_ns")))
    {
        let steps = way["steps"].as_array().unwrap();
        let sum: f64 = steps.iter().map(|step| step["ns"].as_f64().unwrap()).sum();
        let whole = way[whole].as_f64().unwrap();
        assert!((sum - whole).abs() < whole * 0.01 + 1_000.0, "{sum} {way}");
        let names: Vec<&str> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
        // A server may be done while the generator, which lost its processor, is still sending.
        told += usize::from(names.iter().any(|name| name.starts_with("server: ")));
        // Both sides share one machine and its clock, so both directions of the network are known.
        if way["placed_by_clock"] == true || way["placed_by_clock"] == way["requests"] {
            assert_eq!(way["server_placement_uncertainty_ns"], 0.0, "{way}");
            assert!(names.contains(&"network and kernel, back"), "{names:?}");
            assert!(!names.contains(&"network and kernel"), "{names:?}");
            placed += 1;
        }
    }
    let all = around.len() + slowest.len();
    assert!(placed * 2 > all && told * 2 > all, "{placed} placed, {told} told: {ways}");
    assert_eq!(result["machine"]["clock"]["source"], Clock::system().source().name());
    let command = result["command"].as_str().unwrap();
    assert!(command.ends_with(&format!(" --json '{url}'")), "{command}");
    let background = result["background"].as_array().unwrap();
    assert!(background.len() >= 2 && background[0]["flushes_ns"].is_number(), "{background:?}");
    let shown = load(&[]);
    let text = text(&shown.stdout);
    assert!(text.contains("around p95") && text.contains("server: execute"), "{text}");
    assert!(text.contains("the server told its part of"), "{text}");
    // With `--no-timing` the server sends no phases, and the client reports only its own.
    let silent = json_of(&load(&["--json", "--no-timing"]));
    assert_eq!(silent["ways"]["told_by_server"], 0);
    assert!(silent["ways"]["slowest"][0]["steps"][0]["name"].is_string());
    assert_eq!(silent["background"], Value::Array(Vec::new()));
}

#[test]
fn a_server_at_the_file_of_a_socket_is_loaded_as_one_at_a_port_is() {
    let folder = TempDir::new().unwrap();
    let at = format!("unix:{}", folder.path().join("socket").display());
    let server = TestServer::start(&folder.path().join("data"), &["--listen", &at]);
    let url = format!("{at}:/v0/status");
    let script = folder.path().join("address.lua");
    let text = "function setup(thread)
        assert(wrk.connect(wrk.addrs[1]) and wrk.host == 'localhost')
        thread.addr = wrk.addrs[1]
    end";
    std::fs::write(&script, text).unwrap();
    let ways: [&[&str]; 6] = [
        &[],
        &["-R", "300"],
        &["-R", "300", "--pacing", "wrk2"],
        &["--http2"],
        &["--no-keep-alive"],
        &["-s", script.to_str().unwrap()],
    ];
    for way in ways {
        let flags = ["load", "--json", "-t", "1", "-c", "4", "-d", "1s", "-T", "60s"];
        let result = json_of(&run(&[&flags[..], way, &[&url]].concat()));
        assert!(result["requests"].as_u64().unwrap() > 0, "{way:?}");
        let mut errors = result["errors"].as_object().unwrap().values();
        assert!(errors.all(|count| count == 0), "{way:?}: {}", result["errors"]);
        assert_eq!(result["url"], url);
    }
    fails(&["load", "--direct", &at], 2, "over TCP");
    server.stop();
    fails(&["load", "-d", "1s", &url], 1, "unable to connect to unix:");
}

#[test]
fn a_long_run_tells_of_its_progress_in_plain_lines() {
    let (_folder, server) = serve(&[]);
    let output = run(&["load", "-t", "1", "-c", "1", "-d", "8s", "-R", "50", &url(&server)]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let lines: Vec<&str> = errors.lines().filter(|line| line.contains(" answers, ")).collect();
    // The first line comes after five seconds, on a busy machine later.
    assert_eq!(lines.len(), 1, "{errors}");
    let (seconds, _) = lines[0].trim_start().split_once(" s: ").unwrap();
    assert!((4..=8).contains(&seconds.parse::<u32>().unwrap()), "{errors}");
    assert!(!errors.contains('\r'), "{errors}");
}

/// For each misbehaviour of a server there is a clear message and an exit code, but no panic.
#[test]
fn misbehaving_servers_are_reported() {
    let load_within = |timeout: &str, url: &str| {
        run(&["load", "-t", "1", "-c", "2", "-d", "2s", "--timeout", timeout, url])
    };
    let load = |url: &str| load_within("60s", url);
    failed(&load("http://127.0.0.1:1/"), 1, "unable to connect to 127.0.0.1:1");
    let silent = stub_server(|stream| {
        std::thread::sleep(Duration::from_secs(20));
        drop(stream);
    });
    failed(&load_within("200ms", &silent), 1, "no answer within the timeout");
    let resetting = stub_server(|mut stream| {
        let _ = stream.read(&mut [0; 10]);
    });
    failed(&load(&resetting), 1, "no request was answered: read: ");
    let malformed = stub_server(|mut stream| {
        let _ = stream.read(&mut [0; 1_000]);
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
        std::thread::sleep(Duration::from_millis(100));
    });
    failed(&load(&malformed), 1, "no HTTP/1 status line");
    failed(&load("ftp://127.0.0.1/"), 2, "only http://, https:// and unix:");
    let rate = |rate: &str| run(&["load", "-R", rate, "http://127.0.0.1:1/"]);
    failed(&rate("0"), 2, "at least 1 request per second");
    failed(&rate("2G"), 2, "at most 1G requests per second");
    failed(&rate("fast"), 2, "fast");
}

#[test]
fn with_http2_and_an_untrusted_server_the_flags_are_told() {
    fails(&["load", "--streams", "5", "http://127.0.0.1:1/"], 2, "--http2");
    fails(&["load", "--ca", "/nowhere.pem", "https://127.0.0.1:1/"], 2, "/nowhere.pem");
    fails(&["load", "-s", "/nowhere.lua", "http://127.0.0.1:1/"], 2, "/nowhere.lua");
}
