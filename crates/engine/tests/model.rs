//! The model test compares the store with an ordered map under random operations, deaths of the
//! process and power losses. A failing seed is all that is needed to reproduce a failure.

use std::ops::Bound;

use crate::common::*;
use pellucid_account::Timeline;
use pellucid_clock::{Clock, SimulatedClock};
use pellucid_engine::{
    Acknowledgement, Compression, Condition, Direction, Engine, EngineOptions, Error, ReadMode,
    Snapshot, TableId, TableOptions, restore,
};
use pellucid_io::simulated::SimulatedFileSystem;

/// The number of seeds in each run.
const SEEDS: u64 = 300;
/// The number of steps for each seed.
const STEPS: u64 = 450;
/// The first wall-clock time, and the longest step of the wall clock, in milliseconds.
const WALL_FIRST_MS: u64 = 1_000_000_000;
const STEP_MAX_MS: u64 = 10_000;

struct Model {
    seed: u64,
    files: SimulatedFileSystem,
    options: EngineOptions,
    engine: Option<Engine>,
    table: TableId,
    oracle: Oracle,
    snapshots: Vec<(Snapshot, Map)>,
    choose: Chooser,
    clock: &'static SimulatedClock,
    /// The highest wall-clock time so far.
    wall_max_ms: u64,
    backups: u64,
}

/// Options that change no answer: the storage of values and blocks, and the size of memory.
#[derive(Clone, Debug)]
struct Configuration {
    table: TableOptions,
    memory_bytes: u64,
}

impl Configuration {
    /// Returns one of all configurations, by number.
    fn of(number: u64) -> Configuration {
        let bit = |bit: u32| number >> bit & 1 == 1;
        let compression = |is_on| if is_on { Compression::Lz4 } else { Compression::None };
        let table = TableOptions {
            held_value_length_max: if bit(0) { 64 } else { 0 },
            value_compression: compression(bit(1)),
            block_compression: compression(bit(2)),
            ..TableOptions::default()
        };
        Configuration { table, memory_bytes: if bit(3) { 64 << 10 } else { 4 << 20 } }
    }
}

/// The number of configurations.
const CONFIGURATIONS: u64 = 16;

impl Model {
    fn new(seed: u64) -> Model {
        Model::with(seed, &Configuration::of(seed % CONFIGURATIONS))
    }

