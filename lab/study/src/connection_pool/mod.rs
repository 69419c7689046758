//! The study `connection-pool`: finds what limits an application with many concurrent queries: the
//! driver's sockets, the server, or the application's own thread.
//!
//! It repeats a study of the connections of arangojs. The drivers are unmodified. Their inner times
//! come from the events that Node.js publishes about its requests, joined with the server's account
//! of each request. Every figure has a counterpart: the same client against a bare server, which
//! always sends the same answer.

mod charts;
mod child;
mod client;
mod conclusions;
mod figures;
mod filling;
mod original;
mod plan;
mod trivial_server;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;

use pellucid_profile::RECORDING_HERTZ;
use pellucid_report::{Finding, StudyReport};

pub use self::child::run_child;
pub use self::plan::ConnectionPoolOptions;

use self::child::ServerPlan;
use self::client::{Client, Drivers};
use self::figures::Row;
use self::filling::{end_to_end_id, fill, make_index, response};
use self::plan::{
    ACCESSES, ARANGODB_QUEUE, Access, Connection, NODES, connections, spread_connections,
};
use crate::child_server::ChildServer;
use crate::error::StudyError;
use crate::folder::make_folder;
use crate::process::Process;
use crate::profile_recording::RecordedProfiles;
use crate::study::{Context, Scale, Study, StudyDescription, answer};

/// The number of queries that warm up a client before it is measured.
const WARM_UP_QUERIES: u64 = 200;
/// The number of warm-up queries if each reads the whole collection.
const WARM_UP_SCANS: u64 = 2;
/// The most different documents that queries ask for.
const IDS_MAX: u64 = 10_000;

/// The findings that answer the question.
const ANSWERS: [&str; 5] =
    ["client_limit", "sockets_index", "sockets_missing", "sockets_scan", "unfinished"];

impl Study for ConnectionPoolOptions {
    fn about(&self) -> StudyDescription {
        StudyDescription {
            name: "connection-pool",
            title: "Connection pools",
            question: "What limits an application that asks many queries at a time: the sockets \
                       of its driver, the server, or its own thread?",
            scale: self.scale,
        }
    }

    fn run(&self, context: &mut Context<'_>) -> Result<StudyReport, StudyError> {
        let documents = self.documents();
        if documents == 0 || self.queries == Some(0) {
            let what = "--documents and --queries are at least 1";
            return Err(StudyError::Options(what.to_owned()));
        }
        let folder = make_folder(self.data.as_deref())?;
        let program = context.child.clone();
        let drivers = context.step("Installing the drivers", |_| Drivers::install())?;
        let data = folder.path().join("store");
        let (mut pellucid, address) = context.step("Filling the collection", |_| {
            let plan = ServerPlan::Pellucid { data, queued_calls_max: None };
            let server = ChildServer::start("the server", &program, &plan)?;
            let address = server.address();
            fill(address, documents)?;
            Ok((server, address))
        })?;
        let ids: Vec<String> = (0..documents.min(IDS_MAX)).map(end_to_end_id).collect();
        let missing: Vec<String> = (documents..).take(ids.len()).map(end_to_end_id).collect();
        let (bare, bare_address) = trivial("the bare server", &program, address, &ids[0])?;
        let servers = [vec![address], vec![bare_address]];
        let mut bench = StudySetup { drivers, folder: folder.path(), servers, ids, documents: 1 };
        let (mut rows, mut profiles) = (Vec::new(), RecordedProfiles::default());
        // Without an index first, because the index cannot be removed again.
        for access in [Access::Scan, Access::Index] {
            if access == Access::Index {
                context.step("Making the index", |_| make_index(address))?;
            }
            pellucid.profile(RECORDING_HERTZ)?;
            bench.repeat(context, self, access, &mut rows)?;
            let title = format!("Queries {}", access.title());
            profiles = profiles.and(pellucid.profiles()?.of(&title));
        }
        let (misser, bare_address) = trivial("the bare server", &program, address, &missing[0])?;
        let servers = [vec![address], vec![bare_address]];
        let servers = std::mem::replace(&mut bench.servers, servers);
        let ids = std::mem::replace(&mut bench.ids, missing);
        bench.documents = 0;
        bench.repeat(context, self, Access::Missing, &mut rows)?;
        (bench.servers, bench.ids, bench.documents) = (servers, ids, 1);
        let more = context.step("Filling more nodes", |_| {
            more_nodes(&program, folder.path(), documents, &mut bench)
        })?;
        let spread = bench.spread(context, self)?;
        bench.servers = more.limited.clone();
        bench.repeat(context, self, Access::Queue, &mut rows)?;
        let Nodes { pellucid: nodes, trivial: bares, .. } = more;
        [bare, misser].into_iter().chain(bares).try_for_each(Process::stop)?;
        [pellucid].into_iter().chain(nodes).try_for_each(ChildServer::stop)?;
        let mut outcome = outcome(self, &rows, &spread);
        profiles.put_into(&mut outcome);
        Ok(outcome)
    }
}

