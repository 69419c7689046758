//! `pellucid import`: writes the entities or documents of a file to a server, batch after batch.

mod documents;
mod entities;
mod excerpt;
mod lines;
mod new_entity;
#[cfg(feature = "parquet")]
mod parquet_rows;
mod rows;
mod target;

use std::path::{Path, PathBuf};

use clap::Args;

use super::DATABASE;
use super::entities::SyncLevel;
use super::format::Format;
use super::table::TableArgument;
use crate::Failure;
use crate::progress::Progress;
use crate::remote_server::ServerAddress;
use documents::{DocumentTarget, DuplicatePolicy, Kind, TargetCollection};
use entities::EntityTarget;
#[cfg(feature = "parquet")]
use parquet_rows::ParquetRows;
use rows::{Input, Rows};
use target::{Refusal, Target};

/// The default of `--batch`.
const BATCH_ROWS: u64 = 1_000;
/// The largest `--batch`: the most entries that every kind of store takes at once.
const BATCH_ROWS_MAX: u64 = 65_534;
/// The most bytes of a batch: of keys and values, or of documents. A larger item is a batch of its
/// own.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Write the entities or documents of a file to a server, in batches.
///
/// A batch is written as a whole or not at all. Where one fails, the import stops; it says which
/// line is to blame, up to which line all is written, and goes on behind that with --skip.
///
/// Lines of JSON are as `pellucid scan` and `pellucid export` write them: key or key_base64, value
/// or value_base64, and ttl (seconds) or expires_at_ms where the entity is to be gone one day. CSV
/// and Parquet have columns of these names. With --collection, each line is a document, and each
/// column an attribute; an empty cell is none.
///
/// Of Parquet, nested columns are refused; days and timestamps in documents are texts of ISO 8601.
///
/// Example: pellucid import http://127.0.0.1:8080 entities.ndjson
///
/// Example: pellucid import http://127.0.0.1:8080 users.csv --collection users --infer
#[derive(Args)]
pub(crate) struct ImportArguments {
    #[command(flatten)]
    server: ServerAddress,
    /// The file, or - for standard input, from which Parquet cannot be read.
    file: PathBuf,
    #[command(flatten)]
    table: TableArgument,
    /// The collection that documents are written to.
    #[arg(long, value_name = "NAME", conflicts_with = "table")]
    collection: Option<String>,
    /// The collection's database [default: _system].
    #[arg(long, value_name = "NAME", requires = "collection")]
    database: Option<String>,
    /// Make the collection, if there is none.
    #[arg(long, value_name = "KIND", requires = "collection")]
    create: Option<Kind>,
    /// The form [default: as the file's name ends, else lines of JSON].
    #[arg(long)]
    format: Option<Format>,
    /// Of CSV: a cell that is a value of JSON (a number, true, null, an array, …) is that value.
    #[arg(long, requires = "collection")]
    infer: bool,
    /// The effect of documents whose keys are there already [default: error].
    #[arg(long, value_name = "EFFECT", requires = "collection")]
    on_duplicate: Option<DuplicatePolicy>,
    /// Lines, or of Parquet rows, that are passed over, which an earlier import has written.
    #[arg(long, value_name = "LINES", default_value_t = 0)]
    skip: u64,
    /// Most rows that are written at once, all or none.
    #[arg(
        long,
        value_name = "ROWS",
        default_value_t = BATCH_ROWS,
        value_parser = clap::value_parser!(u64).range(1..=BATCH_ROWS_MAX)
    )]
    batch: u64,
    /// Failure that each acknowledged batch survives [default: that of the server's --sync].
    /// Documents take `disk` only.
    #[arg(long)]
    sync: Option<SyncLevel>,
    /// Of a cluster: write the entities of each node in a batch of their own.
    #[arg(long, conflicts_with = "collection")]
    cluster: bool,
}

