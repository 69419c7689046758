//! One place in one file whose content the medium returns incorrectly: zeros, previous content,
//! content from another place, or nothing. A seed creates a store, stops it in some way, and
//! chooses such places. Each answer has to be the correct one or an error that names the file, and
//! `verify` has to find everything that leads to an error. `PELLUCID_SEEDS=7` and
//! `PELLUCID_SEEDS=0..10000` work as for `simulated_threads`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::tables::*;
use crate::common::{Chooser, Map, STORE, StoredObject, all_paths, seeds, small};
use pellucid_engine::{
    Acknowledgement, Condition, Engine, EngineOptions, Error, IndexId, LostRange, SalvageReport,
    Selection, Snapshot, TableId, rebuild_ledger, salvage, stat, verify,
};
use pellucid_io::FileSystem;
use pellucid_io::simulated::SimulatedFileSystem;

/// The number of seeds in a run of the tests.
const SEEDS: u64 = 250;
/// The number of places that are damaged, one at a time, in copies of the store of a seed.
const FAULTS: u64 = 8;
/// The maximum number of batches of a store.
const BATCHES_MAX: u64 = 160;
/// The number of attempts to find a place where a fault of a kind makes a difference.
const DRAWS: u64 = 40;
const SECTOR_BYTES: usize = 512;
const PAGE_BYTES: usize = 4_096;
const SALVAGED: &str = "/salvaged";

/// All values that were ever written to each key of a table, except those that a power loss undid.
type WrittenValues = BTreeMap<(usize, Vec<u8>), Vec<StoredObject>>;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Zeros, for a block that the medium lost.
    Zeroed,
    /// Previous content, for a write that the medium lost.
    Stale,
    /// Content from another place or another file, for a misdirected write or read.
    Misdirected,
    /// An error: the place cannot be read.
    Unreadable,
}

const KINDS: [Kind; 4] = [Kind::Zeroed, Kind::Stale, Kind::Misdirected, Kind::Unreadable];

/// A place in a file, and the content that the medium returns for it.
#[derive(Clone)]
struct Fault {
    kind: Kind,
    path: PathBuf,
    place: Range<usize>,
    /// The bytes in the place. If the whole file is replaced, it ends with them.
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} at {:?} of {}", self.kind, self.place, self.path.display())
    }
}

impl Fault {
    /// Returns true if `error` is a medium error that names the file. An outdated manifest looks
    /// valid, but files that it names may no longer exist; an outdated segment makes others appear
    /// missing.
    fn explains(&self, error: &Error) -> bool {
        let may_look_right = matches!(self.kind, Kind::Stale | Kind::Misdirected);
        let is_former = may_look_right && self.path.ends_with("manifest");
        let names = |path: &Path| is_former || path == self.path;
        match error {
            Error::Corruption { what, .. } if what.contains("the segment that should follow") => {
                is_former || self.path.starts_with(Path::new(STORE).join("journal"))
            }
            Error::Corruption { path, what, .. } => {
                names(path) || what.contains(&*self.path.to_string_lossy())
            }
            Error::Io { path, .. } | Error::Version { path, .. } | Error::Foreign { path } => {
                names(path)
            }
            _ => false,
        }
    }

    fn strike(&self, files: &SimulatedFileSystem) {
        if self.kind == Kind::Unreadable {
            let place = self.place.start as u64..self.place.end as u64;
            return files.fail_reads(&self.path, place).unwrap();
        }
        let file = files.open(&self.path, true).unwrap();
        file.write_all_at(&self.bytes, self.place.start as u64).unwrap();
        if self.bytes.len() != self.place.len() {
            file.set_length((self.place.start + self.bytes.len()) as u64).unwrap();
        }
        file.sync().unwrap();
    }
}

