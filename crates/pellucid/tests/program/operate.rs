//! Tests of the tasks of an operator: configuration, accounts and supervision.

mod data;
#[cfg(feature = "parquet")]
mod parquet;
mod transfer;
mod unix;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{
    TestServer, account, done, entity, failed, fails, finish, json_of, pellucid, request, run,
    wait_until,
};
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn the_settings_in_force_are_printed_with_their_sources_and_can_be_read_again() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("settings.toml");
    std::fs::write(&file, "data = 'here'\nvalue-max = '1K'\n").unwrap();
    let mut command = pellucid(&["serve", "--print-config", "--config", file.to_str().unwrap()]);
    command.env("PELLUCID_ACCOUNTING", "ring").args(["--threads", "3"]);
    let output = finish(command);
    let printed = done(&output).to_owned();
    let line = |name: &str| {
        let named = |line: &&str| line.strip_prefix(name).is_some_and(|l| l.starts_with(" ="));
        printed.lines().find(named).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("threads"), "threads = 3 # flag");
    assert_eq!(line("accounting"), "accounting = \"ring\" # environment");
    assert_eq!(line("value-max"), format!("value-max = \"1K\" # {}", file.display()));
    assert_eq!(line("batch-max"), "batch-max = \"64M\" # default");
    let again = folder.path().join("again.toml");
    std::fs::write(&again, &printed).unwrap();
    let output = run(&["serve", "--print-config", "--config", again.to_str().unwrap()]);
    assert!(done(&output).contains("accounting = \"ring\""));
    assert!(done(&run(&["serve", "--print-config=example"])).contains("#value-max = \"64M\""));
}

#[test]
fn a_file_that_is_wrong_is_refused_by_name_and_line() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("settings.toml");
    let name = file.to_str().unwrap();
    for (content, expected) in [
        ("data = 'x'\nshine = true", "line 2: unknown field `shine`"),
        ("\n\nthreads = 'two'", "line 3: `threads`"),
    ] {
        std::fs::write(&file, content).unwrap();
        let output = run(&["serve", "--config", name]);
        [name, expected].into_iter().for_each(|what| failed(&output, 2, what));
    }
}

#[test]
fn addresses_beyond_loopback_need_accounts_and_tls_or_an_explicit_opt_out() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let serve = ["serve", "--listen", "0.0.0.0:0", "--data", data.to_str().unwrap()];
    let refused = |arguments: &[&str], expected: &str| {
        fails(&[&serve[..], arguments].concat(), 1, expected);
    };
    refused(&[], "--insecure-no-accounts");
    refused(&["--insecure-no-accounts"], "--insecure-no-tls");
    refused(&["--insecure-no-tls"], "--insecure-no-accounts");
    refused(&["--insecure-no-tls", "--authentication", "off"], "--insecure-no-accounts");
    assert!(!data.exists(), "nothing was made");
    done(&account(&data, &["add", "ada", "--admin"], "secret\n"));
    refused(&[], "--insecure-no-tls");
    drop(TestServer::spawn(pellucid(&[&serve[..], &["--insecure-no-tls"]].concat())));
}

#[test]
fn accounts_are_added_and_removed_while_the_server_runs() {
    let folder = TempDir::new().unwrap();
    let data = folder.path();
    done(&account(data, &["add", "ada", "--grant", "table/entities=read"], "secret\n"));
    let token = account(data, &["token", "add", "ada", "ci", "--days", "1"], "");
    let bearer = format!("Bearer {}", done(&token).trim());
    let server = TestServer::start(data, &[]);
    let mut client = server.client();
    let mut status = |method: &str, authorization: &str| {
        let headers = [("Authorization", authorization)];
        client.call(method, &entity("a"), &headers, b"").status
    };
    // `ada:secret` in base64.
    assert_eq!(status("GET", "Basic YWRhOnNlY3JldA=="), 404);
    assert_eq!(
        (status("GET", &bearer), status("PUT", &bearer), status("GET", "")),
        (404, 403, 401)
    );
    done(&account(data, &["grant", "ada", "table/entities=write"], ""));
    assert_eq!(wait_until(|| status("PUT", &bearer), |status| *status != 403), 201);
    done(&account(data, &["disable", "ada"], ""));
    wait_until(|| status("GET", &bearer), |status| *status == 401);
    let listed = json_of(&account(data, &["list", "--json"], ""));
    assert_eq!(listed["schema"], "pellucid.accounts.v1");
    let ada = &listed["accounts"][0];
    assert_eq!(ada["name"], "ada");
    assert_eq!((&ada["active"], &ada["tokens"]), (&false.into(), &1.into()));
    assert!(done(&account(data, &["token", "list", "ada"], "")).contains("v1."));
    done(&account(data, &["token", "remove", "ada", "1"], ""));
    done(&account(data, &["password", "ada"], "other\n"));
    done(&account(data, &["remove", "ada"], ""));
    assert_eq!(done(&account(data, &["list"], "")), "");
}

#[test]
fn invalid_accounts_are_refused() {
    let folder = TempDir::new().unwrap();
    let data = folder.path();
    done(&account(data, &["add", "ada", "--no-password"], ""));
    for (arguments, code, expected) in [
        (&["add", "ada", "--no-password"][..], 1, "already"),
        (&["add", "a:b"], 2, "colon"),
        (&["add", "bob", "--grant", "everything=read"], 2, "table/NAME"),
        (&["add", "bob", "--grant", "table/x=all"], 2, "`none`, `read` and `write`"),
        (&["add", "bob"], 2, "--no-password"),
        (&["password", "bob"], 1, "no account `bob`"),
        (&["token", "remove", "ada", "7"], 1, "no token 7"),
        (&["grant", "ada", "admin=unset"], 1, "no grant"),
    ] {
        failed(&account(data, arguments, ""), code, expected);
    }
    // Regression: an unset variable of a script made an account that is open to everybody.
    failed(&account(data, &["add", "bob", "--admin"], "\n"), 2, "empty");
}

