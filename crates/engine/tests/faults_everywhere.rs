//! Runs a scenario with everything that a store does many times: in each run, one call to the file
//! system fails (the first, the second, and so on), or that call and all calls after it fail.
//! Answers stay correct, nothing panics, and the store, its backup, and the restored, rebuilt and
//! salvaged stores contain the expected data.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::tables::*;
use crate::common::{Chooser, STORE, small};
use pellucid_clock::{Clock, SimulatedClock};
use pellucid_engine::{
    Acknowledgement, Condition, Engine, EngineOptions, Error, Snapshot, cut_tail, rebuild_ledger,
    restore, salvage, verify,
};
use pellucid_io::FileSystem;
use pellucid_io::simulated::{Faults, SimulatedFileSystem};

/// The highest number of calls in the scenario: the loops below must reach its end earlier.
const CALLS_MAX: u64 = 5_000;
/// The number of times that the store is opened, with one backup each time.
const ROUNDS: u64 = 2;
/// The number of batches that are written each time.
const WRITES: u64 = 14;
/// The error text for bytes that a call did not return.
const UNREAD: &str = "cannot be read";
/// The wall-clock time at the beginning, in milliseconds.
const WALL_FIRST_MS: u64 = 1_000_000_000;
/// The step of the wall clock after each batch, in milliseconds.
const WALL_STEP_MS: u64 = 500;

/// One run of the scenario.
struct Run {
    files: SimulatedFileSystem,
    clock: &'static SimulatedClock,
    choose: Chooser,
    /// The state at each sequence number that a batch or a catalogue change ended with.
    history: BTreeMap<u64, State>,
    /// The last sequence number that survives a power loss.
    durable_sequence: u64,
    /// The backups that were made, with the sequence number of their last write.
    backups: Vec<(String, u64)>,
    /// The number of segments that were collected.
    collected: u64,
    errors: u64,
}

impl Run {
    fn new(files: &SimulatedFileSystem) -> Run {
        let clock = SimulatedClock::leaked(WALL_FIRST_MS);
        let history = BTreeMap::from([(0, State::default())]);
        Run {
            files: files.clone(),
            clock,
            choose: Chooser::new(3),
            history,
            durable_sequence: 0,
            backups: Vec::new(),
            collected: 0,
            errors: 0,
        }
    }

    fn options(&self, files: &SimulatedFileSystem) -> EngineOptions {
        EngineOptions {
            clock: Clock::simulated(self.clock),
            metadata_extractors: vec![Arc::new(BriefExtractor)],
            ..small(files)
        }
    }