/// Counts of faults and of their consequences.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    faults: u64,
    /// The store did not open.
    refused: u64,
    /// The store opened, and something could not be read.
    met: u64,
    /// Everything could be read, and `verify` found the damage nevertheless.
    verified: u64,
    /// The end of the journal was treated as torn.
    cut: u64,
    /// The ledger was rebuilt, or the store salvaged, without a loss.
    cured: u64,
}

/// A store, and the states that it may hold.
struct TestedStore {
    choose: Chooser,
    files: SimulatedFileSystem,
    options: EngineOptions,
    engine: Option<Engine>,
    names: Names,
    states: BTreeMap<u64, State>,
    written: WrittenValues,
    /// The medium at earlier times.
    former: Vec<SimulatedFileSystem>,
    /// Of the stopped store: its sequence number, and the segments that the manifest does not list
    /// as sealed.
    sequence: u64,
    tail: BTreeSet<PathBuf>,
    /// The segments of the stopped store that have been replaced by others.
    leftovers: BTreeSet<PathBuf>,
}

impl TestedStore {
    fn begin(seed: u64) -> TestedStore {
        let mut choose = Chooser::new(seed);
        let files = SimulatedFileSystem::new();
        files.keep_writing_back(seed);
        let segment_size_bytes = [8 << 10, 64 << 10][choose.below(2) as usize];
        let metadata_extractors: Vec<Arc<dyn pellucid_engine::MetadataExtractor>> =
            vec![Arc::new(BriefExtractor)];
        let memory_bytes = [64 << 10, 1 << 20][choose.below(2) as usize];
        let sizes = EngineOptions { segment_size_bytes, memory_bytes, ..small(&files) };
        let options = EngineOptions { metadata_extractors, ..sizes };
        let engine = Engine::open(STORE, options.clone()).unwrap();
        let names = names(&engine);
        let first = engine.stats().published_sequence;
        engine.wait_durable(first).unwrap();
        let states = BTreeMap::from([(first, State::default())]);
        TestedStore {
            choose,
            files,
            options,
            engine: Some(engine),
            names,
            states,
            written: BTreeMap::new(),
            former: Vec::new(),
            sequence: first,
            tail: BTreeSet::new(),
            leftovers: BTreeSet::new(),
        }
    }

    fn engine(&self) -> Engine {
        self.engine.clone().expect("it is open")
    }

    fn newest(&self) -> (u64, &State) {
        let (sequence, state) = self.states.last_key_value().expect("there is one");
        (*sequence, state)
    }

    fn step(&mut self) {
        match self.choose.below(100) {
            0..72 => self.write(),
            72..80 => self.engine().wait_durable(self.newest().0).map(drop).unwrap(),
            80..85 => self.engine().flush().unwrap(),
            85..88 => self.engine().compact().unwrap(),
            88..91 => self.engine().collect().map(drop).unwrap(),
            91..94 => self.reopen(),
            _ => self.former.push(self.files.crash(self.choose.below(1 << 40))),
        }
    }

    fn write(&mut self) {
        let count = if self.choose.below(2) == 0 { 1 } else { 1 + self.choose.below(6) };
        let changes: Vec<_> = (0..count).map(|_| draw_change(&mut self.choose, None)).collect();
        let (condition, os) = (Condition::None, Acknowledgement::Os);
        let last = write_changes(&self.engine(), &self.names, &changes, condition, os).unwrap();
        let mut state = self.newest().1.clone();
        state.apply(last, &changes);
        self.states.insert(last, state);
        let first = last + 1 - changes.len() as u64;
        for (sequence, change) in (first..).zip(changes) {
            let Some((head, value)) = change.put else { continue };
            let held = StoredObject { sequence, expires_at_ms: 0, head, value };
            self.written.entry((change.table, change.key)).or_default().push(held);
        }
    }

    /// Stops the store in some way, and opens it again.
    fn reopen(&mut self) {
        self.stop();
        self.files.keep_writing_back(self.choose.below(1 << 40));
        let engine = Engine::open(STORE, self.options.clone()).unwrap();
        let sequence = engine.stats().published_sequence;
        self.lose_what_follows(sequence);
        assert_eq!(self.newest().0, sequence, "it is the end of a batch");
        self.engine = Some(engine);
    }

