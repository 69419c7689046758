//! Runs a Pellucid server in a separate process, so that its processor time and memory can be
//! measured separately.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pellucid_client::http::{Question, Target, TlsOptions};

use crate::Failure;

/// The longest wait for a server to stop.
const STOP_TIME_MAX: Duration = Duration::from_secs(60);

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running `pellucid serve`, killed if it is dropped without being stopped.
pub(crate) struct ServerProcess {
    child: Child,
    address: SocketAddr,
    stopped: bool,
}

impl ServerProcess {
    /// Starts this program as a server on the folder `data` and a free port, with further flags.
    pub(crate) fn start(data: &Path, flags: &[&str]) -> Result<ServerProcess, Failure> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::work(format!("cannot start the server: {error}")))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix("listening on http://");
        match address.and_then(|address| address.parse().ok()) {
            Some(address) => Ok(ServerProcess { child, address, stopped: false }),
            None => {
                let _ = child.wait();
                Err(Failure::work("the server did not start; its message is above"))
            }
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends a GET and returns the body; any status but 200 is an error.
    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let target = Target::parse(&self.url("/"))?;
        let question = Question { patience: PATIENCE, ..Question::get(path) };
        match question.ask(&target, &TlsOptions::default()) {
            Ok((200, answer)) => Ok(answer.body),
            Ok((status, _)) => Err(Failure::work(format!("{} answers {status}", self.url(path)))),
            Err(error) => Err(Failure::work(error)),
        }
    }

    /// The resident anonymous memory in bytes, without mapped files; zero if it cannot be read.
    pub(crate) fn anonymous_bytes(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let Ok(status) = File::open(status) else { return 0 };
        let mut lines = BufReader::new(status).lines().map_while(Result::ok);
        let line = lines.find_map(|line| line.strip_prefix("RssAnon:").map(str::to_owned));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.unwrap_or(0) * 1_024
    }

    /// Kills the server with SIGKILL: nothing is flushed or closed.
    pub(crate) fn kill(mut self) -> Result<(), Failure> {
        self.stopped = true;
        self.child.kill()?;
        self.child.wait().map(|_| ()).map_err(Failure::work)
    }

    /// Stops the server with SIGTERM and waits for its end.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        self.stopped = true;
        let id = libc::pid_t::try_from(self.child.id())?;
        // SAFETY: a signal to a child that was not waited for reaches no other process.
        unsafe { libc::kill(id, libc::SIGTERM) };
        let begun = Instant::now();
        while begun.elapsed() < STOP_TIME_MAX {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() {
                    Ok(())
                } else {
                    Err(Failure::work(format!("the server ended with {status}")))
                };
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        Err(Failure::work("the server did not stop in time and was killed"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if !self.stopped {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
