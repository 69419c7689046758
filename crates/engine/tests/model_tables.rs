//! The model test of tables with options, of indexes and of folds: it compares them with ordered
//! maps under random batches, deaths of the process, power losses, collection, backups and rebuilt
//! ledgers. A failing seed is all that is needed to reproduce a failure.

use std::ops::{ControlFlow, RangeBounds};
use std::sync::Arc;

use crate::common::tables::*;
use crate::common::{Chooser, STORE, remove_backup, small, take_steps};
use pellucid_account::Timeline;
use pellucid_clock::{Clock, SimulatedClock};
use pellucid_engine::{
    Acknowledgement, Condition, Direction, Engine, EngineOptions, Error, ReadMode, Selection,
    Snapshot, TERM_LENGTH_MAX, rebuild_ledger, restore,
};
use pellucid_io::simulated::SimulatedFileSystem;

/// The number of seeds in each run.
const SEEDS: u64 = 120;
/// The number of steps for each seed.
const STEPS: u64 = 250;
/// The first wall-clock time, in milliseconds.
const WALL_FIRST_MS: u64 = 1_000_000_000;

struct Model {
    seed: u64,
    files: SimulatedFileSystem,
    options: EngineOptions,
    engine: Option<Engine>,
    names: Names,
    state: State,
    last_sequence: u64,
    /// The states since the last one known to be on the medium, by sequence number.
    history: Vec<(u64, State)>,
    snapshots: Vec<(Snapshot, State)>,
    choose: Chooser,
    clock: &'static SimulatedClock,
    wall_max_ms: u64,
    backups: u64,
}