/// Imports the file.
pub(crate) fn import(arguments: &ImportArguments) -> Result<(), Failure> {
    let remote = arguments.server.remote(&[])?;
    let format = Format::of(arguments.format, Some(&arguments.file));
    if arguments.infer && format != Format::Csv {
        return Err(Failure::usage("--infer is about the cells of --format csv"));
    }
    let are_documents = arguments.collection.is_some();
    let (rows, names) = open(&arguments.file, format, are_documents, arguments.skip)?;
    let Some(collection) = &arguments.collection else {
        let names = (format != Format::Ndjson).then_some(&*names);
        let how = (arguments.sync, arguments.cluster);
        let target = EntityTarget::new(remote, &arguments.table, names, how)?;
        return Import::new(arguments, rows, target).run();
    };
    let database = arguments.database.as_deref().unwrap_or(DATABASE);
    let place = TargetCollection { remote: &remote, database, collection };
    Import::new(arguments, rows, arguments.documents(place, &names)?).run()
}

/// Opens a file; returns its rows after the first `skipped_to` lines, and the names of its columns,
/// empty if it has none. `are_documents` tells whether its rows are documents or entities.
#[cfg_attr(not(feature = "parquet"), expect(unused_variables, reason = "lines are either"))]
fn open(
    file: &Path,
    format: Format,
    are_documents: bool,
    skipped_to: u64,
) -> Result<(Box<dyn Input>, Vec<String>), Failure> {
    format.check()?;
    #[cfg(feature = "parquet")]
    if format == Format::Parquet {
        let (rows, names) = ParquetRows::open(file, are_documents, skipped_to)?;
        return Ok((Box::new(rows), names));
    }
    let (rows, names) = Rows::open(file, format, skipped_to)?;
    Ok((Box::new(rows), names))
}

impl ImportArguments {
    fn documents<'a>(
        &self,
        place: TargetCollection<'a>,
        names: &[String],
    ) -> Result<DocumentTarget<'a>, Failure> {
        let survives_machine = match self.sync {
            None => false,
            Some(SyncLevel::Disk) => true,
            Some(SyncLevel::Memory | SyncLevel::Os) => {
                let text = "--sync of documents is disk, or as the server is set";
                return Err(Failure::usage(text));
            }
        };
        match self.create {
            Some(kind) => place.make(kind)?,
            None => place.find()?,
        }
        let on_duplicate = self.on_duplicate.unwrap_or(DuplicatePolicy::Error);
        Ok(DocumentTarget::new(place, on_duplicate, survives_machine, names, self.infer))
    }
}

/// An import under way.
struct Import<T: Target> {
    rows: Box<dyn Input>,
    target: T,
    batch: Batch<T::Item>,
    rows_max: u64,
    /// The last line such that all rows that begin up to it are written.
    written_to: u64,
    /// True if it is not known whether the batch after those rows was written.
    is_in_doubt: bool,
    written: u64,
    progress: Progress,
}

/// A batch of items that are written together.
struct Batch<I> {
    /// The unit in which the input is counted, `line` or `row`, for messages.
    unit: &'static str,
    items: Vec<I>,
    /// The line in which each item begins.
    lines: Vec<u64>,
    bytes: usize,
    /// The line in which the last row that was read ends, even if the row was no item.
    last_line: u64,
}

impl<I> Batch<I> {
    fn new(unit: &'static str, last_line: u64) -> Batch<I> {
        Batch { unit, items: Vec::new(), lines: Vec::new(), bytes: 0, last_line }
    }

    /// Returns true if an item of this size fits. An empty batch takes an item of any size.
    fn has_room(&self, bytes: usize) -> bool {
        self.items.is_empty() || self.bytes + bytes <= BATCH_BYTES_MAX
    }

    fn is_full(&self, rows_max: u64) -> bool {
        self.items.len() as u64 >= rows_max || self.bytes >= BATCH_BYTES_MAX
    }

    fn add(&mut self, item: I, line: u64, bytes: usize) {
        self.items.push(item);
        self.lines.push(line);
        self.bytes += bytes;
    }