/// The further processes, after the first of each kind.
struct Nodes {
    pellucid: Vec<ChildServer>,
    trivial: Vec<Process>,
    /// The addresses of the node whose queue is as long as ArangoDB's, and of its bare server.
    limited: [Vec<SocketAddr>; 2],
}

/// Starts further nodes with the same documents and index, each with a bare server, until there are
/// [`NODES`] of each; and one more node with a queue as long as ArangoDB's.
fn more_nodes(
    program: &[OsString],
    folder: &Path,
    documents: u64,
    bench: &mut StudySetup<'_>,
) -> Result<Nodes, StudyError> {
    let mut more = Nodes { pellucid: Vec::new(), trivial: Vec::new(), limited: [vec![], vec![]] };
    for number in 2..=NODES + 1 {
        let is_limited = number > NODES;
        let data = folder.join(format!("store-{number}"));
        let queued_calls_max = is_limited.then_some(ARANGODB_QUEUE);
        let plan = ServerPlan::Pellucid { data, queued_calls_max };
        let node = ChildServer::start("a further node", program, &plan)?;
        let address = node.address();
        fill(address, documents)?;
        make_index(address)?;
        let (trivial, bare) = trivial("a further bare server", program, address, &bench.ids[0])?;
        let [nodes, bares] = if is_limited { &mut more.limited } else { &mut bench.servers };
        nodes.push(address);
        bares.push(bare);
        more.pellucid.push(node);
        more.trivial.push(trivial);
    }
    Ok(more)
}

/// Starts a bare server. It always sends the answer that the node at `address` gives to a query for
/// `id`. Returns its address too.
fn trivial(
    what: &'static str,
    program: &[OsString],
    address: SocketAddr,
    id: &str,
) -> Result<(Process, SocketAddr), StudyError> {
    let plan = ServerPlan::Trivial { answer: response(address, id)? };
    Process::serving(what, program, &plan)
}

/// The setup that all rows share.
struct StudySetup<'a> {
    drivers: Drivers,
    folder: &'a Path,
    /// The addresses of the Pellucid nodes, and of the bare servers.
    servers: [Vec<SocketAddr>; 2],
    /// The identifiers that queries ask for.
    ids: Vec<String>,
    /// The number of documents with each identifier.
    documents: u64,
}

