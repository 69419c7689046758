//! The contract of the command line that scripts rely on: exit codes, outputs and settings.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{
    TestServer, done, ended_by, entity, failed, fails, finish, json_of, pellucid, run, serve,
    spawn, text, wait_until,
};
use serde_json::Value;
use tempfile::TempDir;

/// The offsets of the format version and of the checksum in the header of a file of the store
/// (docs/format.md).
const VERSION_OFFSET: usize = 8;
const HEADER_SUM_OFFSET: usize = 60;

/// The crc32c of `bytes`, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let shift = |sum: u32| (sum >> 1) ^ ((sum & 1) * 0x82f6_3b78);
    let add = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), |sum, _| shift(sum));
    !bytes.iter().fold(u32::MAX, add)
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_is_right() {
    fails(&[], 2, "Usage: pellucid");
    fails(&["polish"], 2, "unrecognized subcommand");
    fails(&["serve", "--data", "x", "--shine"], 2, "--shine");
    fails(&["serve", "--data", "x", "--listen", "here"], 2, "--listen");
    fails(&["serve", "--data", "x", "--sync", "never"], 2, "disk");
    fails(&["serve", "--data", "x", "--threads", "0"], 2, "--threads");
    // Regression: a server without connections started and served nobody.
    for flag in [
        "--head-max",
        "--headers-max",
        "--connections-max",
        "--connections-per-address-max",
        "--connections-of-loopback-max",
        "--requests-in-flight-max",
        "--idle-timeout",
        "--exchange-timeout",
    ] {
        let zero = if flag.ends_with("timeout") { "0s" } else { "0" };
        fails(&["serve", "--data", "x", flag, zero], 2, &format!("{flag} is above zero"));
    }
    fails(&["serve", "--data", "x", "--accounting", "half"], 2, "ring");
    fails(&["serve", "--data", "x", "--memory", "lots"], 2, "64M");
    fails(&["serve", "--config", "/nowhere.toml"], 2, "/nowhere.toml");
    fails(&["query", "http://127.0.0.1:1", "RETURN 1", "--patience", "0"], 2, "--patience");
    fails(&["load"], 2, "<URL>");
    fails(&["load", "nonsense"], 2, "http://");
    // Regression: it was taken for a folder without accounts.
    fails(&["account", "list", "--data", "/nowhere"], 2, "/nowhere is no folder");
    fails(&["load", "-c", "x", "http://127.0.0.1:1"], 2, "-c");
    fails(&["load", "-c", "1", "-t", "2", "http://127.0.0.1:1"], 2, "connections");
    // Regression: the error blamed the number of threads.
    fails(&["load", "-c", "5,0", "http://127.0.0.1:1"], 2, "number of connections");
    // Regression: it made a token that had ended.
    fails(&["account", "token", "add", "a", "b", "--days", "0", "--data", "x"], 2, "--days");
    fails(&["load", "-d", "long", "http://127.0.0.1:1"], 2, "-d");
    let twice = ["load", "--html", "r", "--hlog", "r", "http://127.0.0.1:1"];
    fails(&twice, 2, "a file of its own");
    fails(&["load", "-H", "no colon", "http://127.0.0.1:1"], 2, "no colon");
    fails(&["demo", "--keys", "0"], 2, "keys");
    fails(&["demo", "--report", "/nowhere/r.html"], 2, "/nowhere/r.html");
}

/// A server without flags has its store in a folder of its user.
#[test]
fn a_server_without_flags_says_where_its_store_is() {
    let folder = TempDir::new().unwrap();
    // Only the port is set, because another server of this machine may have the default one.
    let mut command = pellucid(&["serve"]);
    command.env("HOME", folder.path()).env_remove("XDG_DATA_HOME");
    command.env("PELLUCID_LISTEN", "127.0.0.1:0").stderr(Stdio::piped());
    let mut server = TestServer::spawn(command);
    let store = folder.path().join(".local/share/pellucid");
    let line = BufReader::new(server.stderr()).lines().next().unwrap().unwrap();
    assert!(line.contains(store.to_str().unwrap()) && line.contains("--data"), "{line}");
    assert_eq!(server.client().put(&entity("k"), "v").status, 201);
    server.stop();
    assert!(store.join("accounts.json").exists() || store.read_dir().unwrap().count() > 0);
    let mut printed = pellucid(&["serve", "--print-config"]);
    printed.env("XDG_DATA_HOME", "/some/folder");
    let printed = finish(printed);
    assert!(text(&printed.stdout).contains("data = \"/some/folder/pellucid\""));
    let mut homeless = pellucid(&["serve"]);
    homeless.env_remove("HOME").env_remove("XDG_DATA_HOME");
    failed(&finish(homeless), 2, "--data");
}