    /// Names the line of the item at `place`, or the range of all lines if it is not known.
    fn named(&self, place: Option<usize>) -> String {
        let unit = self.unit;
        match (place.and_then(|place| self.lines.get(place)), &self.lines[..]) {
            (Some(line), _) | (None, [line]) => format!("{unit} {line}"),
            (None, [first, .., last]) => format!("{unit}s {first} to {last}"),
            (None, []) => format!("no {unit}"),
        }
    }
}

impl<T: Target> Import<T> {
    fn new(arguments: &ImportArguments, rows: Box<dyn Input>, target: T) -> Import<T> {
        Import {
            batch: Batch::new(rows.unit(), arguments.skip),
            rows,
            target,
            rows_max: arguments.batch,
            written_to: arguments.skip,
            is_in_doubt: false,
            written: 0,
            progress: Progress::on_terminal("imported".to_owned(), false),
        }
    }

    fn run(mut self) -> Result<(), Failure> {
        let outcome = self.write_all();
        let Import { rows, target, written_to, progress, is_in_doubt, .. } = self;
        drop(progress);
        match outcome {
            Ok(()) => {
                eprintln!("{}", target.summary());
                Ok(())
            }
            Err(what) => {
                let how = how_to_go_on(rows.unit(), written_to, is_in_doubt);
                Err(Failure::work(format!("{what}; {how}")))
            }
        }
    }

    fn write_all(&mut self) -> Result<(), String> {
        let unit = self.rows.unit();
        while let Some(row) = self.rows.next()? {
            let (line, last_line) = (row.first_line, row.last_line);
            let item = self.target.item(&row.content);
            let item = item.map_err(|what| format!("{unit} {line}: {what}"))?;
            if let Some(item) = item {
                let bytes = T::bytes(&item);
                if !self.batch.has_room(bytes) {
                    self.write()?;
                }
                self.batch.add(item, line, bytes);
            }
            self.batch.last_line = last_line;
            if self.batch.is_full(self.rows_max) {
                self.write()?;
            }
        }
        self.write()
    }

    /// Writes the batch and starts the next one.
    fn write(&mut self) -> Result<(), String> {
        let batch = &self.batch;
        if !batch.items.is_empty() {
            self.target.write(&batch.items).map_err(|Refusal { text, place, is_undone }| {
                let blamed = batch.named(place);
                if is_undone {
                    return format!("{blamed}: {text}");
                }
                self.is_in_doubt = true;
                let unknown = format!("whether {} are written is not known", batch.named(None));
                format!("{blamed}: {text}; {unknown}: {}", T::AGAIN)
            })?;
        }
        self.written += batch.items.len() as u64;
        self.written_to = batch.last_line;
        self.progress.show(self.written, self.rows.bytes());
        self.batch = Batch::new(self.rows.unit(), self.written_to);
        Ok(())
    }
}

/// Tells how far the import got, and how to continue.
fn how_to_go_on(unit: &str, written_to: u64, is_in_doubt: bool) -> String {
    match written_to {
        0 if is_in_doubt => "nothing before them is written".to_owned(),
        0 => "nothing is written".to_owned(),
        line => format!("all up to {unit} {line} is written: go on with --skip {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_bounded_by_rows_and_bytes() {
        let mut batch = Batch::new("line", 0);
        assert!(batch.has_room(2 * BATCH_BYTES_MAX), "one item is a batch, however large");
        batch.add("a", 3, BATCH_BYTES_MAX - 1);
        assert!(batch.has_room(1) && !batch.has_room(2));
        assert!(batch.is_full(1) && !batch.is_full(2));
        assert_eq!(batch.named(None), "line 3");
        batch.add("b", 7, 1);
        assert!(batch.is_full(3), "by its bytes");
        assert_eq!(batch.named(None), "lines 3 to 7");
        assert_eq!(batch.named(Some(1)), "line 7");
        assert_eq!(batch.named(Some(2)), "lines 3 to 7");
    }
}
