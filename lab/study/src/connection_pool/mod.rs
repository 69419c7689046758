//! `connection-pool`: what limits an application that asks many queries at a time, the driver's
//! sockets, the server, or the application's own thread.
//!
//! It repeats the study of the connections of arangojs. The drivers are those that their authors
//! publish; what they do inside is seen by what Node.js tells of its requests, put together with
//! the account that the server gives of each. Beside every figure stands the client's own ceiling:
//! what it reaches against a server that does nothing but send the same answer.

mod charts;
mod child;
mod client;
mod conclusions;
mod figures;
mod filling;
mod http;
mod original;
mod plan;
mod trivial;

use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::path::Path;

pub use self::plan::ConnectionPoolOptions;

use self::child::ServerPlan;
use self::client::{Client, Drivers};
use self::figures::Row;
use self::filling::{answer, end_to_end_id, fill, make_index};
use self::plan::{ACCESSES, Access, Connection, NODES, connections, spread_connections};
use crate::error::StudyError;
use crate::folder::make_folder;
use crate::process::Process;
use crate::profiled::Taken;
use crate::served::Served;
use crate::study::{Context, Outcome, Scale, Study};

/// Queries that warm the client up before it is measured.
const WARM_UP_QUERIES: u64 = 200;
/// The same where each reads the whole collection.
const WARM_UP_SCANS: u64 = 2;
/// Documents that are asked for, at most.
const IDS_MAX: u64 = 10_000;

/// The study.
#[derive(Debug)]
pub struct ConnectionPool {
    options: ConnectionPoolOptions,
}

impl ConnectionPool {
    /// The study with these options.
    #[must_use]
    pub fn new(options: ConnectionPoolOptions) -> ConnectionPool {
        ConnectionPool { options }
    }
}

/// Takes the part of a process that answers.
///
/// # Errors
/// If the server does not start or stop, or what it is told makes no sense.
pub fn run_child(input: impl BufRead, output: impl Write) -> Result<(), StudyError> {
    child::run(input, output)
}

impl Study for ConnectionPool {
    fn name(&self) -> &'static str {
        "connection-pool"
    }

    fn title(&self) -> &'static str {
        "Connection pools"
    }

    fn question(&self) -> &'static str {
        "What limits an application that asks many queries at a time: the sockets of its driver, \
         the server, or its own thread?"
    }

    fn scale(&self) -> Scale {
        self.options.scale
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Outcome, StudyError> {
        let documents = self.options.documents();
        if documents == 0 || self.options.queries == Some(0) {
            let what = "--documents and --queries are at least 1";
            return Err(StudyError::Options(what.to_owned()));
        }
        let folder = make_folder(self.options.data.as_deref())?;
        let program = context.child.clone();
        let drivers = context.step("Installing the drivers", |_| Drivers::install())?;
        let data = folder.path().join("store");
        let (mut pellucid, address) = context.step("Filling the collection", |_| {
            let server = Served::start("the server", &program, &ServerPlan::Pellucid { data })?;
            let address = server.address();
            fill(address, documents)?;
            Ok((server, address))
        })?;
        let (trivial, ceiling) = trivial("the trivial server", &program, address)?;
        let ids: Vec<String> = (0..documents.min(IDS_MAX)).map(end_to_end_id).collect();
        let servers = [vec![address], vec![ceiling]];
        let mut bench = Bench { drivers, folder: folder.path(), servers, ids };
        let (mut rows, mut profiles) = (Vec::new(), Taken::default());
        // Without an index first, as there is no way back from the other.
        for access in [Access::Scan, Access::Index] {
            if access == Access::Index {
                context.step("Making the index", |_| make_index(address))?;
            }
            pellucid.profile()?;
            for connection in connections() {
                let name = format!("{}, {}", connection.title(), access.title());
                let measured = context
                    .step(&name, |say| bench.measure(&self.options, connection, access, say))?;
                rows.extend(measured);
            }
            profiles =
                profiles.and(pellucid.profiles()?.of(&format!("Queries {}", access.title())));
        }
        let more = context.step("Filling two more nodes", |_| {
            more_nodes(&program, folder.path(), documents, &mut bench.servers)
        })?;
        let mut spread = Vec::new();
        for connection in spread_connections() {
            let name = format!("{}, {NODES} nodes", connection.title());
            let access = Access::Index;
            let measured =
                context.step(&name, |say| bench.measure(&self.options, connection, access, say))?;
            spread.extend(measured);
        }
        let Nodes { pellucid: nodes, trivial: ceilings } = more;
        [trivial].into_iter().chain(ceilings).try_for_each(Process::stop)?;
        [pellucid].into_iter().chain(nodes).try_for_each(Served::stop)?;
        let mut outcome = self.outcome(rows, &spread);
        profiles.put_into(&mut outcome);
        Ok(outcome)
    }
}

/// Processes beside the first of each kind.
struct Nodes {
    pellucid: Vec<Served>,
    trivial: Vec<Process>,
}

/// Adds nodes that have the same documents and index, and trivial servers beside them, until there
/// are [`NODES`] of each.
fn more_nodes(
    program: &[OsString],
    folder: &Path,
    documents: u64,
    [nodes, ceilings]: &mut [Vec<SocketAddr>; 2],
) -> Result<Nodes, StudyError> {
    let mut more = Nodes { pellucid: Vec::new(), trivial: Vec::new() };
    while nodes.len() < NODES {
        let data = folder.join(format!("store-{}", nodes.len() + 1));
        let node = Served::start("a further node", program, &ServerPlan::Pellucid { data })?;
        let address = node.address();
        fill(address, documents)?;
        make_index(address)?;
        let (trivial, ceiling) = trivial("a further trivial server", program, address)?;
        nodes.push(address);
        ceilings.push(ceiling);
        more.pellucid.push(node);
        more.trivial.push(trivial);
    }
    Ok(more)
}