impl Model {
    fn new(seed: u64) -> Model {
        let mut choose = Chooser::new(seed);
        let files = SimulatedFileSystem::new();
        files.keep_writing_back(seed);
        let mut options = small(&files);
        let clock = SimulatedClock::leaked(WALL_FIRST_MS);
        options.clock = Clock::simulated(clock);
        options.segment_size_bytes = [4 << 10, 8 << 10, 64 << 10][choose.below(3) as usize];
        options.metadata_extractors = vec![Arc::new(BriefExtractor)];
        let engine = Engine::open(STORE, options.clone()).unwrap();
        let names = names(&engine);
        let last_sequence = engine.stats().published_sequence;
        engine.wait_durable(last_sequence).unwrap();
        Model {
            seed,
            files,
            options,
            engine: Some(engine),
            names,
            state: State::default(),
            last_sequence,
            history: vec![(last_sequence, State::default())],
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
        match self.choose.below(100) {
            0..50 => self.write(),
            50..55 => self.write_refused(),
            55..65 => self.select_objects(),
            65..75 => self.select_entries(),
            75..79 => self.snapshot(),
            79..82 => self.sync(),
            82..84 => self.flush(),
            84 => self.engine().compact().unwrap(),
            85..87 => self.reopen(),
            87..89 => self.kill(),
            89..92 => self.crash(),
            92..95 => self.collect(),
            95 => self.backup(),
            96 => self.rebuild(),
            97 => self.step_clock(),
            _ => self.check_all(),
        }
    }

    fn change(&mut self) -> Change {
        let now_ms = self.engine().now_ms();
        draw_change(&mut self.choose, Some(now_ms))
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
        let condition = match self.choose.below(8) {
            0 => Condition::Absent,
            1 => Condition::Present,
            2 => Condition::Sequence(current.unwrap_or(7)),
            _ => Condition::None,
        };
        let holds = match condition {
            Condition::None => true,
            Condition::Absent => current.is_none(),
            _ => current.is_some(),
        };
        match self.write_changes(&changes, condition) {
            Ok(sequence) => {
                assert!(holds);
                assert_eq!(sequence, self.last_sequence + length(&changes));
                self.apply(sequence, &changes);
            }
            Err(Error::ConditionFailed { index, current: reported }) => {
                assert!(!holds);
                assert_eq!((index as u64, reported), (count - 1, current));
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn apply(&mut self, last_sequence: u64, changes: &[Change]) {
        self.state.apply(last_sequence, changes);
        self.last_sequence = last_sequence;
        self.history.push((last_sequence, self.state.clone()));
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
        let table = self.choose.below(TABLES as u64) as usize;
        let rows =
            self.state.tables[table].iter().filter(|(key, _)| (start, end).contains(&key[..]));
        let rows: Vec<_> = rows.map(|(key, held)| (key.clone(), held.clone())).collect();
        let expected = select(rows, direction, limit);
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
                let held_max = engine.table_options(*table).unwrap().held_value_length_max;
                let is_in_ledger = expected.value.len() <= held_max as usize;
                assert_eq!(timeline.counts.records == 0, is_in_ledger, "only the ledger is read");
            }
        }
    }

    fn snapshot(&mut self) {
        self.purge();
        if self.snapshots.len() < 3 && self.choose.below(2) == 0 {
            self.snapshots.push((self.engine().snapshot(), self.state.clone()));
        } else if !self.snapshots.is_empty() {
            let index = self.choose.below(self.snapshots.len() as u64) as usize;
            let (snapshot, state) = &self.snapshots[index];
            check(snapshot, &self.names, state);
            self.snapshots.swap_remove(index);
        }
    }

    /// Records that everything is on the medium.
    fn durable(&mut self) {
        self.history = vec![(self.last_sequence, self.state.clone())];
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
        self.flush();
        self.engine().compact().unwrap();
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
        let files = self.files.crash(self.choose.below(1 << 40));
        self.open(files);
        self.check_all();
    }

    fn kill(&mut self) {
        self.clock.set_wall_ms(self.wall_max_ms);
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
        self.clock.set_wall_ms(self.wall_max_ms);
        let files = self.files.crash(self.choose.below(1 << 40));
        self.drop_engine();
        self.open(files);
        let sequence = self.engine().stats().published_sequence;
        let state = self.history.iter().find(|(last, _)| *last == sequence);
        self.state = state.expect("the end of a batch that may be the last").1.clone();
        self.last_sequence = sequence;
        self.durable();
        self.check_all();
    }

    fn backup(&mut self) {
        self.purge();
        self.backups += 1;
        let (to, restored) =
            (format!("/backup {}", self.backups), format!("/restored {}", self.backups));
        self.engine().backup(&to).unwrap();
        self.durable();
        let files = self.files.crash(self.choose.below(1 << 40));
        restore(&to, &restored, &files).unwrap();
        let options =
            EngineOptions { file_system: Arc::new(files.clone()), ..self.options.clone() };
        let engine = Engine::open(&restored, options).unwrap();
        assert_eq!(names(&engine), self.names);
        check(&engine.snapshot(), &self.names, &self.state);
        remove_backup(&self.files, &to);
    }

    /// Rebuilds the ledger. The journal alone contains everything; the extractors are not needed,
    /// because heads are stored in it.
    fn rebuild(&mut self) {
        self.engine().close().unwrap();
        self.drop_engine();
        self.durable();
        let without_rules =
            EngineOptions { metadata_extractors: Vec::new(), ..self.options.clone() };
        rebuild_ledger(STORE, without_rules).unwrap();
        self.open(self.files.kill());
        self.check_all();
    }

    fn step_clock(&mut self) {
        self.wall_max_ms += self.choose.below(STEP_MAX_MS);
        self.clock.set_wall_ms(self.wall_max_ms);
        self.check_all();
    }

    fn run(mut self) {
        take_steps(self.seed, STEPS, || self.step());
        self.check_all();
    }
}

fn run_seeds(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        Model::new(seed).run();
    }
}

#[test]
fn tables_and_indexes_are_ordered_maps_even_seeds() {
    run_seeds((0..SEEDS).step_by(2));
}

#[test]
fn tables_and_indexes_are_ordered_maps_odd_seeds() {
    run_seeds((1..SEEDS).step_by(2));
}
