//! The servers that are compared. One runs at a time, on the first core.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::Client;

/// The core of the servers, and the core of the load.
pub const SERVER_CORE: &str = "0";
pub const LOAD_CORE: &str = "1";
/// The time that a node of a cluster waits for an answer of another one.
pub const CLUSTER_WAIT: Duration = Duration::from_secs(1);
/// The length of the body that all servers answer with, which is the length of the study's values.
pub const BODY_BYTES: usize = 103;

/// A running server.
pub struct Server {
    child: Child,
    /// The processes whose processor time and memory count as the server's.
    processes: Vec<u32>,
    /// The URL for the load.
    pub url: String,
    /// The folder that is removed together with the server.
    folder: Option<tempfile::TempDir>,
}

impl Server {
    /// The address that it listens on.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://").split('/').next().unwrap_or_default()
    }

    /// Returns the user and system time of the server so far, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.processes.iter().map(|process| cpu_seconds(*process)).sum()
    }

    /// Returns the bytes that the kernel has read from the disk for the server so far.
    pub fn disk_read_bytes(&self) -> u64 {
        self.processes.iter().map(|process| disk_read_bytes(*process)).sum()
    }

    /// Takes the server's folder, which is then not removed together with the server.
    pub fn take_folder(&mut self) -> Option<tempfile::TempDir> {
        self.folder.take()
    }

    /// Kills the server, which cannot write anything any more.
    pub fn kill(&mut self) {
        // `kill` fails if the server has ended already; `wait` is needed in either case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops the server with SIGSTOP, so that it behaves like one that hangs.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
    }

    /// Lets a stopped server continue.
    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the child was not waited for, so its id belongs to no other process.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Returns the anonymous memory of the server in bytes, which is its memory without files.
    pub fn anonymous_bytes(&self) -> u64 {
        self.processes.iter().map(|process| anonymous_bytes(*process)).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        self.signal(libc::SIGTERM);
        // A stopped process handles SIGTERM only once it continues.
        self.go_on();
        let _ = self.child.wait();
    }
}

/// Returns the path of the release build of Pellucid.
pub fn pellucid() -> PathBuf {
    let program = Path::new("target/release/pellucid");
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR") {
        return Path::new(&target).join("release/pellucid");
    }
    // Crates at different depths share this file.
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = above.map(|folder| folder.join(program)).find(|program| program.exists());
    found.unwrap_or_else(|| program.to_owned())
}

/// Starts Pellucid with one event loop and one entry.
pub fn start_pellucid(accounting: &str) -> Result<Server, String> {
    start_pellucid_with(&["--accounting", accounting])
}

/// Starts Pellucid with one event loop, one entry and these flags.
pub fn start_pellucid_with(flags: &[&str]) -> Result<Server, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let mut server = start_pellucid_in(folder.path(), flags)?;
    server.folder = Some(folder);
    Ok(server)
}

/// Starts Pellucid like [`start_pellucid`] on a folder that outlives it.
pub fn start_pellucid_on(folder: &Path) -> Result<Server, String> {
    start_pellucid_in(folder, &["--accounting", "full"])
}

/// Starts a node of the cluster `list` that listens on `address`, on this folder or a new one.
pub fn start_node(
    address: &str,
    list: &str,
    folder: Option<tempfile::TempDir>,
) -> Result<Server, String> {
    let folder = folder.map_or_else(tempfile::tempdir, Ok).map_err(text)?;
    let url = format!("http://{address}");
    let wait = format!("{}ms", CLUSTER_WAIT.as_millis());
    let flags = ["--cluster", list, "--advertise", &url, "--cluster-wait", &wait];
    let mut server = serve_in(folder.path(), address, &flags)?;
    server.folder = Some(folder);
    Ok(server)
}

fn start_pellucid_in(folder: &Path, flags: &[&str]) -> Result<Server, String> {
    let server = serve_in(folder, "127.0.0.1:0", flags)?;
    put(server.address())?;
    Ok(server)
}