#[test]
fn a_failed_start_names_its_cause_and_cure() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let serve = |data| ["serve", "--listen", "127.0.0.1:0", "--data", data];
    // The kernel lets nobody create a folder there, not even root.
    fails(&serve("/sys/pellucid"), 1, "use another folder");
    // A file has the path of the folder, or of a parent of it.
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let below = format!("{file}/data");
    for path in [file, &below] {
        fails(&serve(path), 1, "a file is in the way; use another folder");
        fails(&["doctor", "--data", path], 1, "see folder");
    }
    // The header of the manifest has the number of a later version, and a valid checksum.
    TestServer::start(Path::new(data), &[]).stop();
    let is_manifest = |path: &PathBuf| path.to_str().unwrap().to_lowercase().contains("manifest");
    let files = std::fs::read_dir(data).unwrap().map(|file| file.unwrap().path());
    let manifest = files.filter(is_manifest).max().unwrap();
    let present = std::fs::read(&manifest).unwrap();
    let mut bytes = present.clone();
    bytes[VERSION_OFFSET] += 1;
    let sum = crc32c(&bytes[..HEADER_SUM_OFFSET]).to_le_bytes();
    bytes[HEADER_SUM_OFFSET..][..sum.len()].copy_from_slice(&sum);
    std::fs::write(&manifest, &bytes).unwrap();
    fails(&serve(data), 1, "newer release");
    fails(&["inspect", data, "rebuild-ledger"], 1, "newer release");
    assert_eq!(std::fs::read(&manifest).unwrap(), bytes);
    std::fs::write(&manifest, &present).unwrap();
    // The limits of the process allow hardly any descriptors, or no large files.
    let new = folder.path().join("new");
    for (limit, data, cure) in
        [("-n 9", data, "LimitNOFILE"), ("-f 100", new.to_str().unwrap(), "LimitFSIZE")]
    {
        let mut scarce = Command::new("/bin/sh");
        let script = format!("ulimit {limit} && exec \"$@\"");
        let program = env!("CARGO_BIN_EXE_pellucid");
        scarce.args(["-c", &script, "sh", program]).args(serve(data));
        failed(&finish(scarce), 1, cure);
    }
    let mut scarce = Command::new("/bin/sh");
    let program = env!("CARGO_BIN_EXE_pellucid");
    scarce.args(["-c", "ulimit -f 1 && exec \"$@\"", "sh", program, "man", data]);
    failed(&finish(scarce), 1, "");
    TestServer::start(Path::new(data), &[]).stop();
}

/// Creates a folder with the files in which the kernel of some machine would describe it.
fn machine(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    root
}

fn doctor(root: &TempDir, data: &str) -> (Option<i32>, Vec<Value>) {
    let root = root.path().to_str().unwrap();
    let output = run(&["doctor", "--json", "--root", root, "--data", data]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "pellucid.doctor.v1");
    (output.status.code(), document["checks"].as_array().unwrap().clone())
}

/// Removes the checks of the folder, whose outcome depends on this machine.
fn without_folder(checks: Vec<Value>) -> Vec<Value> {
    let is_machine = |check: &Value| !["folder", "room"].contains(&check["name"].as_str().unwrap());
    checks.into_iter().filter(is_machine).collect()
}

const GOOD_LIMITS: &str = "Limit Soft Hard Units\n\
    Max open files            1024                 1048576              files\n\
    Max processes             15000                15000                processes\n\
    Max address space         unlimited            unlimited            bytes\n\
    Max file size             unlimited            unlimited            bytes\n";
const POOR_LIMITS: &str = "Max open files 1024 4096 files\n\
    Max processes 500 500 processes\n\
    Max address space 8589934592 unlimited bytes\n\
    Max file size 1073741824 unlimited bytes\n";
