//! The program itself, started as its users start it.

#[allow(dead_code, reason = "shared with tests that use more of it")]
#[path = "../../../../server/tests/common/client.rs"]
pub(crate) mod client;
pub(crate) mod costly_queries;
pub(crate) mod profiled;
pub(crate) mod tls;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

pub(crate) use client::{Client, entity, request, wait_for, wait_until};
use serde_json::Value;
use tempfile::TempDir;
use tls::write_private;

/// How long a command may take that is expected to end, on a machine that is busy otherwise, too.
const PATIENCE: Duration = Duration::from_secs(180);

/// A program, and nothing of this process's environment that ours listens to.
pub(crate) fn unset(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PELLUCID_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Our program with these arguments.
pub(crate) fn pellucid(arguments: &[&str]) -> Command {
    let mut command = unset(env!("CARGO_BIN_EXE_pellucid"));
    command.args(arguments);
    command
}

/// Runs the program to its end; one that does not end by itself fails the test.
pub(crate) fn run(arguments: &[&str]) -> Output {
    finish(pellucid(arguments))
}

/// As [`run`], for a command that was prepared.
pub(crate) fn finish(command: Command) -> Output {
    finish_within(PATIENCE, command)
}

fn finish_within(patience: Duration, mut command: Command) -> Output {
    let child = spawn(&mut command);
    let id = libc::pid_t::try_from(child.id()).unwrap();
    let (ended, is_ended) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if is_ended.recv_timeout(patience) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            // SAFETY: the child is still waited for, so its number is its own.
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

/// Runs a command that reads `input`; one that has enough may have ended.
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

/// The output of a command that succeeds.
#[track_caller]
pub(crate) fn done(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
pub(crate) fn json_of(output: &Output) -> Value {
    serde_json::from_str(done(output)).unwrap()
}

/// Holds a command that fails against its exit code, and what it says.
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

/// Signals a child that was not waited for.
pub(crate) fn signal(child: &Child, signal: i32) {
    let id = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: a signal to a child that was not waited for reaches no other process.
    assert_eq!(unsafe { libc::kill(id, signal) }, 0);
}

/// All that comes until the server closes; a connection that it does not close fails the test.
pub(crate) fn until_closed(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("the server does not close the connection: {error}"),
    }
}

/// Runs a study in a small size: its report, and the folder of its files, beside the one of its
/// data. Installing drivers for the first time may take longer than other commands may.
pub(crate) fn study(name: &str, size: &[&str]) -> (Value, TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let places = ["-o", out.to_str().unwrap(), "--data", folder.path().to_str().unwrap()];
    let study = ["study", name, "--json", "--quick"];
    let command = pellucid(&[&study[..], &places, size].concat());
    let report = json_of(&finish_within(10 * PATIENCE, command));
    assert_eq!((&report["schema"], &report["name"]), (&"pellucid.study.v2".into(), &name.into()));
    (report, folder, out)
}

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// An example of a package of the workspace: beside the tests where all of it was built.
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

/// The address of a server that has none of TCP.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A running `pellucid serve`; killed if a test ends without having stopped it.
pub(crate) struct Serving {
    child: Child,
    /// The first address of TCP that it listens on.
    pub(crate) address: SocketAddr,
}

impl Serving {
    /// Serves `data` on any free port, with further arguments.
    pub(crate) fn start(data: &Path, arguments: &[&str]) -> Serving {
        let data = data.to_str().unwrap();
        let mut command = pellucid(&["serve", "--data", data, "--listen", "127.0.0.1:0"]);
        command.args(arguments);
        Serving::spawn(command)
    }

    /// Starts `command` and waits for the line that says where it listens.
    pub(crate) fn spawn(mut command: Command) -> Serving {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").unwrap().trim();
        let address = address.split_once("://").map_or(NOWHERE, |(_, at)| at.parse().unwrap());
        Serving { child, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A figure of its process in bytes, as `/proc/PID/status` names it.
    pub(crate) fn memory_bytes(&self, name: &str) -> u64 {
        memory_bytes(self.id(), name).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Ends it as the kernel would: nothing is flushed, nothing is closed.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end.
    pub(crate) fn signal(&self, signal: i32) {
        self::signal(&self.child, signal);
    }

    /// Its standard error, of a command that pipes it.
    pub(crate) fn stderr(&mut self) -> std::process::ChildStderr {
        self.child.stderr.take().unwrap()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn stop(mut self) {
        self.signal(libc::SIGTERM);
        assert_eq!(self.wait().code(), Some(0));
    }
}

/// A folder, and a server over the data in it.
pub(crate) fn serve(flags: &[&str]) -> (TempDir, Serving) {
    let folder = TempDir::new().unwrap();
    let server = Serving::start(&folder.path().join("data"), flags);
    (folder, server)
}

/// A figure of a process's memory in bytes, such as `VmRSS`; nothing once it has ended.
pub(crate) fn memory_bytes(process: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two nodes of a cluster that share a secret, with these flags. They may stand still on a busy
/// machine without being taken for dead.
pub(crate) fn cluster(folder: &Path, flags: &[&str]) -> [Serving; 2] {
    let secret = folder.join("secret");
    write_private(&secret, "a secret of at least thirty-two characters\n");
    // Both nodes have to know both.
    let addresses = free_addresses::<2>().map(|address| address.to_string());
    let nodes = addresses.clone().map(|address| format!("http://{address}"));
    [0, 1].map(|node| {
        let data = folder.join(format!("node{node}"));
        let mut command = pellucid(&["serve", "--data", data.to_str().unwrap()]);
        command.args(["--listen", &addresses[node], "--advertise", &nodes[node]]);
        command.args(["--cluster", &nodes.join(","), "--cluster-wait", "60s"]);
        command.args(["--cluster-silence", "60s", "--cluster-secret-file"]).arg(&secret);
        command.args(flags);
        Serving::spawn(command)
    })
}

/// Addresses that nobody listens on, below those that the system gives out by itself: none of them
/// is taken before its server takes it.
pub(crate) fn free_addresses<const COUNT: usize>() -> [SocketAddr; COUNT] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 100) as u16 * 100;
    std::array::from_fn(|_| {
        let ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
        let mut addresses = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        addresses.find(|address| TcpListener::bind(address).is_ok()).unwrap()
    })
}