/// Starts a server that gives to everything the answer that the node at `address` gives; returns
/// where.
fn trivial(
    what: &'static str,
    program: &[OsString],
    address: SocketAddr,
) -> Result<(Process, SocketAddr), StudyError> {
    let failed = |error: &dyn std::fmt::Display| StudyError::Step(format!("{what}: {error}"));
    let plan = ServerPlan::Trivial { answer: answer(address)? };
    let mut process = Process::start(what, program)?;
    let plan = serde_json::to_string(&plan).map_err(|error| failed(&error))?;
    let address = process.ask(&plan)?.parse().map_err(|error| failed(&error))?;
    Ok((process, address))
}

/// The setup of every row.
struct Bench<'a> {
    drivers: Drivers,
    folder: &'a Path,
    /// The nodes of Pellucid, and the trivial servers.
    servers: [Vec<SocketAddr>; 2],
    /// The options.
    ids: Vec<String>,
}

impl Bench<'_> {
    /// Runs one client against both servers, turn by turn.
    fn measure(
        &self,
        options: &ConnectionPoolOptions,
        connection: Connection,
        access: Access,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<Row>, StudyError> {
        let mut client = Client::start(&self.drivers, connection, self.folder)?;
        let warm_up = match access {
            Access::Index => WARM_UP_QUERIES,
            Access::Scan => WARM_UP_SCANS,
        };
        for servers in &self.servers {
            client.run(servers, warm_up, &self.ids)?;
        }
        let mut rows = Vec::new();
        for queries in options.queries(access) {
            let (mut pellucid, mut trivial) = (Vec::new(), Vec::new());
            for run in 0..options.runs(access) {
                let [here, ceiling] = &self.servers;
                // Whoever comes second finds a client that is warmer.
                if run % 2 == 0 {
                    pellucid.push(client.run(here, queries, &self.ids)?);
                }
                trivial.push(client.run(ceiling, queries, &self.ids)?);
                if run % 2 == 1 {
                    pellucid.push(client.run(here, queries, &self.ids)?);
                }
            }
            let row = Row { connection, access, queries, pellucid, trivial };
            say(&told(&row));
            rows.push(row);
        }
        client.stop()?;
        Ok(rows)
    }
}

/// A row as a line.
fn told(row: &Row) -> String {
    let time = |time: Option<f64>| time.map_or("–".to_owned(), |ms| format!("{ms:.0} ms"));
    let refused: u64 = row.refusals().values().sum();
    let sockets = row.pellucid.iter().map(|run| run.sockets).max().unwrap_or(0);
    let share = row.share_of_ceiling().map_or(String::new(), |share| format!(", {share:.2} of it"));
    let unanswered =
        if refused == 0 { String::new() } else { format!(", {refused} queries not answered") };
    format!(
        "  {} queries: {}, the client's ceiling {}{share}; {sockets} sockets{unanswered}",
        row.queries,
        time(Row::wall_ms(&row.pellucid)),
        time(Row::wall_ms(&row.trivial))
    )
}

impl ConnectionPool {
    fn outcome(&self, rows: Vec<Row>, spread: &[Row]) -> Outcome {
        let numbers = |access: Access| {
            let numbers = self.options.queries(access).into_iter().map(|number| number.to_string());
            numbers.collect::<Vec<_>>().join(", ")
        };
        let mut settings = vec![("documents".to_owned(), self.options.documents().to_string())];
        for access in ACCESSES {
            let runs = self.options.runs(access);
            let title = access.title();
            settings.push((format!("queries at a time, {title}"), numbers(access)));
            settings.push((format!("runs of each row, {title}"), runs.to_string()));
        }
        let names = connections().map(|connection| connection.title());
        settings.push(("connections".to_owned(), names.join("; ")));
        let mut notes = vec![
            "Each query asks for a document that is there, so its answer carries one; in the \
             original the identifiers were random, and whether there was an index is not told."
                .to_owned(),
            "Client and servers share the machine, as they did not in the original: where it has \
             few cores, the client's thread and the server take time from each other."
                .to_owned(),
            "The drivers are unmodified. Their requests carry `Prefer: timing`, so that the server \
             gives its account of each; the trivial server's answer has such a header too, which \
             counts for nothing."
                .to_owned(),
            "arangojs 10 uses fetch, whose sockets stay from one run of a client to the next; the \
             other clients open theirs anew in each run, which their times contain."
                .to_owned(),
            "Profiles are those of the first server, over all rows with an index and over all \
             without one."
                .to_owned(),
            "The nodes among which the driver's loadBalancingStrategy chooses are three servers on \
             this machine, each of which has all documents: each can answer every query, as the \
             coordinators of a cluster can."
                .to_owned(),
        ];
        if self.options.scale != Scale::Full {
            notes.push(
                "Without an index every query reads the whole collection, so fewer are asked; \
                 --full asks as many as with an index."
                    .to_owned(),
            );
        }
        let findings = conclusions::findings(&rows, spread);
        let sections = charts::sections(&rows, spread);
        Outcome { settings, findings, sections, notes, profiles: Vec::new() }
    }
}
