//! Tests of a power loss after any write, and of a file system whose calls all fail from any one
//! on. Each document is whole and has its index entries, and a `complete` import is there as a
//! whole or not at all.

use pellucid_io::simulated::Faults;
use pellucid_io::{Random, SeededRandom};
use serde_json::json;

use super::*;

/// Steps of the scenario.
const STEPS: u64 = 40;

/// An upper bound of the file system calls of the scenario.
const CALLS_MAX: u64 = 5_000;

/// The same steps in every run.
fn steps() -> Vec<Step> {
    let mut random = SeededRandom::new(7);
    let mut choose = move |count: u64| random.next_u64() % count;
    (0..STEPS)
        .map(|number| {
            let key = format!("k{}", choose(9));
            // Some values are larger than a sector of the disk.
            let text = "v".repeat(200 + 100 * choose(9) as usize);
            let value =
                json!({ "a": choose(4), "b": { "c": text }, "u": number, "t": [1, number] });
            match choose(5) {
                0 => Step::Insert(key, value),
                1 => Step::Update(key, value),
                2 => Step::Replace(key, value),
                3 => Step::Remove(key),
                _ => {
                    let line = |place: u64| {
                        let mut value = value.clone();
                        value["u"] = json!(1_000 * (number + 1) + place);
                        (format!("i{place}"), value)
                    };
                    Step::Import((0..6).map(line).collect())
                }
            }
        })
        .collect()
}

/// The states before the first step and after each step, and whether each step was accepted. The
/// same steps are refused in every run.
fn states() -> (Vec<Model>, Vec<bool>) {
    let files = SimulatedFileSystem::new();
    let documents = open(&files).unwrap();
    let collection = make(&documents).unwrap();
    let (mut states, mut taken) = (vec![Model::new()], Vec::new());
    for step in steps() {
        taken.push(apply(&documents, &collection, &step).is_ok());
        states.push(agree(&documents, &collection));
    }
    assert!(taken.contains(&true) && taken.contains(&false));
    (states, taken)
}

/// Opens the files after a crash, and checks that their state is one of `states`.
fn check(files: &SimulatedFileSystem, states: &[Model], what: &str) {
    files.set_faults(Faults::default());
    let documents = open(files).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    // If the crash came before the collection was durable, there is nothing to check.
    let Some(collection) = found(&documents) else { return };
    let model = agree(&documents, &collection);
    assert!(states.contains(&model), "{what}: no step leads to {model:?}");
    // The store accepts further writes.
    apply(&documents, &collection, &Step::Import(vec![("z".into(), json!({ "a": 1 }))])).unwrap();
    assert_eq!(agree(&documents, &collection).len(), model.len() + 1);
}

#[test]
fn a_power_loss_after_any_write_leaves_whole_documents_with_their_entries() {
    let (states, _) = states();
    let files = SimulatedFileSystem::new();
    let documents = open(&files).unwrap();
    let collection = make(&documents).unwrap();
    for (number, step) in (0..).zip(steps()) {
        let _ = apply(&documents, &collection, &step);
        for seed in 0..3 {
            let what = format!("step {number}, seed {seed}");
            check(&files.crash(1_000 * number + seed), &states, &what);
        }
        check(&files.kill(), &states[number as usize + 1..=number as usize + 1], "killed");
    }
}

/// Regression: changes of collections were never synced, so that the documents of an emptied
/// collection were back after a power loss, also with `waitForSync`.
#[test]
fn changes_of_collections_survive_a_power_loss() {
    let files = SimulatedFileSystem::new();
    let documents = open(&files).unwrap();
    let collection = make(&documents).unwrap();
    let reopened = |seed| {
        let files = files.crash(seed);
        files.set_faults(Faults::default());
        open(&files).unwrap()
    };
    let is_made = |seed| found(&reopened(seed)).is_some_and(|made| made.shape().indexes.len() == 4);
    assert!((0..9).all(is_made));
    for step in steps() {
        let _ = apply(&documents, &collection, &step);
    }
    documents.truncate(&collection).unwrap();
    for seed in 0..9 {
        let documents = reopened(seed);
        assert_eq!(agree(&documents, &found(&documents).unwrap()), Model::new());
    }
    documents.drop_collection(&documents.database("_system").unwrap(), &collection).unwrap();
    assert!((0..9).all(|seed| found(&reopened(seed)).is_none()));
}

#[test]
fn calls_that_fail_from_any_one_on_leave_whole_documents_with_their_entries() {
    let (states, taken) = states();
    for number in 1..CALLS_MAX {
        let files = SimulatedFileSystem::new();
        let faults = Faults { fail_call: Some(number), keep_failing: true, ..Faults::default() };
        files.set_faults(faults);
        if let Ok(documents) = open(&files)
            && let Ok(collection) = make(&documents)
        {
            for (step, taken) in steps().iter().zip(&taken) {
                // After a failure, a later step could succeed and lead to a state not in `states`.
                if apply(&documents, &collection, step).is_ok() != *taken {
                    break;
                }
            }
        }
        let is_untouched = files.calls() < number;
        check(&files.kill(), &states, &format!("killed after call {number}"));
        check(&files.crash(number), &states, &format!("crashed after call {number}"));
        if is_untouched {
            return;
        }
    }
    panic!("the scenario makes more than {CALLS_MAX} calls");
}