    fn lose_what_follows(&mut self, sequence: u64) {
        self.states.split_off(&(sequence + 1));
        self.written.values_mut().for_each(|all| all.retain(|held| held.sequence <= sequence));
    }

    /// Stops the store; returns true if it was closed cleanly.
    fn stop(&mut self) -> bool {
        let engine = self.engine.take().expect("it is open");
        let draw = self.choose.below(1 << 40);
        let stop = self.choose.below(4);
        let is_closed = stop < 2;
        if is_closed {
            engine.close().unwrap();
        }
        drop(engine);
        self.files =
            if stop.is_multiple_of(2) { self.files.kill() } else { self.files.crash(draw) };
        self.options.file_system = Arc::new(self.files.clone());
        is_closed
    }

    fn end(mut self) -> TestedStore {
        for _ in 0..20 + self.choose.below(BATCHES_MAX) {
            self.step();
        }
        self.former.push(self.files.crash(self.choose.below(1 << 40)));
        if self.choose.below(2) == 0 {
            self.engine().flush().unwrap();
        }
        let is_closed = self.stop();
        let copy = self.files.kill();
        let report = verify(STORE, &copy).unwrap();
        assert_eq!(report.problems, []);
        let named = stat(STORE, &copy).unwrap().segments;
        let is_sealed =
            |path: &PathBuf| named.iter().any(|named| named.is_sealed && named.path == *path);
        let current: BTreeSet<_> = report.segments.into_iter().map(|found| found.path).collect();
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "journal");
        let segments: BTreeSet<_> = all_paths(&copy).into_iter().filter(is_segment).collect();
        self.leftovers = segments.difference(&current).cloned().collect();
        self.tail = current.into_iter().filter(|path| !is_sealed(path)).collect();
        assert!(self.tail.is_empty() || !is_closed, "a clean stop leaves {:?}", self.tail);
        let engine = Engine::open(STORE, options_of(&self.options, &copy)).unwrap();
        self.sequence = engine.stats().published_sequence;
        self
    }

    /// Chooses a place and its content; returns `None` if that is the correct content.
    fn draw(&mut self, kind: Kind) -> Option<Fault> {
        // The tail is one of many files, as is the file that opening rewrites.
        let paths = match self.choose.below(4) {
            0 if !self.tail.is_empty() => self.tail.iter().cloned().collect(),
            _ => all_paths(&self.files),
        };
        let path = paths[self.choose.below(paths.len() as u64) as usize].clone();
        let content = self.files.read(&path).unwrap();
        if kind == Kind::Stale && path.ends_with("manifest") && self.choose.below(2) == 0 {
            let place = 0..content.len();
            let bytes = self.former_file().read(&path).ok()?;
            return Some(Fault { kind, path, place, bytes }).filter(|fault| fault.bytes != content);
        }
        let unit = [SECTOR_BYTES, SECTOR_BYTES, PAGE_BYTES][self.choose.below(3) as usize];
        let used = content.iter().rposition(|byte| *byte != 0)? + 1;
        let place = self.place(used, unit)?;
        let bytes = match kind {
            Kind::Zeroed | Kind::Unreadable => vec![0; place.len()],
            Kind::Stale => {
                let former = self.former_file().read(&path).ok()?;
                let mut bytes = former.get(place.start..)?.to_vec();
                bytes.resize(place.len(), 0);
                bytes
            }
            Kind::Misdirected => self.elsewhere(place.len())?,
        };
        let is_changed = kind == Kind::Unreadable || content[place.clone()] != bytes;
        is_changed.then_some(Fault { kind, path, place, bytes })
    }

    /// Returns true if a fault may look like another power loss: a fault in the tail, or a part of
    /// a file that reappears and was once part of the tail. An unreadable place never does.
    fn may_end_at(&self, sequence: u64, fault: &Fault) -> bool {
        let is_back = sequence > self.sequence && self.leftovers.contains(&fault.path);
        fault.kind != Kind::Unreadable && (is_back || self.tail.contains(&fault.path))
    }

    fn former_file(&mut self) -> SimulatedFileSystem {
        let number = self.choose.below(self.former.len() as u64) as usize;
        self.former[number].clone()
    }

    /// Chooses a sector or page of `unit` bytes: the first and the last one more often than others.
    fn place(&mut self, length: usize, unit: usize) -> Option<Range<usize>> {
        let units = length.div_ceil(unit);
        let number = match self.choose.below(8) {
            0 => 0,
            1 => units.checked_sub(1)?,
            _ => self.choose.below(units.max(1) as u64) as usize,
        };
        Some(number * unit..((number + 1) * unit).min(length)).filter(|place| !place.is_empty())
    }

    /// Returns the bytes of any place of any file at any time.
    fn elsewhere(&mut self, length: usize) -> Option<Vec<u8>> {
        let files = match self.choose.below(2) {
            0 => self.files.clone(),
            _ => self.former_file(),
        };
        let paths = all_paths(&files);
        let path = &paths[self.choose.below(paths.len() as u64) as usize];
        let content = files.read(path).unwrap();
        let place = self.place(content.len(), length.max(SECTOR_BYTES))?;
        let mut bytes = content[place].to_vec();
        bytes.resize(length, 0);
        Some(bytes)
    }

    fn try_fault(&mut self, fault: &Fault, counts: &mut Counts) {
        let files = self.files.kill();
        fault.strike(&files);
        counts.faults += 1;
        let is_found = match verify(STORE, &files) {
            Ok(report) => !report.problems.is_empty(),
            Err(error) => {
                assert!(fault.explains(&error), "{error}");
                true
            }
        };
        let cured = match self.choose.below(4) {
            0 => self.rebuild(fault, &files.kill(), is_found),
            1 => self.salvage(fault, &files.kill(), is_found),
            _ => false,
        };
        counts.cured += u64::from(cured);
        let engine = match Engine::open(STORE, options_of(&self.options, &files)) {
            Ok(engine) => engine,
            Err(error) => {
                assert!(fault.explains(&error), "opening: {error}");
                assert!(is_found, "verify finds nothing, and opening says {error}");
                counts.refused += 1;
                return;
            }
        };
        let snapshot = engine.snapshot();
        let sequence = snapshot.sequence();
        if sequence != self.sequence {
            assert!(self.may_end_at(sequence, fault), "{sequence} of {}", self.sequence);
            counts.cut += 1;
        }
        // In the tail, content from before a power loss may reappear.
        let Some(state) = self.states.get(&sequence) else { return };
        let errors = self.compare(&engine, &snapshot, state, fault);
        drop(snapshot);
        assert!(errors == 0 || is_found, "verify finds nothing, and {errors} reads fail");
        counts.met += u64::from(errors > 0);
        counts.verified += u64::from(errors == 0 && is_found);
        let state = state.clone();
        self.go_on(engine, state, &files, fault, is_found);
    }

    /// Reads everything in several ways, and counts the errors.
    fn compare(&self, engine: &Engine, seen: &Snapshot, state: &State, fault: &Fault) -> u64 {
        let mut errors = Vec::new();
        let mut note = |outcome: Result<(), Error>| errors.extend(outcome.err());
        for (number, map) in state.tables.iter().enumerate() {
            let table = self.names.0[number];
            note(scan_table(seen, table, map));
            map.iter().for_each(|(key, right)| {
                note(engine.get(table, key).map(|found| {
                    assert_eq!(found.as_ref().map(held).as_ref(), Some(right));
                }));
                note(engine.head(table, key).map(|head| {
                    assert_eq!(head.map(|head| head.sequence), Some(right.sequence));
                }));
            });
            let ever =
                self.written.keys().filter(|(of, key)| *of == number && !map.contains_key(key));
            ever.for_each(|(_, key)| {
                let found = engine.get(table, key);
                note(found.map(|found| assert!(found.is_none(), "a key is back")));
            });
        }
        for (index, entries) in std::iter::zip(self.names.1, &state.indexes) {
            note(scan_index(seen, index, entries));
        }
        errors.iter().for_each(|error| assert!(fault.explains(error), "{error}"));
        errors.len() as u64
    }

    /// Continues to use the store: damaged data stays damaged, and no other data becomes damaged.
    fn go_on(
        &mut self,
        engine: Engine,
        mut state: State,
        files: &SimulatedFileSystem,
        fault: &Fault,
        is_found: bool,
    ) {
        let note = |outcome: Result<(), Error>| {
            if let Err(error) = outcome {
                let is_known = fault.explains(&error)
                    || matches!(&error, Error::Poisoned { .. } | Error::Closed);
                assert!(is_known && is_found, "{error}");
            }
        };
        for _ in 0..8 {
            match self.choose.below(5) {
                0 | 1 => {
                    let changes = vec![draw_change(&mut self.choose, None)];
                    let (condition, os) = (Condition::None, Acknowledgement::Os);
                    let written = write_changes(&engine, &self.names, &changes, condition, os);
                    note(written.map(|last| state.apply(last, &changes)));
                }
                2 => note(engine.flush()),
                3 => note(engine.compact()),
                _ => note(engine.collect().map(drop)),
            }
        }
        self.compare(&engine, &engine.snapshot(), &state, fault);
        note(engine.close());
        drop(engine);
        let files = files.kill();
        match Engine::open(STORE, options_of(&self.options, &files)) {
            Ok(engine) => {
                self.compare(&engine, &engine.snapshot(), &state, fault);
            }
            Err(error) => assert!(fault.explains(&error) && is_found, "{error}"),
        }
    }

    /// Rebuilds the ledger; returns true if everything is there again.
    fn rebuild(&self, fault: &Fault, files: &SimulatedFileSystem, is_found: bool) -> bool {
        let options = options_of(&self.options, files);
        if let Err(error) = rebuild_ledger(STORE, options.clone()) {
            // Without the manifest, the files themselves tell which of them have been replaced.
            let is_found = is_found || self.leftovers.contains(&fault.path);
            assert!(is_found, "verify finds nothing, and a rebuild says {error}");
            return false;
        }
        let engine = Engine::open(STORE, options).unwrap();
        let snapshot = engine.snapshot();
        let sequence = snapshot.sequence();
        let is_whole = sequence == self.sequence;
        assert!(is_whole || self.may_end_at(sequence, fault), "{sequence} of {}", self.sequence);
        let Some(state) = self.states.get(&sequence) else { return false };
        self.compare(&engine, &snapshot, state, fault) == 0 && is_whole
    }

    /// Salvages the store: everything that is missing is reported as lost. Returns true if nothing
    /// is.
    fn salvage(&self, fault: &Fault, files: &SimulatedFileSystem, is_found: bool) -> bool {
        let options = options_of(&self.options, files);
        let salvaged = match salvage(STORE, SALVAGED, options.clone()) {
            Ok(salvaged) => salvaged,
            Err(error) => {
                assert!(is_found && fault.explains(&error), "a salvage says {error}");
                return false;
            }
        };
        let is_lost = |sequence: u64| {
            let covers = |lost: &LostRange| match lost.last_sequence {
                0 => lost.first_sequence <= sequence,
                last => (lost.first_sequence..=last).contains(&sequence),
            };
            salvaged.lost.iter().any(covers)
        };
        let engine = Engine::open(SALVAGED, options).unwrap();
        for (number, map) in self.states[&self.sequence].tables.iter().enumerate() {
            for (key, right) in map {
                let found = engine.get(self.names.0[number], key).unwrap().as_ref().map(held);
                // Records behind a torn tail are salvaged as well.
                if found.as_ref() != Some(right) && self.tail.is_empty() {
                    assert!(is_lost(right.sequence), "{} is lost in silence", right.sequence);
                    let written = &self.written[&(number, key.clone())];
                    let is_former = found.is_none_or(|held| written.contains(&held));
                    assert!(is_former, "a value that never was");
                }
            }
        }
        self.check_deleted(&engine, &salvaged);
        salvaged.lost.is_empty()
    }

    /// Removed entries reappear only if a record behind them is among the lost ones.
    fn check_deleted(&self, engine: &Engine, salvaged: &SalvageReport) {
        let tables = &self.states[&self.sequence].tables;
        let is_gone = |(number, key): &(usize, Vec<u8>)| !tables[*number].contains_key(key);
        for ((number, key), written) in self.written.iter().filter(|(place, _)| is_gone(place)) {
            let Some(object) = engine.get(self.names.0[*number], key).unwrap() else { continue };
            let found = held(&object);
            let is_behind = |lost: &LostRange| match lost.last_sequence {
                0 => true,
                last => last > found.sequence,
            };
            // Records behind a torn tail, or behind the end, are salvaged as well.
            if self.tail.is_empty() && found.sequence <= self.sequence {
                assert!(written.contains(&found), "a value that never was");
                assert!(salvaged.lost.iter().any(is_behind), "{} is back", found.sequence);
            }
        }
    }
}