    fn with(seed: u64, configuration: &Configuration) -> Model {
        let mut choose = Chooser::new(seed);
        let files = SimulatedFileSystem::new();
        files.keep_writing_back(seed);
        let mut options = small(&files);
        let clock = SimulatedClock::leaked(WALL_FIRST_MS);
        options.clock = Clock::simulated(clock);
        options.segment_size_bytes = [4 << 10, 8 << 10, 64 << 10][choose.below(3) as usize];
        options.memory_bytes = configuration.memory_bytes;
        let engine = Engine::open(STORE, options.clone()).unwrap();
        let table = engine.table_with("t", &configuration.table).unwrap();
        engine.wait_durable(1).unwrap();
        let mut oracle = Oracle::after(1);
        oracle.durable_sequence = 1;
        Model {
            seed,
            files,
            options,
            engine: Some(engine),
            table,
            oracle,
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
        match self.choose.below(106) {
            0..45 => self.write(1),
            45..55 => {
                let count = 2 + self.choose.below(6);
                self.write(count);
            }
            55..60 => self.write_on_condition(),
            60..75 => self.look_up(),
            75..81 => self.scan(),
            81..86 => self.snapshot(),
            86..90 => self.sync(),
            90..92 => self.flush(),
            92 => self.engine().compact().unwrap(),
            93..95 => self.reopen(),
            95..97 => self.kill(),
            97..99 => self.crash(),
            99..102 => self.collect(),
            104 => self.backup(),
            102..104 => self.step_clock(),
            _ => check_all(&self.engine(), self.table, &self.oracle.map),
        }
    }

    fn write(&mut self, count: u64) {
        let mut changes: Vec<Change> = (0..count).map(|_| self.choose.change()).collect();
        for change in changes.iter_mut().filter(|change| change.put.is_some()) {
            if self.choose.below(4) == 0 {
                change.expires_at_ms = self.engine().now_ms() + self.choose.below(2 * STEP_MAX_MS);
            }
        }
        let sequence = write_changes(&self.engine(), self.table, &changes).unwrap();
        self.oracle.write(sequence, changes);
        self.purge();
    }

    fn purge(&mut self) {
        let now_ms = self.engine().now_ms();
        purge(&mut self.oracle.map, now_ms);
        for (_, map) in &mut self.snapshots {
            purge(map, now_ms);
        }
    }

    fn collect(&mut self) {
        if self.choose.below(2) == 0 {
            self.flush();
            self.engine().compact().unwrap();
        }
        self.engine().collect().unwrap();
        check_all(&self.engine(), self.table, &self.oracle.map);
    }

    /// Checks that a backup contains the contents of the store, whatever happens to the store
    /// afterwards.
    fn backup(&mut self) {
        self.backups += 1;
        let (backup, restored) =
            (format!("/backup {}", self.backups), format!("/restored {}", self.backups));
        let made = self.engine().backup(&backup).unwrap();
        assert_eq!(made.sequence, self.oracle.last_sequence);
        self.oracle.durable(self.oracle.last_sequence);
        let files = self.files.crash(self.choose.below(1 << 40));
        restore(&backup, &restored, &files).unwrap();
        let mut options = self.options.clone();
        options.file_system = std::sync::Arc::new(files.clone());
        let engine = Engine::open(&restored, options).unwrap();
        check_all(&engine, self.table, &self.oracle.map);
        assert_eq!(engine.stats().published_sequence, made.sequence);
        drop(engine);
        remove_backup(&self.files, &backup);
    }

    /// The wall clock steps forward or back; expired entries stay expired.
    fn step_clock(&mut self) {
        let forward = self.choose.below(STEP_MAX_MS);
        let wall_ms = match self.choose.below(3) {
            0 => WALL_FIRST_MS / 2 + self.choose.below(STEP_MAX_MS),
            _ => self.wall_max_ms + forward,
        };
        self.clock.set_wall_ms(wall_ms);
        self.wall_max_ms = self.wall_max_ms.max(wall_ms);
        self.purge();
        check_all(&self.engine(), self.table, &self.oracle.map);
    }

    fn write_on_condition(&mut self) {
        let change = self.choose.change();
        let current = self.oracle.map.get(&change.key).map(|held| held.sequence);
        let (condition, holds) = match self.choose.below(4) {
            0 => (Condition::Absent, current.is_none()),
            1 => (Condition::Present, current.is_some()),
            2 => (Condition::Sequence(current.unwrap_or(7)), current.is_some()),
            _ => (Condition::Sequence(current.unwrap_or(0) + 1), false),
        };
        let operation = operation(self.table, &change).with_condition(condition);
        let outcome = self.engine().write(&[operation], Acknowledgement::Os);
        match outcome {
            Ok(written) => {
                assert!(holds);
                self.oracle.write(written.sequence, vec![change]);
            }
            Err(Error::ConditionFailed { index: 0, current: reported }) => {
                assert!(!holds);
                assert_eq!(reported, current);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn look_up(&mut self) {
        let key = self.choose.key();
        let held = self.oracle.map.get(&key);
        if self.choose.below(2) == 0 {
            let object = self.engine().get(self.table, &key).unwrap();
            assert_eq!(object.as_ref().map(tables::held).as_ref(), held);
        } else {
            let mut timeline = Timeline::off();
            let head =
                self.engine().head_timed(self.table, &key, ReadMode::MayBlock, &mut timeline);
            let head = head.unwrap().value();
            assert_eq!(timeline.counts.records, 0, "a head never reads the journal");
            assert_eq!(
                head.map(|head| (head.sequence, head.value_length as usize)),
                held.map(|held| (held.sequence, held.value.len()))
            );
        }
    }

    fn scan(&mut self) {
        let (low, high) = (self.choose.key(), self.choose.key());
        let (start, end) = (self.choose.bound(&low), self.choose.bound(&high));
        let mut expected = expected(&self.oracle.map, (start, end));
        let direction = [Direction::Forward, Direction::Backward][self.choose.below(2) as usize];
        if direction == Direction::Backward {
            expected.reverse();
        }
        let mut scan = self.engine().scan(self.table, start, end, direction).unwrap();
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

    fn snapshot(&mut self) {
        if self.snapshots.len() < 4 && self.choose.below(2) == 0 {
            self.snapshots.push((self.engine().snapshot(), self.oracle.map.clone()));
        } else if !self.snapshots.is_empty() {
            let index = self.choose.below(self.snapshots.len() as u64) as usize;
            let (snapshot, map) = &self.snapshots[index];
            check_snapshot(snapshot, self.table, map);
            if self.choose.below(2) == 0 {
                self.snapshots.swap_remove(index);
            }
        }
    }

    fn sync(&mut self) {
        let sequence = self.oracle.last_sequence;
        self.engine().wait_durable(sequence).unwrap();
        self.oracle.durable(sequence);
    }

    fn flush(&mut self) {
        self.engine().flush().unwrap();
        self.oracle.durable(self.oracle.last_sequence);
    }

    fn drop_engine(&mut self) {
        self.snapshots.clear();
        self.engine = None;
    }

    fn open(&mut self, files: SimulatedFileSystem) {
        self.options.file_system = std::sync::Arc::new(files.clone());
        files.keep_writing_back(self.choose.below(1 << 40));
        self.files = files;
        let engine = Engine::open(STORE, self.options.clone()).unwrap();
        assert_eq!(engine.table("t").unwrap(), self.table);
        self.engine = Some(engine);
    }

    fn reopen(&mut self) {
        self.engine().close().unwrap();
        self.drop_engine();
        self.oracle.durable(self.oracle.last_sequence);
        // Everything that a clean stop leaves behind also survives a power loss.
        let seed = self.choose.below(1 << 40);
        let files =
            if self.choose.below(2) == 0 { self.files.kill() } else { self.files.crash(seed) };
        self.open(files);
        assert_eq!(self.engine().stats().published_sequence, self.oracle.last_sequence);
        check_all(&self.engine(), self.table, &self.oracle.map);
    }

    fn kill(&mut self) {
        // The highest time is not on the medium at every moment: if the process dies and the clock
        // is set back at once, expired entries may become visible again.
        self.clock.set_wall_ms(self.wall_max_ms);
        let files = self.files.kill();
        self.drop_engine();
        self.open(files);
        assert_eq!(self.engine().stats().published_sequence, self.oracle.last_sequence);
        check_all(&self.engine(), self.table, &self.oracle.map);
        self.oracle.durable(self.oracle.last_sequence);
    }

    fn crash(&mut self) {
        self.clock.set_wall_ms(self.wall_max_ms);
        let seed = self.choose.below(1 << 40);
        let files = self.files.crash(seed);
        self.drop_engine();
        self.open(files);
        let sequence = self.engine().stats().published_sequence;
        self.oracle.fall_back(sequence);
        self.purge();
        check_all(&self.engine(), self.table, &self.oracle.map);
    }

    fn run(mut self) {
        take_steps(self.seed, STEPS, || self.step());
        for (snapshot, map) in &self.snapshots {
            check_snapshot(snapshot, self.table, map);
        }
        check_all(&self.engine(), self.table, &self.oracle.map);
        let missing = self.engine().get(self.table, b"never put").unwrap();
        assert!(missing.is_none());
        let scan = self.engine().scan(
            self.table,
            Bound::Included(b"zz"),
            Bound::Excluded(b"a"),
            Direction::Forward,
        );
        assert!(collect(scan.unwrap()).unwrap().is_empty());
    }
}

fn run_seeds(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        Model::new(seed).run();
    }
}

#[test]
fn the_store_agrees_with_an_ordered_map_even_seeds() {
    run_seeds((0..SEEDS).step_by(2));
}

#[test]
fn the_store_agrees_with_an_ordered_map_odd_seeds() {
    run_seeds((1..SEEDS).step_by(2));
}

/// Runs the same operations for each combination of compression, values in the ledger and memory
/// size: each run is compared with the same map.
#[test]
fn the_same_operations_give_the_same_answers_under_every_configuration() {
    for seed in SEEDS..SEEDS + 4 {
        for number in 0..CONFIGURATIONS {
            println!("seed {seed}, configuration {number}");
            Model::with(seed, &Configuration::of(number)).run();
        }
    }
}
