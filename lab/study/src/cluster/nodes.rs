//! The processes of the study: three nodes of a cluster, and a single node without one.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pellucid_account::OperationAccount;
use pellucid_client::Client;
use pellucid_client::http::{HttpRequest, Target, TlsOptions};
use pellucid_profile::RECORDING_HERTZ;
use pellucid_topology::NodeList;

use super::child::NodePlan;
use super::load::{LoadKind, VALUE_BYTES, key};
use crate::child_server::ChildServer;
use crate::error::StudyError;
use crate::profile_recording::RecordedProfiles;

const NODES: usize = 3;
/// Threads that fill the stores.
const FILLERS: u64 = 4;
/// The longest wait until all nodes are connected.
const PATIENCE: Duration = Duration::from_secs(30);

/// The variant of a load: the owners of its keys, and the node that it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoutingVariant {
    /// All keys; asks the single node without a cluster, which has them all.
    Alone,
    /// All keys; asks the owner of each.
    Direct,
    /// Keys of the first node; asks the first node.
    Own,
    /// Keys of the other nodes; asks the first node.
    Others,
    /// All keys; asks the first node.
    All,
}

impl RoutingVariant {
    pub(super) const ALL: [RoutingVariant; 5] = [
        RoutingVariant::Alone,
        RoutingVariant::Direct,
        RoutingVariant::Own,
        RoutingVariant::Others,
        RoutingVariant::All,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            RoutingVariant::Alone => "one node alone",
            RoutingVariant::Direct => "three, each owner directly",
            RoutingVariant::Own => "three, keys of the one asked",
            RoutingVariant::Others => "three, all forwarded",
            RoutingVariant::All => "three, all keys of one",
        }
    }
}

pub(super) struct Nodes {
    processes: Vec<ChildServer>,
    list: NodeList,
    /// The index in `list` of the first node, which is asked.
    asked: usize,
    /// The URL of the first node.
    url: String,
    /// The single node without a cluster.
    alone: ChildServer,
    alone_url: String,
}

fn failed(error: impl std::fmt::Display) -> StudyError {
    StudyError::Step(format!("the nodes: {error}"))
}

