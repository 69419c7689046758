//! `pellucid study`: runs a load that answers one question, and writes a report with the answer.

use std::io::{self, stdin, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use pellucid_report::{StudyReport, command_line, study_html, text};
use pellucid_study::{
    ClusterStudyOptions, ConnectionPoolOptions, Engine, EntityStudyOptions, MergeTreeOptions,
    RequestLifeOptions, Scale, Study, StudyError, StudyRun, conduct, run_cluster_child,
    run_connection_pool_child, run_entity_child, run_merge_tree_child, run_request_life_child,
};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGINT;
use signal_hook::flag::register_conditional_default;
use signal_hook::iterator::Signals;

use crate::Failure;
use crate::end_signals::end_signals;
use crate::load::save;
use crate::settings::{EngineKind, Size};

/// The interval at which the processes of a study that a signal ends are looked for.
const KILL_PAUSE: Duration = Duration::from_millis(100);

/// Run a study: put a load on, record the account, and answer a question with figures.
///
/// Writes NAME.html and NAME.json. Studies: merge-tree asks where the time of GET, PUT and HEAD
/// goes on a store that outgrows its memory, and what merging costs; it bounds the memory by a
/// control group where the system allows it, and says so where not. request-life asks where the
/// time of a request goes in the server, phase by phase. connection-pool asks what limits an
/// application with many queries at a time, by ArangoDB's drivers in Node.js, which it installs
/// with npm below ~/.cache. cluster asks what forwarding costs, by one node alone and three on this
/// machine, loaded by way of one of them and directly. entity asks what one connection's PUTs and
/// GETs take, and what flushes and compactions do to them, on each store side by side. Each repeats
/// its runs until its findings can be told, or its time is over.
///
/// Example: pellucid study merge-tree --quick -o reports
///
/// Example: pellucid study entity --engine embedded,rocksdb
#[derive(Args)]
pub(crate) struct StudyArguments {
    /// The study.
    name: StudyName,
    /// A version that is done within a minute or two.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The size of the study that this repeats; merge-tree: 12 hours, 8 GiB of memory, 155 GB of
    /// free disk.
    #[arg(long)]
    full: bool,
    /// The folder for the reports.
    #[arg(short, default_value = ".")]
    output: PathBuf,
    /// The folder in which the store is made, and removed [default: that for temporary files].
    #[arg(long)]
    data: Option<PathBuf>,
    /// request-life: requests of each run [default: 100000, --quick 10000, --full 1000000].
    #[arg(long)]
    requests: Option<u64>,
    /// connection-pool: documents of the collection [default: 200000, --quick 20000].
    #[arg(long)]
    documents: Option<u64>,
    /// connection-pool: queries at a time, without an index never more than the size has [default:
    /// 500, 1000, 5000 and 10000, and 100 without an index; --quick 500 and 20; --full the four for
    /// both].
    #[arg(long)]
    queries: Option<u64>,
    /// entity: the stores, side by side [default: all of these that are built in].
    #[arg(long, value_delimiter = ',', value_name = "embedded,rocksdb")]
    engine: Vec<EngineKind>,
    /// merge-tree: seconds that the load is on [default: 180, --quick 40, --full 43200]; those of
    /// each load: cluster [default: 4, --quick 0.7, --full 30], entity [default: 12, --quick 4,
    /// --full 20].
    #[arg(long)]
    seconds: Option<u64>,
    /// merge-tree: memory of the store, its files' pages included [default: 1G, --quick 256M,
    /// --full 8G]; entity: what each store may take, without the page cache [default: 16M, --quick
    /// 1M].
    #[arg(long)]
    memory: Option<Size>,
    /// Print the report as JSON; what is being done goes to standard error.
    #[arg(long)]
    json: bool,
    /// Take the part of the process that is measured: the plan comes on standard input.
    #[arg(long, hide = true)]
    child: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StudyName {
    Cluster,
    ConnectionPool,
    Entity,
    MergeTree,
    RequestLife,
}

fn failure_of(error: StudyError) -> Failure {
    match error {
        StudyError::Options(text) => Failure::usage(text),
        StudyError::Step(text) => Failure::work(text),
    }
}

/// Runs the study and writes its reports.
pub(crate) fn run(arguments: StudyArguments) -> Result<(), Failure> {
    if arguments.child {
        let ran = match arguments.name {
            StudyName::Cluster => run_cluster_child(stdin().lock(), stdout()),
            StudyName::ConnectionPool => run_connection_pool_child(stdin().lock(), stdout()),
            StudyName::Entity => run_entity_child(stdin().lock(), stdout()),
            StudyName::MergeTree => run_merge_tree_child(stdin().lock(), stdout()),
            StudyName::RequestLife => run_request_life_child(stdin().lock(), stdout()),
        };
        return ran.map_err(failure_of);
    }
    check_flags(&arguments)?;
    let stop = stop_at_signals()?;
    let (output, json) = (arguments.output.clone(), arguments.json);
    check_folder(&output)?;
    let report = report_of(arguments, stop)?;
    let document = report.json()?;
    // First, so that the result is not lost if the files cannot be written.
    if json {
        print_line!("{document}");
    } else {
        print_line!("\n{}", text::findings(&report));
    }
    let files = [("html", study_html(&report)), ("json", document)];
    Failure::all(files.map(|(ending, text)| {
        save(&output.join(format!("{}.{ending}", report.name)), text.as_bytes())
    }))
}

/// Returns a flag that the first signal sets; it also kills the processes of the study, so that no
/// step waits for one. A later SIGINT ends this process at once; other signals do not, because a
/// terminal that is closed and `timeout` send theirs twice.
fn stop_at_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    register_conditional_default(SIGINT, Arc::clone(&stop))?;
    let (mut signals, raised) = (Signals::new(end_signals())?, Arc::clone(&stop));
    std::thread::spawn(move || {
        if signals.forever().next().is_none() {
            return;
        }
        raised.store(true, Ordering::Relaxed);
        loop {
            // A process that cannot be killed ends by itself.
            let _ = kill_children();
            std::thread::sleep(KILL_PAUSE);
        }
    });
    Ok(stop)
}

/// Kills the processes that this one has started.
fn kill_children() -> io::Result<()> {
    let parent = format!("\nPPid:\t{}\n", std::process::id());
    for entry in std::fs::read_dir("/proc")? {
        let folder = entry?.path();
        let id = folder.file_name().and_then(|name| name.to_str()?.parse().ok());
        let Some(id) = id.and_then(Pid::from_raw) else { continue };
        // A process that has ended meanwhile has no status.
        let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
        if status.contains(&parent) {
            kill_process(id, Signal::KILL)?;
        }
    }
    Ok(())
}

/// Makes the folder for the reports, and checks before a long study that they can be written there.
fn check_folder(folder: &Path) -> Result<(), Failure> {
    let checked = std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
    checked.map(drop).map_err(|error| {
        Failure::usage(format!("cannot write reports to {}: {error}", folder.display()))
    })
}

/// Refuses flags that the study does not read.
fn check_flags(arguments: &StudyArguments) -> Result<(), Failure> {
    use StudyName::{Cluster, ConnectionPool, Entity, MergeTree, RequestLife};
    let flags = [
        ("--requests", arguments.requests.is_some(), &[RequestLife][..]),
        ("--documents", arguments.documents.is_some(), &[ConnectionPool]),
        ("--queries", arguments.queries.is_some(), &[ConnectionPool]),
        ("--engine", !arguments.engine.is_empty(), &[Entity]),
        ("--seconds", arguments.seconds.is_some(), &[MergeTree, Cluster, Entity]),
        ("--memory", arguments.memory.is_some(), &[MergeTree, Entity]),
    ];
    for (flag, is_given, studies) in flags {
        if is_given && !studies.contains(&arguments.name) {
            let names = studies.iter().filter_map(ValueEnum::to_possible_value);
            let names: Vec<_> = names.map(|value| value.get_name().to_owned()).collect();
            let text = format!("{flag} is for {} alone: leave it out", names.join(", "));
            return Err(Failure::usage(text));
        }
    }
    Ok(())
}

/// The stores of the study `entity`.
fn engines(kinds: &[EngineKind]) -> Result<Vec<Engine>, Failure> {
    let engine = |kind: &EngineKind| match kind {
        EngineKind::Embedded => Ok(Engine::Embedded),
        #[cfg(feature = "rocksdb")]
        EngineKind::Rocksdb => Ok(Engine::RocksDb),
        #[cfg(not(feature = "rocksdb"))]
        EngineKind::Rocksdb => Err(Failure::usage(crate::settings::WITHOUT_ROCKSDB)),
        EngineKind::Cql => {
            let what = "the study runs on stores of this machine: --engine embedded,rocksdb";
            Err(Failure::usage(what))
        }
    };
    kinds.iter().map(engine).collect()
}

fn report_of(arguments: StudyArguments, stop: Arc<AtomicBool>) -> Result<StudyReport, Failure> {
    let scale = match (arguments.quick, arguments.full) {
        (true, _) => Scale::Quick,
        (_, true) => Scale::Full,
        _ => Scale::Default,
    };
    let study: Box<dyn Study> = match arguments.name {
        StudyName::Cluster => {
            let (seconds, data) = (arguments.seconds, arguments.data);
            Box::new(ClusterStudyOptions { scale, seconds, data })
        }
        StudyName::ConnectionPool => Box::new(ConnectionPoolOptions {
            scale,
            documents: arguments.documents,
            queries: arguments.queries,
            data: arguments.data,
        }),
        StudyName::Entity => Box::new(EntityStudyOptions {
            scale,
            engines: engines(&arguments.engine)?,
            seconds: arguments.seconds,
            memory_bytes: arguments.memory.map(|size| size.0),
            data: arguments.data,
        }),
        StudyName::MergeTree => Box::new(MergeTreeOptions {
            scale,
            seconds: arguments.seconds,
            memory_bytes: arguments.memory.map(|size| size.0),
            data: arguments.data,
        }),
        StudyName::RequestLife => Box::new(RequestLifeOptions {
            scale,
            requests: arguments.requests,
            data: arguments.data,
        }),
    };
    let program = std::env::current_exe()?;
    let child = [program.into(), "study".into(), study.about().name.into(), "--child".into()];
    let mut say = |line: &str| {
        if arguments.json { eprintln!("{line}") } else { print_line!("{line}") }
    };
    let run = StudyRun {
        command: command_line(),
        child: child.to_vec(),
        version: env!("CARGO_PKG_VERSION"),
        say: &mut say,
        stop,
    };
    conduct(&*study, run).map_err(failure_of)
}