/// Starts Pellucid with one event loop and these flags on this folder.
pub fn serve_in(folder: &Path, listen: &str, flags: &[&str]) -> Result<Server, String> {
    let mut child = Command::new("taskset")
        .args(["-c", SERVER_CORE])
        .arg(pellucid())
        .args(["serve", "--listen", listen, "--threads", "1"])
        .args(flags)
        .arg("--data")
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", pellucid().display()))?;
    let mut line = String::new();
    let stdout = child.stdout.take().ok_or("no output to read")?;
    BufReader::new(stdout).read_line(&mut line).map_err(text)?;
    let address = line.trim().strip_prefix("listening on http://").ok_or("it does not listen")?;
    let url = format!("http://{address}/v0/entity?id=1");
    Ok(Server { processes: vec![child.id()], child, url, folder: None })
}

fn put(address: &str) -> Result<(), String> {
    let body = "v".repeat(BODY_BYTES);
    Client::connect(address)?.call("PUT", "/v0/entity?id=1", &body).map(|_| ())
}

/// Starts the bare loop of [`crate::bare_server`].
pub fn start_bare() -> Result<Server, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let port = free_port()?;
    let program = std::env::current_exe().map_err(text)?;
    let child = Command::new("taskset")
        .args(["-c", SERVER_CORE])
        .arg(program)
        .args(["bare", &port.to_string()])
        .spawn()
        .map_err(text)?;
    await_port(port)?;
    let url = format!("http://127.0.0.1:{port}/");
    Ok(Server { processes: vec![child.id()], child, url, folder: Some(folder) })
}

/// Starts nginx with one worker that answers with a constant over HTTP/1.1.
pub fn start_nginx() -> Result<Server, String> {
    start_nginx_in("")
}

/// Starts nginx with one worker that answers with a constant over HTTP/2, by prior knowledge.
pub fn start_nginx_http2() -> Result<Server, String> {
    start_nginx_in(" http2")
}

fn start_nginx_in(protocol: &str) -> Result<Server, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let port = free_port()?;
    let path = folder.path().join("nginx.conf");
    let body = "v".repeat(BODY_BYTES);
    let folder_name = folder.path().display();
    let configuration = format!(
        "worker_processes 1;\ndaemon off;\npid {folder_name}/pid;\nerror_log {folder_name}/error;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; \
         server {{ listen 127.0.0.1:{port}{protocol}; location / {{ return 200 '{body}'; }} }} }}\n"
    );
    std::fs::write(&path, configuration).map_err(text)?;
    let nginx = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
    let child = Command::new("taskset")
        .args(["-c", SERVER_CORE, nginx, "-c"])
        .arg(&path)
        .arg("-e")
        .arg(folder.path().join("error"))
        .spawn()
        .map_err(|error| format!("cannot start nginx: {error}"))?;
    await_port(port)?;
    let url = format!("http://127.0.0.1:{port}/");
    let mut processes = await_children(child.id())?;
    processes.push(child.id());
    Ok(Server { processes, child, url, folder: Some(folder) })
}

fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(text)?;
    Ok(listener.local_addr().map_err(text)?.port())
}

fn await_port(port: u16) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(format!("nothing listens on port {port}"))
}

/// Waits until a process has children, and returns them. nginx listens before it starts its worker,
/// and without the worker only the time of the idle parent would be measured.
fn await_children(process: u32) -> Result<Vec<u32>, String> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        let children = children(process);
        if !children.is_empty() {
            return Ok(children);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(format!("process {process} has no worker"))
}

fn children(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let list = std::fs::read_to_string(path).unwrap_or_default();
    list.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

fn cpu_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let field = |index: usize| -> f64 {
        after_name.split_whitespace().nth(index).and_then(|f| f.parse().ok()).unwrap_or(0.0)
    };
    // Linux reports these two times in hundredths of a second.
    (field(11) + field(12)) / 100.0
}

fn disk_read_bytes(process: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

fn anonymous_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1_024
}

/// Returns the processor time of all `servers` so far, in microseconds.
pub fn processor_us(servers: &[&Server]) -> f64 {
    servers.iter().map(|server| server.cpu_seconds() * 1e6).sum()
}

/// Binds this thread, and the threads and processes that it starts later, to one core. A thread of
/// a load might otherwise share the server's.
pub fn pin_to(core: &str) -> Result<(), String> {
    let core: usize = core.parse().map_err(text)?;
    // SAFETY: the set is plain memory, and all zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a local variable, and the core's number is below its size.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set outlives the call, which is given its size.
    let bound = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    let error = std::io::Error::last_os_error();
    if bound == 0 { Ok(()) } else { Err(format!("core {core}: {error}")) }
}

/// Converts an error to its text.
pub fn text(error: impl ToString) -> String {
    error.to_string()
}
