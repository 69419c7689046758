//! `pellucid inspect`: examines and repairs a store that no server has open.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use pellucid_engine::{
    Backup, CopyOptions, CopyProgress, DefinitionReport, Direction, Engine, EngineOptions, IndexId,
    Report, SalvageReport, Selection, TruncatedPart, cut_tail, rebuild_ledger, restore_with,
    salvage, stat, verify,
};
use pellucid_io::SystemFileSystem;
use pellucid_store::BACKUP_BYTES_PER_SECOND_MIN;
use serde_json::{Value, json};

use crate::Failure;
use crate::copy::{self, CopyArguments};
use crate::progress::Progress;
use crate::standard_output::has_failed;

/// The most problems that are printed as text; `--json` prints all that the report contains.
const PROBLEMS_PRINTED_MAX: usize = 100;

/// Look at a store, check it, back it up, repair it.
///
/// The store must not be open: stop its server first.
///
/// Example: pellucid inspect ./data verify
#[derive(Args)]
#[command(subcommand_precedence_over_arg = true)]
pub(crate) struct InspectArguments {
    /// The folder of the store; all actions but `copy` need it.
    directory: Option<PathBuf>,
    /// Print the result as JSON instead.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// The files that the store consists of, by its manifest.
    Stat,
    /// Check every record, block and footer; exit code 1 if something is damaged.
    Verify,
    /// Print what the store holds, one entry a line: table, key, sequence number, length, times.
    Dump {
        /// Only this table.
        #[arg(long)]
        table: Option<String>,
        /// The values, too.
        #[arg(long)]
        values: bool,
    },
    /// Make the ledger anew from the journal: the cure for damaged tables or a lost manifest.
    RebuildLedger,
    /// Make a backup in a new folder; within one file system it takes no space at first.
    Backup {
        /// The folder of the backup.
        to: PathBuf,
        #[command(flatten)]
        speed: CopySpeed,
    },
    /// Make a store from a backup: the folder of the store must be empty or not exist.
    Restore {
        /// The folder of the backup.
        from: PathBuf,
        #[command(flatten)]
        speed: CopySpeed,
    },
    Copy(CopyArguments),
    /// Cut the journal off where an opening refuses to go on, and say what is dropped by that.
    ///
    /// For the image of a volume that was in use, or if what follows damage may go. The files as
    /// they were stay in the journal's folder as *.dropped.
    CutTail,
    /// Take all that is intact of a damaged store into a new one; exit code 1 if something is lost.
    Salvage {
        /// The folder of the new store.
        to: PathBuf,
    },
}

/// The argument for the speed of a backup or a restore.
#[derive(Args)]
struct CopySpeed {
    /// Bytes a second that are copied at most, where files cannot be linked.
    #[arg(long, value_parser = clap::value_parser!(u64).range(BACKUP_BYTES_PER_SECOND_MIN..))]
    bytes_per_second: Option<u64>,
}

