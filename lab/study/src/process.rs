//! A process that is told things by lines and answers with lines.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Serialize;

use crate::error::StudyError;

/// See the module. It ends with this value.
pub(crate) struct Process {
    what: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a program, its path and its arguments; `what` it is, for messages.
    pub(crate) fn start(what: &'static str, program: &[OsString]) -> Result<Process, StudyError> {
        let failed = |why: String| StudyError::Step(format!("{what}: {why}"));
        let [path, arguments @ ..] = program else {
            return Err(failed("it is not known how to start it".to_owned()));
        };
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| failed(format!("cannot start {}: {error}", show(path))))?;
        let input = child.stdin.take();
        let output = child.stdout.take().map(BufReader::new);
        let Some(output) = output else { return Err(failed("it has no output".to_owned())) };
        Ok(Process { what, child, input, output })
    }

    /// Starts a server by its plan, which it answers with its address.
    pub(crate) fn serving(
        what: &'static str,
        program: &[OsString],
        plan: &impl Serialize,
    ) -> Result<(Process, SocketAddr), StudyError> {
        let failed = |error: &dyn std::fmt::Display| StudyError::Step(format!("{what}: {error}"));
        let mut process = Process::start(what, program)?;
        let plan = serde_json::to_string(plan).map_err(|error| failed(&error))?;
        let address = process.ask(&plan)?.parse().map_err(|error| failed(&error))?;
        Ok((process, address))
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line and reads the one that answers it.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String, StudyError> {
        let what = self.what;
        let failed =
            |error: std::io::Error| StudyError::Step(format!("{what} does not answer: {error}"));
        if let Some(input) = &mut self.input {
            writeln!(input, "{line}").and_then(|()| input.flush()).map_err(failed)?;
        }
        let mut answer = String::new();
        if self.output.read_line(&mut answer).map_err(failed)? == 0 {
            return Err(StudyError::Step(format!("{what} ended; its message is above")));
        }
        Ok(answer.trim().to_owned())
    }

    /// Ends the process's input, and waits for it to end cleanly.
    pub(crate) fn stop(mut self) -> Result<(), StudyError> {
        self.input = None;
        let what = self.what;
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(StudyError::Step(format!("{what} ended with {status}"))),
            Err(error) => Err(StudyError::Step(format!("{what}: {error}"))),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that was stopped has been waited for, and these do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn show(path: &OsStr) -> std::path::Display<'_> {
    Path::new(path).display()
}
