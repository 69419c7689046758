//! The model test compares the store with ordered maps under random batches, deaths of the process,
//! power losses, collection, backups and rebuilt ledgers: one table, or tables with options and
//! indexes. A failing seed is all that is needed to reproduce a failure.

use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;

use crate::common::tables::*;
use crate::common::{Chooser, STORE, StoredObject, collect, remove_backup, small, take_steps};
use pellucid_account::Timeline;
use pellucid_clock::{Clock, SimulatedClock};
use pellucid_engine::{
    Acknowledgement, Compression, Condition, Direction, Engine, EngineOptions, Error, ReadMode,
    Selection, Snapshot, TERM_LENGTH_MAX, TableOptions, rebuild_ledger, restore,
};
use pellucid_io::simulated::SimulatedFileSystem;

/// The number of seeds in each run with one table, and with all tables.
const SEEDS: u64 = 300;
const SEEDS_OF_ALL_TABLES: u64 = 120;
/// The first wall-clock time, in milliseconds.
const WALL_FIRST_MS: u64 = 1_000_000_000;

/// The tables and steps of a run, and options that change no answer: the storage of values and
/// blocks in the table `PLAIN`, and the size of memory.
#[derive(Clone, Debug)]
struct Configuration {
    tables: usize,
    steps: u64,
    options: TableOptions,
    memory_bytes: u64,
}

impl Configuration {
    /// Returns one of all configurations with one table, by number.
    fn of(number: u64) -> Configuration {
        let bit = |bit: u32| number >> bit & 1 == 1;
        let compression = |is_on| if is_on { Compression::Lz4 } else { Compression::None };
        let options = TableOptions {
            held_value_length_max: if bit(0) { 64 } else { 0 },
            value_compression: compression(bit(1)),
            block_compression: compression(bit(2)),
            ..TableOptions::default()
        };
        let memory_bytes = if bit(3) { 64 << 10 } else { 4 << 20 };
        Configuration { tables: 1, steps: 450, options, memory_bytes }
    }

    /// Returns one with all tables, whose memtables are often full.
    fn of_all_tables(number: u64) -> Configuration {
        let memory_bytes = 64 << 10;
        Configuration { tables: TABLES, steps: 250, memory_bytes, ..Configuration::of(number) }
    }
}

/// The number of configurations.
const CONFIGURATIONS: u64 = 16;

/// A key and its object.
type Row = (Vec<u8>, StoredObject);

struct Model {
    seed: u64,
    configuration: Configuration,
    files: SimulatedFileSystem,
    options: EngineOptions,
    engine: Option<Engine>,
    names: Names,
    state: State,
    last_sequence: u64,
    /// The last state known to be on the medium, with its sequence number, and the batches since.
    durable: (u64, State),
    pending: Vec<(u64, Vec<Change>)>,
    snapshots: Vec<(Snapshot, State)>,
    choose: Chooser,
    clock: &'static SimulatedClock,
    /// The highest wall-clock time so far.
    wall_max_ms: u64,
    backups: u64,
}

impl Model {
    fn new(seed: u64, configuration: Configuration) -> Model {
        let mut choose = Chooser::new(seed);
        let files = SimulatedFileSystem::new();
        files.keep_writing_back(seed);
        let mut options = small(&files);
        let clock = SimulatedClock::leaked(WALL_FIRST_MS);
        options.clock = Clock::simulated(clock);
        options.segment_size_bytes = [4 << 10, 8 << 10, 64 << 10][choose.below(3) as usize];
        options.memory_bytes = configuration.memory_bytes;
        options.metadata_extractors = vec![Arc::new(BriefExtractor)];
        let engine = Engine::open(STORE, options.clone()).unwrap();
        engine.table_with("plain", &configuration.options).unwrap();
        let names = names(&engine);
        let last_sequence = engine.stats().published_sequence;
        engine.wait_durable(last_sequence).unwrap();
        Model {
            seed,
            configuration,
            files,
            options,
            engine: Some(engine),
            names,
            state: State::default(),
            last_sequence,
            durable: (last_sequence, State::default()),
            pending: Vec::new(),
            snapshots: Vec::new(),
            choose,
            clock,
            wall_max_ms: WALL_FIRST_MS,
            backups: 0,
        }
    }

    fn engine(&self) -> Engine {
        self.engine.clone().expect("the engine is open")
    }

