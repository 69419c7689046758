//! Runs a Pellucid server in a separate process, so that its processor time and memory can be
//! measured separately.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pellucid_client::http::{HttpRequest, Target, TlsOptions};

use crate::Failure;

/// The longest wait for a server to listen. It opens its store before.
const START_TIME_MAX: Duration = Duration::from_secs(300);

/// The longest first line of a server in bytes.
const LINE_BYTES_MAX: u64 = 4 << 10;

/// The longest wait for a server to stop.
const STOP_TIME_MAX: Duration = Duration::from_secs(60);

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running `pellucid serve`, killed if it is dropped without being stopped.
pub(crate) struct ServerProcess {
    child: ChildGuard,
    address: SocketAddr,
}

/// A child process that has ended once this value is dropped.
struct ChildGuard(Child);

impl ServerProcess {
    /// Starts this program as a server on the folder `data` and a free port, with further flags.
    pub(crate) fn start(data: &Path, flags: &[&str]) -> Result<ServerProcess, Failure> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command.args(["serve", "--end-with-input", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(data).args(flags);
        ServerProcess::run(command, START_TIME_MAX)
    }

    /// Starts a server by this command, and waits no longer than `patience` for its address.
    fn run(mut command: Command, patience: Duration) -> Result<ServerProcess, Failure> {
        // The server's input ends with this process, whatever ends it.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        let child = child.map_err(|error| format!("cannot start the server: {error}"))?;
        let mut child = ChildGuard(child);
        let stdout = child.0.stdout.take().ok_or("the server has no output")?;
        let (sender, received) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout.take(LINE_BYTES_MAX)).read_line(&mut line);
            // The receiver is gone if the line came too late.
            let _ = sender.send(read.map(|_| line));
        });
        let line = match received.recv_timeout(patience) {
            Ok(line) => line?,
            Err(RecvTimeoutError::Disconnected) => String::new(),
            Err(RecvTimeoutError::Timeout) => {
                let text = "the server did not listen in time and was killed; is its store large, \
                            or the machine busy?";
                return Err(Failure::work(text));
            }
        };
        let address = line.trim().strip_prefix("listening on http://");
        match address.and_then(|address| address.parse().ok()) {
            Some(address) => Ok(ServerProcess { child, address }),
            None => Err(Failure::work("the server did not start; its message is above")),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends a GET and returns the body; any status but 200 is an error.
    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let target = Target::parse(&self.url("/"))?;
        let question = HttpRequest { patience: PATIENCE, ..HttpRequest::get(path) };
        match question.ask(&target, &TlsOptions::default()) {
            Ok((200, answer)) => Ok(answer.body),
            Ok((status, _)) => Err(Failure::work(format!("{} answers {status}", self.url(path)))),
            Err(error) => Err(Failure::work(error)),
        }
    }

    /// The resident anonymous memory in bytes, without mapped files; zero if it cannot be read.
    pub(crate) fn anonymous_bytes(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.0.id());
        let Ok(status) = File::open(status) else { return 0 };
        let mut lines = BufReader::new(status).lines().map_while(Result::ok);
        let line = lines.find_map(|line| line.strip_prefix("RssAnon:").map(str::to_owned));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.unwrap_or(0) * 1_024
    }

    /// Kills the server with SIGKILL: nothing is flushed or closed.
    pub(crate) fn kill(mut self) -> Result<(), Failure> {
        self.child.0.kill()?;
        self.child.0.wait().map(|_| ()).map_err(Failure::work)
    }

    /// Stops the server with SIGTERM and waits for its end.
    pub(crate) fn stop(self) -> Result<(), Failure> {
        self.stop_within(STOP_TIME_MAX)
    }

    fn stop_within(mut self, patience: Duration) -> Result<(), Failure> {
        let id = libc::pid_t::try_from(self.child.0.id())?;
        // SAFETY: a signal to a child that was not waited for reaches no other process.
        unsafe { libc::kill(id, libc::SIGTERM) };
        let begun = Instant::now();
        while begun.elapsed() < patience {
            if let Some(status) = self.child.0.try_wait()? {
                return if status.success() {
                    Ok(())
                } else {
                    Err(Failure::work(format!("the server ended with {status}")))
                };
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(Failure::work("the server did not stop in time and was killed"))
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // After an earlier wait, neither does anything.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a command that writes its process to a file in `folder` and runs `script`.
    fn shell(folder: &Path, script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("echo $$ > process; {script}")]).current_dir(folder);
        command
    }

    /// Checks that the process of a [`shell`] has ended and was waited for.
    fn assert_gone(folder: &Path) {
        let process = std::fs::read_to_string(folder.join("process")).unwrap();
        assert!(!Path::new("/proc").join(process.trim()).exists(), "{process}");
    }

    /// Regression: without a line the start had no end, and after another line it waited for the
    /// end of a server that went on.
    #[test]
    fn a_server_that_does_not_listen_is_killed() {
        let folder = tempfile::TempDir::new().unwrap();
        for (script, patience, expected) in [
            ("exec sleep 600", Duration::from_secs(10), "did not listen in time"),
            ("echo hello; exec sleep 600", START_TIME_MAX, "did not start"),
            ("exit 1", START_TIME_MAX, "did not start"),
        ] {
            let begun = Instant::now();
            let failure = ServerProcess::run(shell(folder.path(), script), patience).err().unwrap();
            assert!(failure.text.contains(expected), "{}", failure.text);
            assert!(begun.elapsed() < START_TIME_MAX / 2, "{script}");
            assert_gone(folder.path());
        }
    }

    /// Regression: a server that was killed because it did not stop stayed as a zombie.
    #[test]
    fn a_server_that_does_not_stop_is_killed() {
        let folder = tempfile::TempDir::new().unwrap();
        let script = "trap '' TERM; echo listening on http://127.0.0.1:1; exec sleep 600";
        let server = ServerProcess::run(shell(folder.path(), script), START_TIME_MAX).unwrap();
        let failure = server.stop_within(Duration::from_millis(50)).unwrap_err();
        assert!(failure.text.contains("was killed"), "{}", failure.text);
        assert_gone(folder.path());
    }
}