#[test]
fn the_log_is_json_if_requested_and_names_unknown_variables() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().to_str().unwrap();
    let arguments = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--log-format", "json"];
    let mut command = pellucid(&arguments);
    command.env("PELLUCID_SHINE", "1").args(["--engine-log", "1s"]).stderr(Stdio::piped());
    let mut server = TestServer::spawn(command);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(server.stderr()));
    let remark: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(remark["level"], "WARN");
    assert!(remark["message"].as_str().unwrap().contains("PELLUCID_SHINE"));
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let engine = lines.find(|line| line["kind"] == "state");
    assert!(engine.is_some(), "the engine's figures are documents of their own");
}

#[test]
fn systemd_is_told_when_the_server_is_ready_alive_and_stopping() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let made = rcgen::generate_simple_self_signed(["elsewhere.example".to_owned()]).unwrap();
    std::fs::write(file("cert"), made.cert.pem()).unwrap();
    std::fs::write(file("key"), made.signing_key.serialize_pem()).unwrap();
    let tls = ["--tls-cert", &file("cert"), "--tls-key", &file("key")];
    for further in [&[][..], &tls] {
        let data = file("data");
        let mut command = pellucid(&["serve", "--listen", "127.0.0.1:0", "--data", &data]);
        command.args(further).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
        let server = TestServer::spawn(command);
        let next = || {
            let mut state = [0; 64];
            let count = socket.recv(&mut state).unwrap();
            String::from_utf8_lossy(&state[..count]).into_owned()
        };
        assert_eq!(next(), "READY=1");
        assert_eq!(next(), "WATCHDOG=1", "it answers itself, also over TLS");
        server.stop();
        while next() != "STOPPING=1" {}
    }
}

/// Regression: clients without credentials could have the server killed by taking all places.
#[test]
fn a_server_at_a_limit_is_alive_for_systemd() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let is_next = |expected: &str| {
        let mut state = [0; 64];
        let count = socket.recv(&mut state).unwrap();
        &state[..count] == expected.as_bytes()
    };
    for (limit, target) in [
        ("--requests-in-flight-max", "/v0/changes?since=0&follow=true"),
        ("--connections-max", "/v0/status"),
    ] {
        let data = folder.path().join("data");
        let data = data.to_str().unwrap();
        let mut command = pellucid(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
        // So long that the notifications that are not read do not fill the socket.
        command.args([limit, "1"]).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000000");
        let server = TestServer::spawn(command);
        while !is_next("READY=1") {}
        // The server's own request may have the only place for a moment.
        let _holder = loop {
            let mut holder = TcpStream::connect(server.address).unwrap();
            let asked = holder.write_all(&request("GET", target, &[], b""));
            let mut answer = [0; 12];
            if asked.and_then(|()| holder.read_exact(&mut answer)).is_ok()
                && answer == *b"HTTP/1.1 200"
            {
                break holder;
            }
        };
        socket.set_nonblocking(true).unwrap();
        while socket.recv(&mut [0; 64]).is_ok() {}
        socket.set_nonblocking(false).unwrap();
        // The first may be of the time before.
        assert!((0..3).all(|_| is_next("WATCHDOG=1")), "{limit}");
    }
}

/// Regression: the server started without a notification, so systemd ended and restarted it every
/// half a minute.
#[test]
fn a_server_that_cannot_tell_systemd_that_it_is_ready_does_not_start() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_nonblocking(true).unwrap();
    let data = folder.path().join("data");
    let mut descriptors = 10;
    let is_ready = || matches!(socket.recv(&mut [0; 64]), Ok(count) if count > 0);
    loop {
        let mut command = Command::new("/bin/sh");
        let script = format!("ulimit -n {descriptors} && exec \"$@\"");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_pellucid"), "serve", "--data"]);
        command.arg(&data).args(["--listen", "127.0.0.1:0", "--threads", "1"]);
        command.env("NOTIFY_SOCKET", &path).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = command.spawn().unwrap();
        let begun = std::time::Instant::now();
        let ended = loop {
            assert!(begun.elapsed() < Duration::from_secs(60), "{descriptors}: it says nothing");
            if is_ready() {
                break None;
            }
            if let Some(status) = server.try_wait().unwrap() {
                break Some(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let Some(status) = ended else {
            server.kill().unwrap();
            server.wait().unwrap();
            break;
        };
        assert_eq!(status.code(), Some(1), "{descriptors}");
        descriptors += 1;
    }
    assert!(descriptors > 10, "a server needs descriptors");
}

#[test]
fn shells_get_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert!(done(&output).contains("print-config"), "{shell}");
        assert!(done(&output).contains("on-duplicate"), "{shell}");
    }
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = TempDir::new().unwrap();
    let pages = folder.path().join("man1");
    done(&run(&["man", pages.to_str().unwrap()]));
    for name in [
        "pellucid",
        "pellucid-serve",
        "pellucid-get",
        "pellucid-export",
        "pellucid-import",
        "pellucid-account-token-add",
    ] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".TH "), "{name}");
    }
    let serve = std::fs::read_to_string(pages.join("pellucid-serve.1")).unwrap();
    assert!(serve.contains("value") && serve.contains("PELLUCID_VALUE_MAX"));
    fails(&["man", "/proc/nowhere"], 1, "");
}
