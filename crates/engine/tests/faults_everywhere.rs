//! A scenario of all that a store does, again and again: the first, the second, … call to the file
//! system fails once, and then all calls from it on. Answers stay right, nothing panics, and the
//! store, its backup, what is restored, rebuilt and salvaged hold what they have to.

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

/// Calls that the scenario makes at most: the loops below must reach its end before that.
const CALLS_MAX: u64 = 5_000;
/// Openings of the store, with a backup in each.
const ROUNDS: u64 = 2;
/// Batches that are written in each.
const WRITES: u64 = 14;
/// The words for bytes that a call did not give.
const UNREAD: &str = "cannot be read";
/// The time on the wall clock at first, in milliseconds.
const WALL_FIRST_MS: u64 = 1_000_000_000;
/// The step of the wall clock behind each batch.
const WALL_STEP_MS: u64 = 500;

/// A run of the scenario.
struct Run {
    files: SimulatedFileSystem,
    clock: &'static SimulatedClock,
    choose: Chooser,
    /// The state behind each sequence number that a batch or the catalogue ended with.
    history: BTreeMap<u64, State>,
    /// A loss of power leaves no less.
    durable_sequence: u64,
    /// The backups that were made, with their last write.
    backups: Vec<(String, u64)>,
    /// Segments that were collected.
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
            metadata_extractors: vec![Arc::new(Brief)],
            ..small(files)
        }
    }

    fn note<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            // Tools read by calls, and a call that fails once is a bad sector to them.
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

    /// The state at `sequence`, without what has expired by `now_ms`.
    fn state_at(&self, sequence: u64, now_ms: u64) -> State {
        let mut state = self.history.get(&sequence).expect("no part of a batch").clone();
        state.purge(now_ms);
        state
    }

    /// Everything, in the order of a store's life; it goes on after errors as long as it can.
    fn play(&mut self) {
        for round in 0..ROUNDS {
            self.serve(round);
        }
        let cut = self.note(cut_tail(STORE, &self.files.clone()));
        // A batch whose write failed may have left a part of itself.
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
        // The catalogue's writes change no table.
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
            self.keep_house(&engine, round, index);
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

    /// Does what goes on beside reads and writes.
    fn keep_house(&mut self, engine: &Engine, round: u64, index: u64) {
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

    /// A snapshot sees what it saw, unless a read fails.
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

    /// Opens the store in `folder` and compares all that it holds, if no call fails meanwhile.
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

    /// Opens what the scenario left behind, on files that do not fail, and compares.
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
fn any_call_of_everything_may_fail_once() {
    fail_each_call(false);
}

#[test]
fn all_calls_of_everything_may_fail_from_any_one_on() {
    fail_each_call(true);
}