impl StudySetup<'_> {
    /// Runs all rows of one kind until their findings are certain enough.
    fn repeat(
        &self,
        context: &mut Context<'_>,
        options: &ConnectionPoolOptions,
        access: Access,
        rows: &mut Vec<Row>,
    ) -> Result<(), StudyError> {
        let connections = access.connections();
        let more = self.rounds(context, options, (access, &connections), |rows| {
            conclusions::findings(rows, &[]).iter().all(Finding::is_told)
        })?;
        rows.extend(more);
        Ok(())
    }

    /// Runs the rows for the driver's strategies to choose among nodes.
    fn spread(
        &self,
        context: &mut Context<'_>,
        options: &ConnectionPoolOptions,
    ) -> Result<Vec<Row>, StudyError> {
        self.rounds(context, options, (Access::Index, &spread_connections()), |rows| {
            conclusions::findings(&[], rows).iter().all(Finding::is_told)
        })
    }

    fn rounds(
        &self,
        context: &mut Context<'_>,
        options: &ConnectionPoolOptions,
        (access, connections): (Access, &[Connection]),
        is_told: impl Fn(&[Row]) -> bool,
    ) -> Result<Vec<Row>, StudyError> {
        let mut rows = Vec::new();
        for connection in connections {
            rows.extend(options.queries(access).into_iter().map(|queries| {
                let (pellucid, trivial) = (Vec::new(), Vec::new());
                Row { connection: *connection, access, queries, pellucid, trivial }
            }));
        }
        if rows.is_empty() {
            return Ok(rows);
        }
        let nodes = if self.servers[0].len() > 1 { ", three nodes" } else { "" };
        options.scale.repeats().run(|round| {
            let name = format!("Run {}: queries {}{nodes}", round + 1, access.title());
            context.step(&name, |say| {
                let of_connection =
                    rows.chunk_by_mut(|one, other| one.connection == other.connection);
                for rows in of_connection {
                    self.measure(rows, round)?;
                }
                rows.iter().for_each(|row| say(&told(row)));
                Ok(())
            })?;
            Ok(is_told(&rows))
        })?;
        Ok(rows)
    }

    /// Runs one client against both servers, once for each of its rows.
    fn measure(&self, rows: &mut [Row], round: usize) -> Result<(), StudyError> {
        let Some(Row { connection, access, .. }) = rows.first() else { return Ok(()) };
        let mut client = Client::start(&self.drivers, *connection, self.folder)?;
        let warm_up = if *access == Access::Scan { WARM_UP_SCANS } else { WARM_UP_QUERIES };
        let asked = (self.ids.as_slice(), self.documents);
        for servers in &self.servers {
            client.run(servers, warm_up, asked)?;
        }
        let [here, bare] = &self.servers;
        for row in rows {
            // Alternate the order, because the second server finds a warmer client.
            if round.is_multiple_of(2) {
                row.pellucid.push(client.run(here, row.queries, asked)?);
            }
            row.trivial.push(client.run(bare, row.queries, asked)?);
            if !round.is_multiple_of(2) {
                row.pellucid.push(client.run(here, row.queries, asked)?);
            }
        }
        client.stop()
    }
}

/// Formats a row as a line of progress.
fn told(row: &Row) -> String {
    let time = |time: Option<f64>| time.map_or("–".to_owned(), |ms| format!("{ms:.0} ms"));
    let refused: u64 = row.refusals().values().sum();
    let sockets = row.pellucid.iter().map(|run| run.sockets).max().unwrap_or(0);
    let unanswered =
        if refused == 0 { String::new() } else { format!(", {refused} queries not answered") };
    format!(
        "  {}: {}, against the bare server {}; {sockets} sockets{unanswered}",
        row.title(),
        time(Row::wall_ms(&row.pellucid)),
        time(Row::wall_ms(&row.trivial))
    )
}

fn outcome(options: &ConnectionPoolOptions, rows: &[Row], spread: &[Row]) -> StudyReport {
    let mut settings = vec![("documents".to_owned(), options.documents().to_string())];
    for access in ACCESSES {
        let numbers = options.queries(access).into_iter().map(|number| number.to_string());
        let numbers = numbers.collect::<Vec<_>>().join(", ");
        let numbers = if numbers.is_empty() { "none".to_owned() } else { numbers };
        settings.push((format!("queries at a time, {}", access.title()), numbers));
    }
    let names = connections().map(|connection| connection.title());
    settings.push(("connections".to_owned(), names.join("; ")));
    let mut notes = vec![
        "In the original the identifiers were random, so that no query found a document, and \
         whether there was an index is not told.",
        "Client and servers share the machine, as they did not in the original: where it has \
         few cores, the client's thread and the server take time from each other.",
        "The drivers are unmodified. Their requests carry `Prefer: timing`, so that the server \
         gives its account of each; the bare server's answer has such a header too, which \
         counts for nothing.",
        "arangojs 10 uses fetch, whose sockets stay from one run of a client to the next; the \
         other clients open theirs anew in each run, which their times contain.",
        "Profiles are those of the first server, over all rows with an index and over all \
         without one.",
        "The nodes among which the driver's loadBalancingStrategy chooses are three servers on \
         this machine, each of which has all documents: each can answer every query, as the \
         coordinators of a cluster can.",
    ];
    if options.scale != Scale::Full {
        notes.push(
            "Without an index every query reads the whole collection, so fewer are asked; \
             --full asks as many as with an index.",
        );
    }
    let findings = conclusions::findings(rows, spread);
    StudyReport {
        settings,
        answer: answer(&findings, &ANSWERS),
        picture: charts::picture(rows),
        findings,
        loads: rows.iter().chain(spread).flat_map(Row::judged).collect(),
        sections: charts::sections(rows, spread),
        notes: notes.into_iter().map(str::to_owned).collect(),
        ..StudyReport::default()
    }
}
