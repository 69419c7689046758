//! Helpers that start the program as its users do.

pub(crate) mod charts;
#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../../../server/tests/common/client.rs"]
pub(crate) mod client;
pub(crate) mod costly_queries;
pub(crate) mod profile_checks;
pub(crate) mod tls;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use client::{Client, entity, request, wait_for, wait_until};
use serde_json::Value;
use tempfile::TempDir;
use tls::write_private;

use crate::nodes::free_addresses;

/// The time limit of a command that must end by itself, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Starts a server that calls `act` with each connection, on a thread of its own; returns its URL.
pub(crate) fn stub_server(act: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let act = Arc::new(act);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let act = Arc::clone(&act);
            std::thread::spawn(move || act(stream));
        }
    });
    format!("http://{address}/")
}

/// Returns a command without those variables of this process's environment that `pellucid` reads.
pub(crate) fn unset(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PELLUCID_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Returns `pellucid` with these arguments.
pub(crate) fn pellucid(arguments: &[&str]) -> Command {
    let mut command = unset(env!("CARGO_BIN_EXE_pellucid"));
    command.args(arguments);
    command
}

/// Runs the program to its end. The test fails if it does not end by itself.
pub(crate) fn run(arguments: &[&str]) -> Output {
    finish(pellucid(arguments))
}

/// Runs a prepared command like [`run`].
pub(crate) fn finish(command: Command) -> Output {
    finish_within(PATIENCE, command)
}

fn finish_within(patience: Duration, mut command: Command) -> Output {
    let child = spawn(&mut command);
    let id = libc::pid_t::try_from(child.id()).unwrap();
    let (ended, is_ended) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if is_ended.recv_timeout(patience) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            // SAFETY: the child was not waited for yet, so its id belongs to no other process.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(ended);
    watch.join().unwrap();
    output
}

/// Starts a command whose output is read.
pub(crate) fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs a command that reads `input`. The command may end before it has read all of it.
pub(crate) fn feed(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = spawn(pellucid(arguments).stdin(Stdio::piped()));
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// Runs `account`, for the store in a folder.
pub(crate) fn account(data: &Path, arguments: &[&str], password: &str) -> Output {
    let account = ["account", "--data", data.to_str().unwrap()];
    feed(&[&account[..], arguments].concat(), password.as_bytes())
}

/// Checks that a command succeeded, and returns its output.
#[track_caller]
pub(crate) fn done(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
pub(crate) fn json_of(output: &Output) -> Value {
    serde_json::from_str(done(output)).unwrap()
}

/// Checks the exit code and the message of a command that must fail.
#[track_caller]
pub(crate) fn failed(output: &Output, code: i32, what: &str) {
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{what}: {errors}");
    assert!(errors.contains(what) && !errors.contains("panicked"), "{what}: {errors}");
}

#[track_caller]
pub(crate) fn fails(arguments: &[&str], code: i32, what: &str) {
    failed(&run(arguments), code, what);
}

/// Sends a signal to a child that was not waited for.
pub(crate) fn signal(child: &Child, signal: i32) {
    let id = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: the child was not waited for, so its id belongs to no other process.
    assert_eq!(unsafe { libc::kill(id, signal) }, 0);
}

/// Sends a signal to a child, again and again unless it is SIGINT, and returns its exit code.
pub(crate) fn ended_by(child: &mut Child, number: i32) -> Option<i32> {
    signal(child, number);
    let look = || {
        let status = child.try_wait().unwrap();
        if status.is_none() && number != libc::SIGINT {
            signal(child, number);
        }
        status
    };
    wait_until(look, Option::is_some).and_then(|status| status.code())
}

/// Reads until the server closes the connection. The test fails if it does not close it.
pub(crate) fn until_closed(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("the server does not close the connection: {error}"),
    }
}

/// Runs a small study. Returns its report, the folder of its data, and the folder of its files
/// inside. It has a longer time limit than other commands, because the first run installs drivers.
pub(crate) fn study(name: &str, size: &[&str]) -> (Value, TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let places = ["-o", out.to_str().unwrap(), "--data", folder.path().to_str().unwrap()];
    let study = ["study", name, "--json", "--quick"];
    let command = pellucid(&[&study[..], &places, size].concat());
    let report = json_of(&finish_within(10 * PATIENCE, command));
    assert_eq!((&report["schema"], &report["name"]), (&"pellucid.study.v2".into(), &name.into()));
    let page = std::fs::read_to_string(out.join(format!("{name}.html"))).unwrap();
    let is_undefined = page.contains("NaN") || page.contains("inf%");
    assert!(!is_undefined, "a figure was divided by zero");
    (report, folder, out)
}

/// Returns the root folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns a command that runs an example of a package of the workspace. It is the built program if
/// there is one beside the tests, otherwise `cargo run`.
pub(crate) fn example(package: &str, name: &str) -> Command {
    let tests = std::env::current_exe().unwrap();
    let built = tests.ancestors().nth(2).unwrap().join("examples").join(name);
    if built.exists() {
        return Command::new(built);
    }
    let mut run = Command::new(env!("CARGO"));
    run.args(["run", "-q", "--locked", "--manifest-path"]).arg(root().join("Cargo.toml"));
    run.args(["-p", package, "--example", name]);
    run
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The address of a server that listens on no TCP port.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A running `pellucid serve`, which is stopped cleanly at the end, and killed after a failure.
pub(crate) struct TestServer {
    child: Child,
    /// True once a test has seen it end.
    has_ended: bool,
    /// The first TCP address that it listens on.
    pub(crate) address: SocketAddr,
}

impl TestServer {
    /// Starts a server of `data` on any free port, with further arguments.
    pub(crate) fn start(data: &Path, arguments: &[&str]) -> TestServer {
        let data = data.to_str().unwrap();
        let mut command = pellucid(&["serve", "--data", data, "--listen", "127.0.0.1:0"]);
        command.args(arguments);
        TestServer::spawn(command)
    }

    /// Starts `command` and waits for the line with the address that it listens on.
    pub(crate) fn spawn(mut command: Command) -> TestServer {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").unwrap().trim();
        let address = address.split_once("://").map_or(NOWHERE, |(_, at)| at.parse().unwrap());
        TestServer { child, has_ended: false, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns a figure of its process in bytes; `name` is that of `/proc/PID/status`.
    pub(crate) fn memory_bytes(&self, name: &str) -> u64 {
        memory_bytes(self.id(), name).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Kills it: nothing is flushed or closed.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.wait();
    }

    pub(crate) fn signal(&self, signal: i32) {
        self::signal(&self.child, signal);
    }

    /// Returns its standard error, which the command must have piped.
    pub(crate) fn stderr(&mut self) -> std::process::ChildStderr {
        self.child.stderr.take().unwrap()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.has_ended = true;
                return status;
            }
            if begun.elapsed() > PATIENCE {
                let _ = self.child.kill();
                let _ = self.child.wait();
                panic!("the server does not end");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Stops it cleanly before the end of its scope.
    pub(crate) fn stop(self) {
        drop(self);
    }
}

/// Starts a server on a new folder, and returns both.
pub(crate) fn serve(flags: &[&str]) -> (TempDir, TestServer) {
    let folder = TempDir::new().unwrap();
    let server = TestServer::start(&folder.path().join("data"), flags);
    (folder, server)
}

/// Returns a figure of a process's memory in bytes, such as `VmRSS`, or none once it has ended.
pub(crate) fn memory_bytes(process: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        } else if !self.has_ended {
            self.signal(libc::SIGTERM);
            assert_eq!(self.wait().code(), Some(0));
        }
    }
}

/// Starts two nodes of a cluster that share a secret, with these flags. Their timeouts are so long
/// that a busy machine does not make one appear dead.
pub(crate) fn cluster(folder: &Path, flags: &[&str]) -> [TestServer; 2] {
    let secret = folder.join("secret");
    write_private(&secret, "a secret of at least thirty-two characters\n");
    // Both nodes must know both addresses before they start.
    let addresses: Vec<String> = free_addresses(2).iter().map(SocketAddr::to_string).collect();
    let nodes: Vec<String> = addresses.iter().map(|address| format!("http://{address}")).collect();
    [0, 1].map(|node| {
        let data = folder.join(format!("node{node}"));
        let mut command = pellucid(&["serve", "--data", data.to_str().unwrap()]);
        command.args(["--listen", &addresses[node], "--advertise", &nodes[node]]);
        command.args(["--cluster", &nodes.join(","), "--cluster-wait", "60s"]);
        command.args(["--cluster-silence", "60s", "--cluster-secret-file"]).arg(&secret);
        command.args(flags);
        TestServer::spawn(command)
    })
}