const BROKEN_LIMITS: &str = "Max open files 64 64 files\n\
    Max processes 20 20 processes\n\
    Max address space 100000000 100000000 bytes\n\
    Max file size 51200 51200 bytes\n";
const CLOCK: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
const HUGE_PAGES: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const GOVERNOR: &str = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";

#[test]
fn doctor_reports_the_weaknesses_of_a_machine() {
    let good = machine(&[
        ("proc/self/limits", GOOD_LIMITS),
        ("proc/sys/vm/max_map_count", "65530\n"),
        ("proc/self/mountinfo", "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"),
        ("proc/self/cgroup", "0::/a/b\n"),
        ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
        ("proc/swaps", "Filename Type Size Used Priority\n"),
        ("proc/sys/vm/overcommit_memory", "0\n"),
        ("proc/sys/net/core/somaxconn", "4096\n"),
        (CLOCK, "tsc\n"),
        (HUGE_PAGES, "always [madvise] never\n"),
        (GOVERNOR, "performance\n"),
    ]);
    let (code, checks) = doctor(&good, "/var/lib/nothing");
    let checks = without_folder(checks);
    let of = |checks: &[Value], state: &str| {
        let of_state = checks.iter().filter(|check| check["state"] == state);
        of_state.map(|check| check["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((code, of(&checks, "fine").len()), (Some(0), checks.len()), "{checks:?}");
    let poor = machine(&[
        ("proc/self/limits", POOR_LIMITS),
        ("proc/sys/vm/max_map_count", "10000\n"),
        (
            "proc/self/mountinfo",
            "22 1 8:1 / / rw - ext4 /dev/vda rw\n23 22 0:5 / /sys rw - nfs4 host:/ rw\n",
        ),
        ("proc/self/cgroup", "0::/\n"),
        ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
        ("proc/swaps", "Filename Type Size Used Priority\n/dev/vdb partition 1 0 -2\n"),
        ("proc/sys/vm/swappiness", "60\n"),
        ("proc/sys/vm/overcommit_memory", "2\n"),
        ("proc/sys/net/core/somaxconn", "128\n"),
        (CLOCK, "hpet\n"),
        (HUGE_PAGES, "[always] madvise never\n"),
        (GOVERNOR, "powersave\n"),
    ]);
    let (code, checks) = doctor(&poor, "/sys");
    let checks = without_folder(checks);
    assert_eq!((code, of(&checks, "costly").len()), (Some(0), checks.len()), "{checks:?}");
    assert!(checks.iter().all(|check| check["advice"].as_str().unwrap().len() > 20));
    let advice = |name: &str| {
        let check = checks.iter().find(|check| check["name"] == name).unwrap();
        check["advice"].as_str().unwrap()
    };
    assert!(advice("descriptors").contains("3584 connections"));
    assert!(advice("processor quota").contains("--threads 2"));
    let broken = machine(&[
        ("proc/self/limits", BROKEN_LIMITS),
        ("proc/self/mountinfo", "22 1 8:1 / / ro,relatime - ext4 /dev/vda rw\n"),
    ]);
    let (code, checks) = doctor(&broken, "/");
    assert_eq!(code, Some(1));
    let broken = ["descriptors", "threads", "address space", "file size", "file system"];
    assert_eq!(of(&checks, "broken"), broken);
    assert!(of(&checks, "unknown").contains(&"clock source".to_owned()));
    // Regression: the limit of a unit or container was not seen.
    let container = machine(&[
        ("proc/self/limits", GOOD_LIMITS),
        ("proc/self/cgroup", "0::/a/b\n"),
        ("sys/fs/cgroup/a/b/pids.max", "20\n"),
    ]);
    let (code, checks) = doctor(&container, "/");
    assert_eq!(code, Some(1));
    assert!(of(&checks, "broken").contains(&"threads".to_owned()), "{checks:?}");
    // The text output is checked on this machine, whatever its state is.
    let output = run(&["doctor", "--data", "/"]);
    assert!(text(&output.stdout).contains("file system: "), "{}", text(&output.stdout));
}

#[test]
fn help_has_an_example_and_ends_with_0() {
    for command in
        ["serve", "get", "put", "delete", "scan", "query", "doctor", "load", "demo", "compare"]
    {
        let example = format!("Example: pellucid {command}");
        assert!(done(&run(&[command, "--help"])).contains(&example), "{command}");
    }
    done(&run(&["--help"]));
    let version = run(&["--version"]);
    assert_eq!(done(&version), format!("pellucid {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn failed_commands_exit_with_1_and_name_a_cure() {
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = TestServer::start(folder.path(), &[]);
    let address = server.address.to_string();
    let data = other.path().to_str().unwrap();
    fails(&["serve", "--data", data, "--listen", &address], 1, "--listen");
    let taken = folder.path().to_str().unwrap();
    fails(&["serve", "--data", taken, "--listen", "127.0.0.1:0"], 1, taken);
    fails(&["serve", "--data", taken, "--listen", "127.0.0.1:0"], 1, "already open");
    assert_eq!(server.client().get("/v0/status").status, 200, "the first one serves on");
    server.stop();
    fails(&["load", "-d", "1s", &format!("http://{address}")], 1, &address);
    fails(&["load", "-d", "1s", &format!("http://ada:pw@{address}")], 2, "user");
    let file = other.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    fails(&["serve", "--data", file.to_str().unwrap()], 1, "file");
}

fn accounting(server: &TestServer) -> String {
    let snapshot = server.client().get("/_admin/account").json();
    snapshot["accounting"].as_str().unwrap().to_owned()
}

#[test]
fn flags_come_before_the_environment_before_the_file_before_defaults() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let file = folder.path().join("settings.toml");
    let listed = "listen = '127.0.0.1:0'\naccounting = 'off'\nvalue-max = '1K'\n";
    std::fs::write(&file, format!("data = '{}'\n{listed}", data.display())).unwrap();
    let config = ["serve", "--config", file.to_str().unwrap()];

    let by_file = TestServer::spawn(pellucid(&config));
    assert_eq!(accounting(&by_file), "off");
    let mut client = by_file.client();
    assert_eq!(client.put(&entity("k"), [0; 1_024]).status, 201);
    assert_eq!(client.put(&entity("k"), [0; 1_025]).status, 413);
    by_file.stop();

    let mut command = pellucid(&config);
    command.env("PELLUCID_ACCOUNTING", "ring").env("PELLUCID_VALUE_MAX", "2048");
    let by_environment = TestServer::spawn(command);
    assert_eq!(accounting(&by_environment), "ring");
    assert_eq!(by_environment.client().put(&entity("k"), [0; 1_025]).status, 201);
    by_environment.stop();

    let mut command = pellucid(&config);
    command.env("PELLUCID_ACCOUNTING", "ring").args(["--accounting", "full"]);
    let by_flag = TestServer::spawn(command);
    assert_eq!(accounting(&by_flag), "full");
    assert_eq!(by_flag.client().put(&entity("k"), [0; 1_025]).status, 413, "as the file says");
    by_flag.stop();

    let mut command = pellucid(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("PELLUCID_DATA", &data);
    let by_default = TestServer::spawn(command);
    assert_eq!(accounting(&by_default), "full");
    assert_eq!(
        by_default.client().get(&entity("k")).body.len(),
        1_025,
        "the data is that folder's"
    );
    by_default.stop();

    std::fs::write(&file, "shine = true").unwrap();
    fails(&config, 2, "shine");
}

/// With a limit on all bodies below the largest value, such a value would always be answered with
/// 503.
#[test]
fn a_value_that_is_allowed_fits_the_limit_on_bodies() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().to_str().unwrap();
    let arguments = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--value-max", "200M"];
    fails(&[&arguments[..], &["--bodies-max", "199M"]].concat(), 2, "--bodies-max");
    let server = TestServer::start(folder.path(), &["--value-max", "200M"]);
    let mut client = server.client();
    let head = "PUT /v0/entity?id=k HTTP/1.1\r\nHost: a\r\nContent-Length: 209715200\r\n\
                Expect: 100-continue\r\n\r\n";
    client.send(head.as_bytes());
    let mut asked = [0; 25];
    std::io::Read::read_exact(&mut client.socket, &mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    server.kill();
}

#[test]
fn sigint_ends_the_server_as_sigterm_does() {
    let (_folder, mut server) = serve(&[]);
    server.signal(libc::SIGINT);
    assert_eq!(server.wait().code(), Some(0));
}

fn load(server: &TestServer, arguments: &[&str]) -> Output {
    let url = server.url() + "/v0/status";
    run(&[&["load", "-t", "1", "-c", "4", "-d", "1s"], arguments, &[&url]].concat())
}

#[test]
fn load_prints_the_tables_of_wrk_and_wrk2_or_json() {
    let (_folder, server) = serve(&[]);
    let paced = load(&server, &["-R", "400", "-L"]);
    let lines: Vec<&str> = done(&paced).lines().collect();
    assert_eq!(lines[0], format!("Running 1s test @ {}/v0/status", server.url()));
    assert_eq!(lines[1], "  1 threads and 4 connections");
    for beginning in [
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev",
        "    Latency ",
        "    Req/Sec ",
        "  Latency Distribution (HdrHistogram - Recorded Latency)",
        " 50.000% ",
        " 99.999% ",
        "  Detailed Percentile spectrum:",
        "       Value   Percentile   TotalCount 1/(1-Percentile)",
        "#[Mean    = ",
        "Requests/sec: ",
        "Transfer/sec: ",
    ] {
        let found = lines.iter().any(|line| line.starts_with(beginning));
        assert!(found, "{beginning:?} in {}", text(&paced.stdout));
    }
    let free = load(&server, &[]);
    assert!(done(&free).contains(" requests in "));
    assert!(!done(&free).contains("Detailed Percentile"));
    let result = json_of(&load(&server, &["-R", "400", "--json"]));
    assert_eq!(result["schema"], "pellucid.load.v1");
    assert_eq!(result["rate_per_second"], 400);
    assert!(result["requests"].as_u64().unwrap() > 100);
    assert_eq!(result["response_time"]["count"], result["requests"]);
    assert_eq!(result["errors"]["status"], 0);
}

#[test]
fn the_demo_prints_both_loads_and_writes_a_report_that_needs_nothing_else() {
    let folder = TempDir::new().unwrap();
    let temporary = folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = pellucid(&["demo", "--keys", "2000", "--seconds", "1", "--rate", "300"]);
    command.current_dir(folder.path()).env("TMPDIR", &temporary);
    let output = finish(command);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    let (put, get) = shown.split_once("=== GET ===").unwrap();
    let (_, put) = put.split_once("=== PUT ===").unwrap();
    for section in [put, get] {
        for part in ["99.000%", "Requests/sec:", "The server's account", "execute", "unaccounted"] {
            assert!(section.contains(part), "{part} in {section}");
        }
    }
    let report = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    for part in ["PUT of one entry", "GET of one entry", "<svg", "unaccounted", "</html>"] {
        assert!(report.contains(part), "{part}");
    }
    for outside in ["<link", "@import", "src=\"http", "href=\"http", "url(http", "fetch("] {
        assert!(!report.contains(outside), "the report refers to the outside: {outside}");
    }
    let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().collect();
    assert!(left.is_empty(), "the demo's store is gone: {left:?}");
}

/// Regression: only an interrupt ended the server of a demo, and none removed its store. A signal
/// that came twice left the store, too.
#[test]
fn a_demo_that_a_signal_ends_leaves_no_server_and_no_store() {
    for (number, code) in [
        (libc::SIGHUP, Some(1)),
        (libc::SIGTERM, Some(1)),
        (libc::SIGINT, Some(1)),
        // Nothing can remove the store then.
        (libc::SIGKILL, None),
    ] {
        let folder = TempDir::new().unwrap();
        let mut command = pellucid(&["demo", "--keys", "1000", "--keep"]);
        // SAFETY: the call is async-signal-safe. Under `nohup` the tests ignore the signal.
        unsafe {
            command.pre_exec(|| match libc::signal(libc::SIGHUP, libc::SIG_DFL) {
                libc::SIG_ERR => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            })
        };
        let mut demo = spawn(command.current_dir(folder.path()).env("TMPDIR", folder.path()));
        let mut line = String::new();
        BufReader::new(demo.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("A server is up at http://").unwrap();
        let address: SocketAddr = address.strip_suffix("/.").unwrap().parse().unwrap();
        assert_eq!(ended_by(&mut demo, number), code);
        wait_until(|| TcpStream::connect(address).is_err(), |is_gone| *is_gone);
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.is_empty(), code.is_some(), "{left:?}");
    }
}
