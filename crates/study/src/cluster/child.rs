//! The process of one node: it is told what to do by lines, and answers with lines.
//!
//! The plan is answered with the node's address, `processor` with the nanoseconds of processor time
//! so far, `account SECONDS` with the account of the last seconds, and `profiles`, once, with those
//! since the start.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use pellucid_server::{ClusterOptions, Log, NodeList, NodeUrl, ServerOptions, start};
use serde::{Deserialize, Serialize};

use crate::error::StudyError;
use crate::proc::ProcessFigures;
use crate::profiled::Profiled;

/// What a node is to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct NodePlan {
    pub(super) data: PathBuf,
    pub(super) listen: SocketAddr,
    /// All nodes; none for a node alone.
    pub(super) nodes: Option<String>,
    /// Whether its processor time, allocations and waits are profiled.
    pub(super) is_profiled: bool,
}

/// Runs the node until its input ends.
pub(super) fn run(mut input: impl BufRead, mut output: impl Write) -> Result<(), StudyError> {
    let step = |error: &dyn std::fmt::Display| StudyError::Step(error.to_string());
    let mut line = String::new();
    input.read_line(&mut line).map_err(|error| step(&error))?;
    let plan: NodePlan = serde_json::from_str(&line).map_err(|error| step(&error))?;
    let mut options = ServerOptions::new(plan.data);
    options.listen = plan.listen;
    options.threads = 1;
    if let Some(nodes) = plan.nodes {
        let nodes = NodeList::parse(&nodes).map_err(|error| step(&error))?;
        let node = NodeUrl::parse(&format!("http://{}", plan.listen)).map_err(|e| step(&e))?;
        options.cluster = Some(ClusterOptions::new(nodes, node));
    }
    let server = start(options, Log::of_process()).map_err(|error| step(&error))?;
    let mut profiled = if plan.is_profiled { Profiled::begin() } else { None };
    let mut answer = |text: &str| {
        let written = writeln!(output, "{text}").and_then(|()| output.flush());
        written.map_err(|error| step(&error))
    };
    answer(&server.address().to_string())?;
    for line in input.lines() {
        let line = line.map_err(|error| step(&error))?;
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("processor", _) => {
                let sum: u64 = ProcessFigures::now().processor_ns.values().sum();
                answer(&sum.to_string())?;
            }
            ("account", seconds) => {
                let seconds = seconds.parse().map_err(|error| step(&error))?;
                let snapshot = server.account().snapshot(Some(seconds));
                answer(&serde_json::to_string(&snapshot).map_err(|error| step(&error))?)?;
            }
            ("profiles", _) => {
                let names = server.account().names().operations;
                let profiles = profiled.take().map_or_else(Vec::new, |taken| taken.end(names));
                answer(&serde_json::to_string(&profiles).map_err(|error| step(&error))?)?;
            }
            _ => return Err(StudyError::Step(format!("`{line}` is nothing to do"))),
        }
    }
    server.stop().map_err(|error| step(&error))
}
