//! A child process with a line protocol: one request line on stdin, one response line on stdout.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use serde::Serialize;

use crate::error::StudyError;

/// The most bytes of a child's messages that are kept.
const MESSAGES_BYTES: usize = 16 << 10;

/// A child process, killed when this value is dropped.
pub(crate) struct Process {
    what: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The messages, unless they go to the terminal.
    messages: Option<JoinHandle<String>>,
}

impl Process {
    /// Starts a program: its path and its arguments. `what` names it in messages; those of the
    /// program itself go to `messages`. If that is a pipe, they are in the error of
    /// [`Process::stop`].
    pub(crate) fn start(
        what: &'static str,
        program: &[OsString],
        messages: Stdio,
    ) -> Result<Process, StudyError> {
        let failed = |why: String| StudyError::Step(format!("{what}: {why}"));
        let [path, arguments @ ..] = program else {
            return Err(failed("no program is given".to_owned()));
        };
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(messages);
        let mut child = command
            .spawn()
            .map_err(|error| failed(format!("cannot start {}: {error}", show(path))))?;
        let input = child.stdin.take();
        let output = child.stdout.take().map(BufReader::new);
        let Some(output) = output else { return Err(failed("it has no output".to_owned())) };
        let messages = child.stderr.take().map(last_messages);
        Ok(Process { what, child, input, output, messages })
    }

    /// Starts a server and sends it its plan, as a line of JSON; returns the address it answers
    /// with.
    pub(crate) fn serving(
        what: &'static str,
        program: &[OsString],
        plan: &impl Serialize,
    ) -> Result<(Process, SocketAddr), StudyError> {
        let failed = |error: &dyn std::fmt::Display| StudyError::Step(format!("{what}: {error}"));
        let mut process = Process::start(what, program, Stdio::inherit())?;
        let plan = serde_json::to_string(plan).map_err(|error| failed(&error))?;
        let answer = process.ask(&plan)?;
        let address =
            answer.parse().map_err(|error| failed(&format!("answered `{answer}`: {error}")))?;
        Ok((process, address))
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line and reads the one that answers it.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String, StudyError> {
        self.tell(line)?;
        let answer = self.line()?;
        answer.ok_or_else(|| StudyError::Step(format!("{} ended; its message is above", self.what)))
    }

    /// Sends a line.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), StudyError> {
        let Some(input) = &mut self.input else { return Ok(()) };
        match writeln!(input, "{line}").and_then(|()| input.flush()) {
            // The process has ended; reading its output reports that.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(|error| self.silent(&error)),
        }
    }

    /// Reads the next line; `None` at the end of the output.
    pub(crate) fn line(&mut self) -> Result<Option<String>, StudyError> {
        let mut line = String::new();
        let length = self.output.read_line(&mut line).map_err(|error| self.silent(&error))?;
        Ok((length > 0).then(|| line.trim().to_owned()))
    }

    fn silent(&self, error: &std::io::Error) -> StudyError {
        StudyError::Step(format!("{} does not answer: {error}", self.what))
    }

    /// Ends the process's input, and waits for it to end cleanly.
    pub(crate) fn stop(mut self) -> Result<(), StudyError> {
        self.input = None;
        let what = self.what;
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let messages = self.messages.take().and_then(|messages| messages.join().ok());
                let messages = messages.map_or_else(String::new, |all| format!(": {}", all.trim()));
                Err(StudyError::Step(format!("{what} ended with {status}{messages}")))
            }
            Err(error) => Err(StudyError::Step(format!("{what}: {error}"))),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After `stop` the process has been waited for, and both calls do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the messages of a child on a thread, so that the child never waits for a reader. At the
/// end of the messages, the thread returns the last [`MESSAGES_BYTES`] of them.
pub(crate) fn last_messages(mut errors: ChildStderr) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut text, mut piece) = (Vec::new(), [0; 4 << 10]);
        loop {
            match errors.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => text.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // If no more can be read, the messages so far are all there are.
                Err(_) => break,
            }
            text.drain(..text.len().saturating_sub(MESSAGES_BYTES));
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

fn show(path: &OsStr) -> std::path::Display<'_> {
    Path::new(path).display()
}