    fn step(&mut self) {
        if self.choose.below(4) == 0 {
            self.files.write_back(self.choose.below(1 << 40));
        }
        match self.choose.below(116) {
            0..55 => self.write(),
            55..60 => self.write_refused(),
            60..70 => self.look_up(),
            70..75 => self.scan(),
            75..82 => self.select_objects(),
            82..90 => self.select_entries(),
            90..94 => self.snapshot(),
            94..97 => self.sync(),
            97..99 => self.flush(),
            99 => self.engine().compact().unwrap(),
            100..102 => self.reopen(),
            102..104 => self.kill(),
            104..107 => self.crash(),
            107..110 => self.collect(),
            110 => self.backup(),
            111 => self.rebuild(),
            112..114 => self.step_clock(),
            _ => self.check_all(),
        }
    }

    fn change(&mut self) -> Change {
        let now_ms = Some(self.engine().now_ms());
        if self.configuration.tables == 1 {
            let change = draw_change_of(PLAIN, &mut self.choose, now_ms);
            return Change { terms: Vec::new(), ..change };
        }
        draw_change(&mut self.choose, now_ms)
    }

    /// Writes changes as one batch, with a condition on the last one, and returns the result.
    fn write_changes(&self, changes: &[Change], condition: Condition) -> Result<u64, Error> {
        write_changes(&self.engine(), &self.names, changes, condition, Acknowledgement::Os)
    }