/// Reads a table to its end or to an error.
fn scan_table(seen: &Snapshot, table: TableId, map: &Map) -> Result<(), Error> {
    let mut expected = map.iter();
    seen.fold_objects(table, &Selection::default(), (), |(), key, object| {
        let right = expected.next().expect("no more than there are");
        assert_eq!((key, &held(object)), (&right.0[..], right.1));
        ControlFlow::Continue(())
    })?;
    assert!(expected.next().is_none(), "a scan ends early");
    Ok(())
}

/// Does the same as [`scan_table`] for an index.
fn scan_index(seen: &Snapshot, index: IndexId, entries: &Entries) -> Result<(), Error> {
    let mut expected = entries.keys();
    seen.fold_index(index, &Selection::default(), (), |(), entry| {
        let right = expected.next().expect("no more than there are");
        assert_eq!((entry.term, entry.key), (&right.0[..], &right.1[..]));
        ControlFlow::Continue(())
    })?;
    assert!(expected.next().is_none(), "a scan ends early");
    Ok(())
}

fn options_of(options: &EngineOptions, files: &SimulatedFileSystem) -> EngineOptions {
    EngineOptions { file_system: Arc::new(files.clone()), ..options.clone() }
}

fn run_seed(seed: u64, counts: &mut BTreeMap<Kind, Counts>) {
    let mut store = TestedStore::begin(seed).end();
    for number in 0..FAULTS {
        let kind = KINDS[(number % 4) as usize];
        let Some(fault) = (0..DRAWS).find_map(|_| store.draw(kind)) else { continue };
        let of_kind = counts.entry(fault.kind).or_default();
        let attempt = AssertUnwindSafe(|| store.try_fault(&fault, of_kind));
        if let Err(panic) = catch_unwind(attempt) {
            println!("seed {seed}, fault {number}: {fault:?}");
            resume_unwind(panic);
        }
    }
}

#[test]
fn wrong_data_from_the_medium_is_an_error_and_never_an_answer() {
    let mut counts = BTreeMap::new();
    let seeds = seeds(SEEDS);
    let is_long = seeds.end - seeds.start >= SEEDS;
    seeds.for_each(|seed| run_seed(seed, &mut counts));
    for (kind, counts) in counts {
        println!("{kind:?}: {counts:?}");
        let is_busy = counts.refused.min(counts.met).min(counts.verified).min(counts.cured) > 0;
        assert!(is_busy || !is_long, "something of this kind never happens");
    }
}
