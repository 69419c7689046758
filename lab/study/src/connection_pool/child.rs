//! The child processes that answer the clients: Pellucid, or the trivial server.
//!
//! The plan comes as a line on standard input, and the address goes as a line to standard output. A
//! process serves until its input ends. Pellucid also answers the requests of [`answer_lines`], so
//! that it can be profiled.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use pellucid_server::{Log, ServerOptions, start};
use serde::{Deserialize, Serialize};

use super::trivial_server::TrivialServer;
use crate::child_server::{answer_lines, plan_of};
use crate::error::StudyError;

/// The role of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ServerPlan {
    /// Pellucid with its defaults on a store in the folder `data`; `queued_calls_max` replaces the
    /// default length of its queue.
    Pellucid { data: PathBuf, queued_calls_max: Option<usize> },
    /// A server that sends `answer`, a whole response, to every request.
    Trivial { answer: String },
}

/// Runs a server until the input ends.
///
/// # Errors
/// If the server does not start or stop, or its plan is invalid.
pub fn run_child(mut input: impl BufRead, mut output: impl Write) -> Result<(), StudyError> {
    let plan: ServerPlan = plan_of(&mut input)?;
    match plan {
        ServerPlan::Pellucid { data, queued_calls_max } => {
            let mut options = ServerOptions::new(data);
            options.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
            if let Some(queued_calls_max) = queued_calls_max {
                options.documents.queued_calls_max = queued_calls_max;
            }
            let server = start(options, Log::new(|_| {})).map_err(StudyError::step)?;
            answer_lines(server, input, output, |_| Ok(None))
        }
        ServerPlan::Trivial { answer } => {
            let trivial = TrivialServer::listen(answer.into_bytes()).map_err(StudyError::step)?;
            let address = trivial.address().map_err(StudyError::step)?;
            let told = writeln!(output, "{address}").and_then(|()| output.flush());
            told.map_err(StudyError::step)?;
            // The server has nothing to close, so it may end with the process.
            std::thread::spawn(move || trivial.serve());
            wait(&mut input);
            Ok(())
        }
    }
}

/// Waits until the input ends or fails.
fn wait(input: &mut impl BufRead) {
    let _ = input.read_to_end(&mut Vec::new());
}