    fn note<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            // The tools read through system calls, and a call that fails once looks like a bad
            // sector to them.
            Err(Error::Corruption { path, offset, what }) if !what.contains(UNREAD) => {
                panic!("a failing call is no corruption: {} {offset} {what}", path.display())
            }
            Err(_) => {
                self.errors += 1;
                None
            }
        }
    }

    fn last_sequence(&self) -> u64 {
        self.history.last_key_value().map_or(0, |(last, _)| *last)
    }

    /// Returns the state at `sequence`, without the entries that have expired by `now_ms`.
    fn state_at(&self, sequence: u64, now_ms: u64) -> State {
        let mut state = self.history.get(&sequence).expect("no part of a batch").clone();
        state.purge(now_ms);
        state
    }

    /// Runs all steps in the order of a store's life, and continues after errors as long as
    /// possible.
    fn play(&mut self) {
        for round in 0..ROUNDS {
            self.serve(round);
        }
        let cut = self.note(cut_tail(STORE, &self.files.clone()));
        // A failed write of a batch may have left a part of the batch.
        let is_whole = cut.is_none_or(|parts| parts.is_empty());
        assert!(is_whole || self.errors > 0, "an intact store has no tail to be cut off");
        for (index, (backup, sequence)) in self.backups.clone().into_iter().enumerate() {
            let restored = format!("/restored {index}");
            if self.note(restore(&backup, &restored, &self.files.clone())).is_some() {
                self.check_store(&restored, sequence);
                self.note(rebuild_ledger(&restored, self.options(&self.files)));
                self.check_store(&restored, sequence);
            }
        }
        let salvaged = self.note(salvage(STORE, "/salvaged", self.options(&self.files)));
        let Some(salvaged) = salvaged else { return };
        let last = self.last_sequence();
        let is_unread = |what: &str| what.contains(UNREAD) || what.contains("could not read");
        if salvaged.lost.iter().any(|lost| is_unread(&lost.what)) {
            self.errors += 1;
            return;
        }
        assert!(salvaged.lost.iter().all(|lost| lost.first_sequence > last), "{:?}", salvaged.lost);
        self.check_store("/salvaged", last);
    }

    /// Opens the store, writes and reads, and closes it.
    fn serve(&mut self, round: u64) {
        let opened = Engine::open(STORE, self.options(&self.files));
        let Some(engine) = self.note(opened) else { return };
        assert_eq!(engine.stats().published_sequence, self.last_sequence());
        let names = self.note(try_names(&engine));
        let state = self.history[&self.last_sequence()].clone();
        // Writes to the catalogue change no table.
        for sequence in self.last_sequence() + 1..=engine.stats().published_sequence {
            self.history.insert(sequence, state.clone());
        }
        let Some(names) = names else { return };
        let mut snapshots = Vec::new();
        for index in 0..WRITES {
            self.write(&engine, &names);
            if index % 6 == 1 {
                let state = self.state_at(self.last_sequence(), engine.now_ms());
                snapshots.push((engine.snapshot(), state));
            }
            self.run_maintenance(&engine, round, index);
            self.clock.set_wall_ms(WALL_FIRST_MS + (round * WRITES + index) * WALL_STEP_MS);
        }
        for (snapshot, state) in snapshots {
            self.read(&snapshot, &names, &state);
        }
        self.collected += engine.stats().collected.segments;
        if self.note(engine.close()).is_some() {
            self.durable_sequence = self.last_sequence();
        }
    }

    fn write(&mut self, engine: &Engine, names: &Names) {
        let now_ms = engine.now_ms();
        let count = 1 + self.choose.below(3);
        let mut draw = || draw_change(&mut self.choose, Some(now_ms));
        let changes: Vec<Change> = (0..count).map(|_| draw()).collect();
        let written = write_changes(engine, names, &changes, Condition::None, Acknowledgement::Os);
        if let Some(sequence) = self.note(written) {
            let mut state = self.history[&self.last_sequence()].clone();
            assert_eq!(sequence, self.last_sequence() + length(&changes));
            state.apply(sequence, &changes);
            self.history.insert(sequence, state);
        }
    }

    /// Runs the maintenance tasks that accompany reads and writes.
    fn run_maintenance(&mut self, engine: &Engine, round: u64, index: u64) {
        let last = self.last_sequence();
        let is_durable = match index {
            2 | 13 => self.note(engine.wait_durable(last).map(|_| ())).is_some(),
            4 | 8 => self.note(engine.flush()).is_some(),
            6 => {
                let backup = format!("/backup {round}");
                let made = self.note(engine.backup(&backup));
                self.backups.extend(made.map(|made| (backup, made.sequence)));
                made.is_some()
            }
            10 => self.note(engine.compact()).is_some(),
            12 => self.note(engine.collect()).and(None::<()>).is_some(),
            _ => false,
        };
        if is_durable {
            self.durable_sequence = last;
        }
    }

    /// Checks that a snapshot still sees the same state, unless a read fails.
    fn read(&mut self, snapshot: &Snapshot, (tables, _): &Names, state: &State) {
        for (table, map) in std::iter::zip(tables, &state.tables) {
            for (key, expected) in map {
                if let Some(object) = self.note(snapshot.get(*table, key)) {
                    let may_have_expired = expected.expires_at_ms != 0;
                    let found = object.as_ref().map(held);
                    assert!(found.map_or(may_have_expired, |found| found == *expected));
                }
            }
        }
    }

    /// Opens the store in `folder` and compares its contents, unless a call fails.
    fn check_store(&mut self, folder: &str, sequence: u64) {
        let opened = Engine::open(folder, self.options(&self.files));
        let Some(engine) = self.note(opened) else { return };
        assert_eq!(engine.stats().published_sequence, sequence, "{folder}");
        if let Some(names) = self.note(try_names(&engine)) {
            let state = self.state_at(sequence, engine.now_ms());
            check(&engine.snapshot(), &names, &state);
        }
        self.note(engine.close());
    }

    /// Opens the files that the scenario left behind, with a file system that does not fail, and
    /// compares them.
    fn check_left(&self, seed: u64) {
        self.files.set_faults(Faults::default());
        let last = self.last_sequence();
        self.check_whole(&self.files.kill(), STORE, last..=last);
        let crashed = self.files.crash(seed);
        self.check_whole(&crashed, STORE, self.durable_sequence..=last);
        for (backup, sequence) in &self.backups {
            assert_eq!(verify(backup, &crashed).unwrap().problems, []);
            self.check_whole(&crashed, backup, *sequence..=*sequence);
        }
    }

    fn check_whole(
        &self,
        files: &SimulatedFileSystem,
        folder: &str,
        sequences: std::ops::RangeInclusive<u64>,
    ) {
        if sequences == (0..=0) && !files.exists(&Path::new(folder).join("manifest")) {
            return;
        }
        let engine = Engine::open(folder, self.options(files)).expect("the store opens");
        let found = engine.stats().published_sequence;
        assert!(sequences.contains(&found), "{folder}: {found} is not within {sequences:?}");
        let state = self.state_at(found, engine.now_ms());
        check(&engine.snapshot(), &names(&engine), &state);
    }
}

fn fail_each_call(keep_failing: bool) {
    for number in 1..CALLS_MAX {
        let files = SimulatedFileSystem::new();
        files.set_faults(Faults { fail_call: Some(number), keep_failing, ..Faults::default() });
        let mut run = Run::new(&files);
        run.play();
        let is_untouched = files.calls() < number;
        assert!(!is_untouched || run.errors == 0, "call {number}");
        run.check_left(number);
        if is_untouched {
            assert_eq!(run.backups.len() as u64, ROUNDS);
            assert!(run.collected > 0);
            println!("{number} calls");
            return;
        }
    }
    panic!("the scenario makes more than {CALLS_MAX} calls");
}

#[test]
fn any_single_call_of_the_scenario_may_fail() {
    fail_each_call(false);
}

#[test]
fn all_calls_may_fail_from_any_call_on() {
    fail_each_call(true);
}