impl CopySpeed {
    fn copy(
        &self,
        what: &str,
        make: impl FnOnce(CopyOptions<'_>) -> pellucid_engine::Result<Backup>,
    ) -> pellucid_engine::Result<Backup> {
        let progress = RefCell::new(Progress::on_terminal(what.to_owned(), false));
        let tell = |CopyProgress { done_bytes, total_bytes }| {
            progress.borrow_mut().show_share(done_bytes, total_bytes);
            ControlFlow::Continue(())
        };
        let bytes_per_second_max = self.bytes_per_second.and_then(NonZeroU64::new);
        make(CopyOptions { bytes_per_second_max, progress: Some(&tell) })
    }
}

/// Runs the action of the command line.
pub(crate) fn run(arguments: &InspectArguments) -> Result<(), Failure> {
    let json = arguments.json;
    let directory = match (&arguments.directory, &arguments.action) {
        (None, Action::Copy(stores)) => return copy::run(stores, json),
        (Some(_), Action::Copy(_)) => {
            return Err(Failure::usage("write it so: pellucid inspect copy FROM TO"));
        }
        (Some(directory), _) => &**directory,
        (None, _) => {
            return Err(Failure::usage("name the folder of the store: pellucid inspect DIR …"));
        }
    };
    match &arguments.action {
        Action::Copy(_) => {}
        Action::Restore { from, speed } => {
            if !from.is_dir() {
                return Err(Failure::usage(format!("{} is no folder", from.display())));
            }
            let restored = speed.copy("restoring", |options| {
                restore_with(from, directory, &SystemFileSystem, options)
            });
            print_backup("restored", &restored?, json);
            return Ok(());
        }
        // Opening a store makes it if it does not exist, so the folder has to be checked first.
        _ if !directory.is_dir() => {
            return Err(Failure::usage(format!("{} is no folder", directory.display())));
        }
        Action::Stat => {
            let report = stat(directory, &SystemFileSystem)?;
            print_report(&report, json);
            return outcome_of(&report);
        }
        Action::Verify => return print_verified(&verify(directory, &SystemFileSystem)?, json),
        Action::Dump { table, values } => return dump(directory, table.as_deref(), *values, json),
        Action::RebuildLedger => {
            let last_sequence = rebuild_ledger(directory, options())?;
            match json {
                true => print_json("ledger", json!({ "last_sequence": last_sequence })),
                false => print_line!("rebuilt up to sequence {last_sequence}"),
            }
        }
        Action::Backup { to, speed } => {
            let engine = open(directory)?;
            let outcome = speed.copy("backing up", |options| engine.backup_with(to, options));
            engine.close()?;
            print_backup("backed up", &outcome?, json);
        }
        Action::CutTail => print_cut(&cut_tail(directory, &SystemFileSystem)?, json),
        Action::Salvage { to } => {
            return print_salvaged(&salvage(directory, to, options())?, json);
        }
    }
    Ok(())
}

fn options() -> EngineOptions {
    EngineOptions { file_system: Arc::new(SystemFileSystem), ..EngineOptions::default() }
}

/// Opens an existing store.
fn open(directory: &Path) -> Result<Engine, Failure> {
    stat(directory, &SystemFileSystem)?;
    Ok(Engine::open(directory, options())?)
}

/// Prints a result about `what` as JSON that names its schema.
fn print_json(what: &str, mut result: Value) {
    result["schema"] = format!("pellucid.inspect_{what}.v1").into();
    print_line!("{result}");
}

fn report_json(report: &Report) -> Value {
    let segments = report.segments.iter().map(|segment| {
        json!({
            "path": segment.path.display().to_string(),
            "first_sequence": segment.first_sequence,
            "last_sequence": segment.last_sequence,
            "records": segment.records,
            "size_bytes": segment.size_bytes,
            "is_sealed": segment.is_sealed,
        })
    });
    let tables = report.tables.iter().map(|table| {
        json!({
            "number": table.number,
            "level": table.level,
            "entries": table.entries,
            "size_bytes": table.size_bytes,
            "lowest_sequence": table.lowest_sequence,
            "highest_sequence": table.highest_sequence,
        })
    });
    let definitions = report.definitions.iter().map(|definition| {
        json!({
            "number": definition.number,
            "name": definition.name,
            "kind": kind_of(definition),
            "index_of": definition.index_of,
            "metadata_extractor": definition.options.metadata_extractor,
        })
    });
    let problems = report.problems.iter().map(|problem| {
        json!({
            "path": problem.path.display().to_string(),
            "offset": problem.offset,
            "what": problem.what,
        })
    });
    json!({
        "store_identity": format!("{:016x}", report.store_identity),
        "flushed_sequence": report.flushed_sequence,
        "segments": segments.collect::<Vec<_>>(),
        "tables": tables.collect::<Vec<_>>(),
        "definitions": definitions.collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
        "problems_left_off": report.problems_left_off,
    })
}

/// The kind of a table, in one word.
fn kind_of(definition: &DefinitionReport) -> &'static str {
    match (definition.index_of, definition.options.head_only) {
        (Some(_), _) => "index",
        (None, true) => "heads",
        (None, false) => "objects",
    }
}