    fn write(&mut self) {
        let count = if self.choose.below(2) == 0 { 1 } else { 1 + self.choose.below(6) };
        let changes: Vec<_> = (0..count).map(|_| self.change()).collect();
        self.purge();
        let last = &changes[changes.len() - 1];
        let current = self.state.tables[last.table].get(&last.key).map(|held| held.sequence);
        let (condition, holds) = match self.choose.below(12) {
            0 => (Condition::Absent, current.is_none()),
            1 => (Condition::Present, current.is_some()),
            2 => (Condition::Sequence(current.unwrap_or(7)), current.is_some()),
            3 => (Condition::Sequence(current.unwrap_or(0) + 1), false),
            _ => (Condition::None, true),
        };
        match self.write_changes(&changes, condition) {
            Ok(sequence) => {
                assert!(holds);
                assert_eq!(sequence, self.last_sequence + length(&changes));
                self.state.apply(sequence, &changes);
                self.last_sequence = sequence;
                self.pending.push((sequence, changes));
            }
            Err(Error::ConditionFailed { index, current: reported }) => {
                assert!(!holds);
                assert_eq!((index as u64, reported), (count - 1, current));
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Checks that one invalid operation refuses the whole batch and that nothing of it is written.
    fn write_refused(&mut self) {
        let mut changes = vec![self.change(), self.change()];
        let bad = &mut changes[1];
        bad.terms.clear();
        let put = |value: &[u8]| Some((Vec::new(), value.to_vec()));
        let is_expected: fn(&Error) -> bool = match self.choose.below(4) {
            0 => {
                (bad.table, bad.put) = (HEAD_ONLY, put(b"value"));
                |error| matches!(error, Error::ValueRefused { .. })
            }
            1 => {
                (bad.table, bad.put) = (PLAIN, put(b""));
                bad.terms.push((0, vec![b't'; TERM_LENGTH_MAX + 1], true));
                |error| matches!(error, Error::TermLength { .. })
            }
            2 => {
                (bad.table, bad.put) = (HEAD_ONLY, put(b""));
                bad.terms.push((0, b"of another table".to_vec(), true));
                |error| matches!(error, Error::IndexUnknown { .. })
            }
            _ => {
                (bad.table, bad.put) = (PLAIN, None);
                bad.terms.push((0, b"of what is gone".to_vec(), true));
                |error| matches!(error, Error::IndexedDelete { .. })
            }
        };
        let refused = self.write_changes(&changes, Condition::None).unwrap_err();
        assert!(is_expected(&refused), "{refused:?}");
        assert_eq!(self.engine().stats().published_sequence, self.last_sequence);
    }

    fn purge(&mut self) {
        let now_ms = self.engine().now_ms();
        self.state.purge(now_ms);
        for (_, state) in &mut self.snapshots {
            state.purge(now_ms);
        }
    }

    fn draw_table(&mut self) -> usize {
        self.choose.below(self.configuration.tables as u64) as usize
    }

    fn look_up(&mut self) {
        self.purge();
        let (number, key) = (self.draw_table(), self.choose.key());
        let expected = self.state.tables[number].get(&key);
        let (engine, table) = (self.engine(), self.names.0[number]);
        let object = engine.get(table, &key).unwrap();
        assert_eq!(object.as_ref().map(held).as_ref(), expected);
        let mut timeline = Timeline::off();
        let head = engine.head_timed(table, &key, ReadMode::MayBlock, &mut timeline);
        assert_eq!(timeline.counts.records, 0, "a head never reads the journal");
        assert_eq!(
            head.unwrap().value().map(|head| (head.sequence, head.value_length as usize)),
            expected.map(|held| (held.sequence, held.value.len()))
        );
    }

    /// The rows of a table within bounds, in order.
    fn rows(&self, table: usize, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Vec<Row> {
        let rows = self.state.tables[table].iter().filter(|(key, _)| bounds.contains(&key[..]));
        rows.map(|(key, held)| (key.clone(), held.clone())).collect()
    }

    fn scan(&mut self) {
        self.purge();
        let (low, high) = (self.choose.key(), self.choose.key());
        let (start, end) = (self.choose.bound(&low), self.choose.bound(&high));
        let (direction, _) = self.direction_and_limit();
        let table = self.draw_table();
        let expected = select(self.rows(table, (start, end)), direction, u64::MAX);
        let mut scan = self.engine().scan(self.names.0[table], start, end, direction).unwrap();
        if self.choose.below(2) == 0 {
            assert_eq!(collect(scan).unwrap(), expected);
        } else {
            for (key, held) in expected {
                let (found, head) = scan.next_head().unwrap().expect("there is one more");
                assert_eq!((found, head.sequence), (&key[..], held.sequence));
            }
            assert!(scan.next_head().unwrap().is_none());
        }
    }

    fn direction_and_limit(&mut self) -> (Direction, u64) {
        let direction = [Direction::Forward, Direction::Backward][self.choose.below(2) as usize];
        (direction, [u64::MAX, 0, 1, 5][self.choose.below(4) as usize])
    }

    fn select_objects(&mut self) {
        self.purge();
        let (low, high) = (self.choose.key(), self.choose.key());
        let (start, end) = (self.choose.bound(&low), self.choose.bound(&high));
        let (direction, limit) = self.direction_and_limit();
        let selection = Selection { start, end, direction, limit };
        let table = self.draw_table();
        let expected = select(self.rows(table, (start, end)), direction, limit);
        let stop_at = self.choose.below(8) as usize;
        let engine = self.engine();
        let found = engine.snapshot().fold_objects(
            self.names.0[table],
            &selection,
            Vec::new(),
            |mut rows, key, object| {
                rows.push((key.to_vec(), held(object)));
                match rows.len() > stop_at {
                    true => ControlFlow::Break(rows),
                    false => ControlFlow::Continue(rows),
                }
            },
        );
        let stopped: Vec<_> = expected.iter().take(stop_at + 1).cloned().collect();
        assert_eq!(found.unwrap(), stopped);
        let keys = engine.snapshot().fold_keys(self.names.0[table], &selection, 0, |count, key| {
            assert_eq!(key, expected[count].0);
            ControlFlow::Continue(count + 1)
        });
        assert_eq!(keys.unwrap(), expected.len());
    }

    /// Reads an index, all at once and page by page, with the objects of the entries.
    fn select_entries(&mut self) {
        self.purge();
        let (low, high) = (draw_term(&mut self.choose), draw_term(&mut self.choose));
        let (start, end) = (self.choose.bound(&low), self.choose.bound(&high));
        let (direction, limit) = self.direction_and_limit();
        let selection = Selection { start, end, direction, limit };
        let number = self.choose.below(INDEX_TABLES.len() as u64) as usize;
        let entries = self.state.indexes[number].keys();
        let entries =
            entries.filter(|(term, _)| (start, end).contains(&term[..])).cloned().collect();
        let expected = select(entries, direction, limit);
        let (engine, index) = (self.engine(), self.names.1[number]);
        let snapshot = engine.snapshot();
        let page = Selection { limit: 1 + self.choose.below(3), ..selection };
        let objects = &self.state.tables[INDEX_TABLES[number]];
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut is_done = limit == 0;
        while !is_done {
            let mut scan = match found.last() {
                None => snapshot.scan_index(index, &page).unwrap(),
                Some((term, key)) => snapshot.scan_index_after(index, &page, term, key).unwrap(),
            };
            let before = found.len();
            while let Some((entry, object)) = scan.next_object().unwrap() {
                assert_eq!(object.as_ref().map(held).as_ref(), objects.get(entry.key));
                found.push((entry.term.to_vec(), entry.key.to_vec()));
            }
            is_done = found.len() == before || found.len() as u64 >= limit;
        }
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        assert_eq!(found, expected);
        let counted = engine.snapshot().fold_index(index, &selection, 0, |count, entry| {
            let (term, key) = &expected[count];
            assert_eq!((entry.term, entry.key), (&term[..], &key[..]));
            ControlFlow::Continue(count + 1)
        });
        assert_eq!(counted.unwrap(), expected.len());
    }

    fn check_all(&mut self) {
        self.purge();
        let engine = self.engine();
        check(&engine.snapshot(), &self.names, &self.state);
        for (table, map) in std::iter::zip(&self.names.0, &self.state.tables) {
            for (key, expected) in map {
                let mut timeline = Timeline::off();
                let object = engine.get_timed(*table, key, ReadMode::MayBlock, &mut timeline);
                let object = object.unwrap().value().unwrap();
                assert_eq!(held(&object), *expected);
                let head = engine.head(*table, key).unwrap().expect("it is there");
                assert_eq!(
                    (head.sequence, &*head.metadata),
                    (expected.sequence, &expected.head[..])
                );
                let held_max = engine.table_options(*table).unwrap().held_value_length_max;
                let is_in_ledger = expected.value.len() <= held_max as usize;
                assert_eq!(timeline.counts.records == 0, is_in_ledger, "only the ledger is read");
            }
        }
    }

    fn snapshot(&mut self) {
        self.purge();
        if self.snapshots.len() < 4 && self.choose.below(2) == 0 {
            self.snapshots.push((self.engine().snapshot(), self.state.clone()));
        } else if !self.snapshots.is_empty() {
            let index = self.choose.below(self.snapshots.len() as u64) as usize;
            let (snapshot, state) = &self.snapshots[index];
            check(snapshot, &self.names, state);
            if self.choose.below(2) == 0 {
                self.snapshots.swap_remove(index);
            }
        }
    }

    /// Records that everything is on the medium.
    fn durable(&mut self) {
        self.durable = (self.last_sequence, self.state.clone());
        self.pending.clear();
    }

    fn sync(&mut self) {
        self.engine().wait_durable(self.last_sequence).unwrap();
        self.durable();
    }

    fn flush(&mut self) {
        self.engine().flush().unwrap();
        self.durable();
    }

    fn collect(&mut self) {
        if self.choose.below(2) == 0 {
            self.flush();
            self.engine().compact().unwrap();
        }
        self.engine().collect().unwrap();
        self.check_all();
    }

    fn drop_engine(&mut self) {
        self.snapshots.clear();
        self.engine = None;
    }

    fn open(&mut self, files: SimulatedFileSystem) {
        self.options.file_system = Arc::new(files.clone());
        files.keep_writing_back(self.choose.below(1 << 40));
        self.files = files;
        let engine = Engine::open(STORE, self.options.clone()).unwrap();
        assert_eq!(names(&engine), self.names);
        self.engine = Some(engine);
    }

    fn reopen(&mut self) {
        self.engine().close().unwrap();
        self.drop_engine();
        self.durable();
        // Everything that a clean stop leaves behind also survives a power loss.
        let seed = self.choose.below(1 << 40);
        let files =
            if self.choose.below(2) == 0 { self.files.kill() } else { self.files.crash(seed) };
        self.open(files);
        assert_eq!(self.engine().stats().published_sequence, self.last_sequence);
        self.check_all();
    }

    /// Sets the clock right. The highest time is not on the medium at every moment: if the process
    /// dies and the clock is set back at once, expired entries may become visible again.
    fn set_clock_right(&self) {
        self.clock.set_wall_ms(self.wall_max_ms);
    }

    fn kill(&mut self) {
        self.set_clock_right();
        let files = self.files.kill();
        self.drop_engine();
        self.open(files);
        assert_eq!(self.engine().stats().published_sequence, self.last_sequence);
        self.check_all();
        self.durable();
    }

    /// Checks that the recovered state is the state after one of the batches: no index entry
    /// without its object, and no object without its entries.
    fn crash(&mut self) {
        self.set_clock_right();
        let files = self.files.crash(self.choose.below(1 << 40));
        self.drop_engine();
        self.open(files);
        let sequence = self.engine().stats().published_sequence;
        (self.last_sequence, self.state) = self.durable.clone();
        for (last, changes) in self.pending.iter().take_while(|(last, _)| *last <= sequence) {
            self.state.apply(*last, changes);
            self.last_sequence = *last;
        }
        assert_eq!(sequence, self.last_sequence, "it is the end of a batch");
        self.durable();
        self.check_all();
    }

    fn backup(&mut self) {
        self.purge();
        self.backups += 1;
        let (to, restored) =
            (format!("/backup {}", self.backups), format!("/restored {}", self.backups));
        let made = self.engine().backup(&to).unwrap();
        assert_eq!(made.sequence, self.last_sequence);
        self.durable();
        let files = self.files.crash(self.choose.below(1 << 40));
        restore(&to, &restored, &files).unwrap();
        let options =
            EngineOptions { file_system: Arc::new(files.clone()), ..self.options.clone() };
        let engine = Engine::open(&restored, options).unwrap();
        assert_eq!(names(&engine), self.names);
        check(&engine.snapshot(), &self.names, &self.state);
        assert_eq!(engine.stats().published_sequence, made.sequence);
        remove_backup(&self.files, &to);
    }

    /// Rebuilds the ledger. The journal alone contains everything; the extractors are not needed,
    /// because heads are stored in it.
    fn rebuild(&mut self) {
        self.set_clock_right();
        self.engine().close().unwrap();
        self.drop_engine();
        self.durable();
        let without_rules =
            EngineOptions { metadata_extractors: Vec::new(), ..self.options.clone() };
        rebuild_ledger(STORE, without_rules).unwrap();
        self.open(self.files.kill());
        self.check_all();
    }

    /// Steps the wall clock forward or back; expired entries stay expired.
    fn step_clock(&mut self) {
        let step_ms = self.choose.below(STEP_MAX_MS);
        let wall_ms = match self.choose.below(3) {
            0 => WALL_FIRST_MS / 2 + step_ms,
            _ => self.wall_max_ms + step_ms,
        };
        self.clock.set_wall_ms(wall_ms);
        self.wall_max_ms = self.wall_max_ms.max(wall_ms);
        self.check_all();
    }

    fn run(mut self) {
        take_steps(self.seed, self.configuration.steps, || self.step());
        self.check_all();
        for (snapshot, state) in &self.snapshots {
            check(snapshot, &self.names, state);
        }
        let (engine, table) = (self.engine(), self.names.0[PLAIN]);
        assert!(engine.get(table, b"never put").unwrap().is_none());
        let (start, end) = (Bound::Included(&b"zz"[..]), Bound::Excluded(&b"a"[..]));
        let scan = engine.scan(table, start, end, Direction::Forward).unwrap();
        assert!(collect(scan).unwrap().is_empty());
    }
}

fn run_seeds(seeds: impl Iterator<Item = u64>, configuration: fn(u64) -> Configuration) {
    for seed in seeds {
        Model::new(seed, configuration(seed)).run();
    }
}

#[test]
fn the_store_agrees_with_an_ordered_map_even_seeds() {
    run_seeds((0..SEEDS).step_by(2), Configuration::of);
}

#[test]
fn the_store_agrees_with_an_ordered_map_odd_seeds() {
    run_seeds((1..SEEDS).step_by(2), Configuration::of);
}

#[test]
fn tables_and_indexes_are_ordered_maps_even_seeds() {
    run_seeds((0..SEEDS_OF_ALL_TABLES).step_by(2), Configuration::of_all_tables);
}

#[test]
fn tables_and_indexes_are_ordered_maps_odd_seeds() {
    run_seeds((1..SEEDS_OF_ALL_TABLES).step_by(2), Configuration::of_all_tables);
}

/// Runs the same operations for each combination of compression, values in the ledger and memory
/// size: each run is compared with the same map.
#[test]
fn the_same_operations_give_the_same_answers_under_every_configuration() {
    for seed in SEEDS..SEEDS + 4 {
        for number in 0..CONFIGURATIONS {
            println!("seed {seed}, configuration {number}");
            Model::new(seed, Configuration::of(number)).run();
        }
    }
}