impl Nodes {
    /// Starts all nodes, and waits until those of the cluster are connected, or `stop` is set.
    pub(super) fn start(
        program: &[OsString],
        folder: &Path,
        stop: &AtomicBool,
    ) -> Result<Nodes, StudyError> {
        let listeners: Result<Vec<_>, _> =
            (0..NODES).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect();
        let addresses: Result<Vec<SocketAddr>, _> =
            listeners.map_err(failed)?.iter().map(TcpListener::local_addr).collect();
        let addresses = addresses.map_err(failed)?;
        let urls: Vec<_> = addresses.iter().map(|address| format!("http://{address}")).collect();
        let list = NodeList::parse(&urls.join(",")).map_err(failed)?;
        let mut processes = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            let plan = NodePlan {
                data: folder.join(format!("node-{index}")),
                listen: *address,
                nodes: Some(list.text()),
            };
            processes.push(ChildServer::start("a node", program, &plan)?);
        }
        let plan = NodePlan {
            data: folder.join("alone"),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            nodes: None,
        };
        let alone = ChildServer::start("the node alone", program, &plan)?;
        let alone_url = alone.url();
        let url = urls[0].clone();
        let asked = list.nodes().iter().position(|node| node.as_str() == url).unwrap_or(0);
        let nodes = Nodes { processes, list, asked, url, alone, alone_url };
        nodes.meet(stop)?;
        Ok(nodes)
    }

    /// Waits until the first node can answer for a key of every node.
    fn meet(&self, stop: &AtomicBool) -> Result<(), StudyError> {
        let begun = Instant::now();
        for node in 0..NODES {
            let number = (0..).find(|number| self.list.owner(key(*number).as_bytes()) == node);
            let key = key(number.unwrap_or(0));
            while let Err(error) = self.ask_first(&key) {
                if begun.elapsed() > PATIENCE || stop.load(Ordering::Relaxed) {
                    return Err(failed(error));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Asks the first node for a key of any node.
    fn ask_first(&self, key: &str) -> Result<(), String> {
        let target = Target::parse(&self.url).map_err(|error| error.to_string())?;
        let path = format!("/v0/entity?id={key}");
        let (status, answer) = HttpRequest::get(&path).ask(&target, &TlsOptions::default())?;
        let is_answered = matches!(status, 200 | 404);
        let text = || String::from_utf8_lossy(&answer.body).into_owned();
        if is_answered { Ok(()) } else { Err(text()) }
    }

    /// The URL of the node that this variant asks.
    pub(super) fn url(&self, whose: RoutingVariant) -> &str {
        if whose == RoutingVariant::Alone { &self.alone_url } else { &self.url }
    }

    /// Fills the cluster and the single node with `keys` keys. Returns the number of keys that each
    /// node of the cluster reports.
    ///
    /// # Errors
    /// If a PUT fails, or the numbers do not add up to `keys`.
    pub(super) fn fill(&mut self, keys: u64) -> Result<Vec<u64>, StudyError> {
        for url in [&self.url, &self.alone_url] {
            fill(url, keys)?;
        }
        self.rest()?;
        let shares: Result<Vec<u64>, _> =
            self.processes.iter_mut().map(ChildServer::count).collect();
        let shares = shares?;
        let (all, alone) = (shares.iter().sum::<u64>(), self.alone.count()?);
        if (all, alone) != (keys, keys) {
            let what = format!("of {keys} keys, the three have {all}, and the one alone {alone}");
            return Err(failed(what));
        }
        Ok(shares)
    }

    /// Waits until no node flushes or merges; false if one still does after a minute.
    pub(super) fn rest(&mut self) -> Result<bool, StudyError> {
        let mut is_rested = true;
        for process in self.processes.iter_mut().chain([&mut self.alone]) {
            is_rested &= process.rest()?;
        }
        Ok(is_rested)
    }

    /// Returns at most `count` keys for a load, spread evenly over all `keys`. Even numbers are for
    /// writes and odd ones for reads, so that reads find keys as the filling has stored them.
    pub(super) fn keys(
        &self,
        whose: RoutingVariant,
        work: LoadKind,
        keys: u64,
        count: usize,
    ) -> Vec<String> {
        let numbers = (0..keys).map(|number| number.wrapping_mul(7_919) % keys);
        let of_work = numbers.filter(|number| number.is_multiple_of(2) == work.writes());
        let is_one = |key: &String| match whose {
            RoutingVariant::Own => self.list.owner(key.as_bytes()) == self.asked,
            RoutingVariant::Others => self.list.owner(key.as_bytes()) != self.asked,
            RoutingVariant::Alone | RoutingVariant::Direct | RoutingVariant::All => true,
        };
        of_work.map(key).filter(is_one).take(count).collect()
    }

    /// The processor time so far of all nodes that take part in this variant.
    pub(super) fn processor_ns(&mut self, whose: RoutingVariant) -> Result<u64, StudyError> {
        let processes = match whose {
            RoutingVariant::Alone => std::slice::from_mut(&mut self.alone),
            _ => &mut self.processes[..],
        };
        let times = processes
            .iter_mut()
            .map(|process| Ok::<u64, StudyError>(process.figures()?.processor_ns.values().sum()));
        times.sum()
    }

    /// The accounts of the first node for the last `seconds`.
    pub(super) fn account(&mut self, seconds: u64) -> Result<Vec<OperationAccount>, StudyError> {
        self.processes[0].account(seconds)
    }

    /// Starts to profile the first node.
    pub(super) fn profile(&mut self) -> Result<(), StudyError> {
        self.processes[0].profile(RECORDING_HERTZ)
    }

    /// Ends the profiling, and returns the profiles.
    pub(super) fn profiles(&mut self) -> Result<RecordedProfiles, StudyError> {
        self.processes[0].profiles()
    }

    pub(super) fn stop(self) -> Result<(), StudyError> {
        self.processes.into_iter().chain([self.alone]).try_for_each(ChildServer::stop)
    }
}

/// Writes `keys` keys through the node at `url`, with several threads.
fn fill(url: &str, keys: u64) -> Result<(), StudyError> {
    let value = vec![b'v'; VALUE_BYTES];
    std::thread::scope(|scope| {
        let fillers: Vec<_> = (0..FILLERS)
            .map(|filler| {
                let value = &value;
                scope.spawn(move || {
                    let mut client = Client::connect(url)?;
                    for number in (filler..keys).step_by(FILLERS as usize) {
                        client.put(key(number).as_bytes(), value)?;
                    }
                    Ok::<(), pellucid_client::ClientError>(())
                })
            })
            .collect();
        for filler in fillers {
            let filled = filler.join().map_err(|_| failed("a thread that fills has panicked"))?;
            filled.map_err(failed)?;
        }
        Ok(())
    })
}