fn print_definition(definition: &DefinitionReport) {
    let rule = definition.options.metadata_extractor.as_deref();
    print_line!(
        "  {}  {}  {}{}{}",
        definition.number,
        definition.name.escape_debug(),
        kind_of(definition),
        definition.index_of.map_or(String::new(), |table| format!(" of table {table}")),
        rule.map_or(String::new(), |rule| format!("  head rule {}", rule.escape_debug())),
    );
}

fn print_report(report: &Report, json: bool) {
    if json {
        print_json("store", report_json(report));
        return;
    }
    print_line!(
        "store {:016x}, in tables up to {}",
        report.store_identity,
        report.flushed_sequence
    );
    let bytes: u64 = report.segments.iter().map(|segment| segment.size_bytes).sum();
    print_line!("{} segments, {bytes} bytes", report.segments.len());
    for segment in &report.segments {
        print_line!(
            "  {}  sequences {} to {}  {} bytes{}",
            segment.path.display(),
            segment.first_sequence,
            segment.last_sequence,
            segment.size_bytes,
            if segment.is_sealed { "" } else { "  not sealed" },
        );
    }
    let bytes: u64 = report.tables.iter().map(|table| table.size_bytes).sum();
    print_line!("{} tables, {bytes} bytes", report.tables.len());
    for table in &report.tables {
        print_line!(
            "  {:016x}  level {}  {} entries  sequences {} to {}  {} bytes",
            table.number,
            table.level,
            table.entries,
            table.lowest_sequence,
            table.highest_sequence,
            table.size_bytes,
        );
    }
    print_line!("{} tables of keys and indexes", report.definitions.len());
    report.definitions.iter().for_each(print_definition);
    print_problems(report);
}

fn print_problems(report: &Report) {
    for problem in report.problems.iter().take(PROBLEMS_PRINTED_MAX) {
        print_line!("{problem}");
    }
}

fn print_verified(report: &Report, json: bool) -> Result<(), Failure> {
    if json {
        print_json("store", report_json(report));
    } else {
        print_problems(report);
        let records: u64 = report.segments.iter().map(|segment| segment.records).sum();
        report.definitions.iter().for_each(print_definition);
        let (segments, tables) = (report.segments.len(), report.tables.len());
        let count = problems_of(report);
        print_line!("{records} records in {segments} segments, {tables} tables: {count} problems");
    }
    outcome_of(report)
}

fn problems_of(report: &Report) -> u64 {
    report.problems.len() as u64 + report.problems_left_off
}

fn outcome_of(report: &Report) -> Result<(), Failure> {
    match problems_of(report) {
        0 => Ok(()),
        count => Err(Failure::work(format!(
            "{count} problems: `rebuild-ledger` mends tables, `salvage` saves what is intact"
        ))),
    }
}

fn print_backup(what: &str, backup: &Backup, json: bool) {
    let Backup { sequence, linked_files, copied_files, size_bytes } = backup;
    if json {
        let figures = json!({
            "sequence": sequence,
            "linked_files": linked_files,
            "copied_files": copied_files,
            "size_bytes": size_bytes,
        });
        print_json("backup", figures);
    } else {
        print_line!(
            "{what} up to sequence {sequence}: {size_bytes} bytes, {linked_files} files linked, \
             {copied_files} copied"
        );
    }
}

fn print_cut(parts: &[TruncatedPart], json: bool) {
    if json {
        let parts = parts.iter().map(|part| {
            json!({
                "path": part.path.display().to_string(),
                "offset": part.offset,
                "length": part.length,
                "records": part.records,
                "first_sequence": part.first_sequence,
                "last_sequence": part.last_sequence,
                "kept_as": part.kept_as.display().to_string(),
            })
        });
        print_json("tail", json!({ "dropped": parts.collect::<Vec<_>>() }));
        return;
    }
    for part in parts {
        print_line!(
            "dropped: {} at offset {}, {} bytes, {} intact records, sequences {} to {}; kept as {}",
            part.path.display(),
            part.offset,
            part.length,
            part.records,
            part.first_sequence,
            part.last_sequence,
            part.kept_as.display(),
        );
    }
    print_line!("{} parts dropped", parts.len());
}

fn print_salvaged(salvaged: &SalvageReport, json: bool) -> Result<(), Failure> {
    let count = salvaged.lost.len() as u64 + salvaged.lost_left_off;
    let lost = salvaged.lost.iter();
    if json {
        let lost = lost.map(|lost| {
            json!({
                "path": lost.path.display().to_string(),
                "offset": lost.offset,
                "length": lost.length,
                "first_sequence": lost.first_sequence,
                "last_sequence": lost.last_sequence,
                "what": lost.what,
            })
        });
        let figures = json!({
            "records": salvaged.records,
            "size_bytes": salvaged.size_bytes,
            "last_sequence": salvaged.last_sequence,
            "lost": lost.collect::<Vec<_>>(),
            "lost_left_off": salvaged.lost_left_off,
        });
        print_json("salvage", figures);
    } else {
        for lost in lost.take(PROBLEMS_PRINTED_MAX) {
            print_line!(
                "lost: {} at offset {}, {} bytes, sequences {} to {}: {}",
                lost.path.display(),
                lost.offset,
                lost.length,
                lost.first_sequence,
                lost.last_sequence,
                lost.what,
            );
        }
        print_line!("{} records saved, {} bytes", salvaged.records, salvaged.size_bytes);
    }
    match count {
        0 => Ok(()),
        _ => Err(Failure::work(format!(
            "{count} parts are lost; an older value of a key may show where its newest was there"
        ))),
    }
}

fn dump(directory: &Path, only: Option<&str>, values: bool, json: bool) -> Result<(), Failure> {
    let engine = open(directory)?;
    let tables: Vec<_> =
        engine.tables().into_iter().filter(|(name, _)| only.is_none_or(|o| o == name)).collect();
    if let (Some(name), true) = (only, tables.is_empty()) {
        return Err(Failure::work(format!("there is no table `{name}`")));
    }
    for (name, table) in tables {
        let unbounded = (Bound::Unbounded, Bound::Unbounded);
        let mut scan = engine.scan(table, unbounded.0, unbounded.1, Direction::Forward)?;
        while !has_failed()
            && let Some((key, head)) = scan.next_head()?
        {
            let object = match values {
                true => engine.get(table, key)?,
                false => None,
            };
            let value = object.map(|object| object.value.escape_ascii().to_string());
            let key = key.escape_ascii().to_string();
            if json {
                let entry = json!({
                    "table": name,
                    "key": key,
                    "sequence": head.sequence,
                    "value_length": head.value_length,
                    "written_at_ms": head.written_at_ms,
                    "expires_at_ms": head.expires_at_ms,
                    "head": head.metadata.escape_ascii().to_string(),
                    "value": value,
                });
                print_line!("{entry}");
            } else {
                print_line!(
                    "{name}\t{key}\t{}\t{}\t{}\t{}{}",
                    head.sequence,
                    head.value_length,
                    head.written_at_ms,
                    head.expires_at_ms,
                    value.map_or(String::new(), |value| format!("\t{value}")),
                );
            }
        }
        for (index_name, index) in engine.indexes(table) {
            dump_index(&engine, &name, &index_name, index, json)?;
        }
    }
    engine.close()?;
    Ok(())
}

/// Prints the entries of an index; they follow the objects of its table.
fn dump_index(
    engine: &Engine,
    table: &str,
    name: &str,
    index: IndexId,
    json: bool,
) -> Result<(), Failure> {
    let mut scan = engine.scan_index(index, &Selection::default())?;
    while !has_failed()
        && let Some(entry) = scan.next()?
    {
        let (term, key) = (entry.term.escape_ascii(), entry.key.escape_ascii());
        match json {
            true => {
                let (term, key) = (term.to_string(), key.to_string());
                print_line!("{}", json!({"table": table, "index": name, "term": term, "key": key}));
            }
            false => print_line!("{table}\t{key}\tindex {name}\t{term}"),
        }
    }
    Ok(())
}
