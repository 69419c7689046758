//! Tests of changes: every write in order, as long as the journal has it.

use crate::common::*;
use pellucid_engine::{
    Acknowledgement, Change, ChangeStep, Changes, Engine, Error, Operation, TableId,
};
use pellucid_io::{Random, SeededRandom};

/// All changes up to now.
fn rest_of(changes: &mut Changes) -> Result<Vec<Change>, Error> {
    let mut all = Vec::new();
    loop {
        match changes.step()? {
            ChangeStep::Change(change) => all.push(change),
            ChangeStep::Others => {}
            ChangeStep::End => return Ok(all),
        }
    }
}

/// A write as a test remembers it: sequence number, key, and the value of a put.
type RecordedWrite = (u64, Vec<u8>, Option<Vec<u8>>);

fn as_written(changes: &[Change]) -> Vec<RecordedWrite> {
    let value = |change: &Change| change.object.as_ref().map(|object| object.value.to_vec());
    changes.iter().map(|change| (change.sequence, change.key.clone(), value(change))).collect()
}

fn changes_since(engine: &Engine, table: TableId, since: u64) -> Result<Vec<RecordedWrite>, Error> {
    Ok(as_written(&rest_of(&mut engine.changes(table, since)?)?))
}

/// Puts and deletes at random; returns the writes.
fn write_some(
    engine: &Engine,
    table: TableId,
    random: &mut SeededRandom,
    count: u64,
) -> Vec<RecordedWrite> {
    let write = |_| {
        let key = format!("key {}", random.next_u64() % 20).into_bytes();
        let value = (!random.next_u64().is_multiple_of(4))
            .then(|| vec![7; (random.next_u64() % 300) as usize]);
        let operation = match &value {
            Some(value) => Operation::put(table, &key, value),
            None => Operation::delete(table, &key),
        };
        let written = engine.write(&[operation], Acknowledgement::Os).unwrap();
        (written.sequence, key, value)
    };
    (0..count).map(write).collect()
}

#[test]
fn all_writes_come_in_order_even_after_flushes_and_openings() {
    for seed in 0..20 {
        let mut random = SeededRandom::new(seed);
        let (files, mut engine, table) = open_new(tiny);
        let other = engine.table("other").unwrap();
        let mut written = Vec::new();
        for round in 0..6 {
            written.extend(write_some(&engine, table, &mut random, 40));
            write_some(&engine, other, &mut random, 10);
            match round % 3 {
                0 => engine.flush().unwrap(),
                1 => {
                    engine.close().unwrap();
                    engine = Engine::open(STORE, tiny(&files)).unwrap();
                }
                _ => {}
            }
            assert_eq!(changes_since(&engine, table, 0).unwrap(), written, "seed {seed}");
        }
        let middle = written.len() / 2;
        let since = written[middle].0;
        assert_eq!(changes_since(&engine, table, since).unwrap(), written[middle + 1..]);
        let mut with_prefix = engine.changes(table, 0).unwrap().with_prefix(b"key 1");
        let expected: Vec<_> =
            written.iter().filter(|(_, key, _)| key.starts_with(b"key 1")).cloned().collect();
        assert_eq!(as_written(&rest_of(&mut with_prefix).unwrap()), expected);
        assert_eq!(with_prefix.sequence(), engine.newest_sequence());
    }
}

#[test]
fn a_walk_continues_with_later_writes() {
    let (_files, engine, table) = open_new(tiny);
    let mut changes = engine.changes(table, engine.newest_sequence()).unwrap();
    assert!(matches!(changes.step().unwrap(), ChangeStep::End));
    let mut random = SeededRandom::new(1);
    for _ in 0..5 {
        let written = write_some(&engine, table, &mut random, 50);
        assert_eq!(as_written(&rest_of(&mut changes).unwrap()), written);
    }
}

#[test]
fn collected_writes_are_an_error_that_tells_where_to_continue() {
    let (_files, engine, table) = open_new(tiny);
    let mut early = engine.changes(table, 0).unwrap();
    for _ in 0..100 {
        engine.put(table, b"again", &[7; 500]).unwrap();
    }
    engine.flush().unwrap();
    assert!(engine.collect().unwrap().segments > 0);
    let newest = engine.newest_sequence();
    for error in [rest_of(&mut early).unwrap_err(), engine.changes(table, 0).unwrap_err()] {
        let Error::ChangesLost { oldest, newest: last, .. } = error else { panic!("{error}") };
        assert!(oldest > 0 && oldest <= last && last == newest, "{error}");
        let written = changes_since(&engine, table, oldest).unwrap();
        assert_eq!(written.len() as u64, newest - oldest);
    }
    let ahead = engine.changes(table, newest + 1).unwrap_err();
    assert!(matches!(ahead, Error::ChangesLost { newest: last, .. } if last == newest));
    let written = write_some(&engine, table, &mut SeededRandom::new(2), 30);
    assert_eq!(changes_since(&engine, table, newest).unwrap(), written);
}

#[test]
fn changes_are_durable_before_they_are_returned_if_asked_for() {
    let (_files, engine, table) = open_new(tiny);
    let mut changes = engine.changes(table, engine.newest_sequence()).unwrap().durable_only();
    for _ in 0..3 {
        let written = engine.put(table, b"key", b"value").unwrap();
        assert!(engine.stats().durable_sequence < written.sequence);
        assert_eq!(rest_of(&mut changes).unwrap().len(), 1);
        assert!(engine.stats().durable_sequence >= written.sequence);
    }
}

/// Otherwise a follower that has seen a write which a loss of power took back would never see the
/// write that reuses its sequence number.
#[test]
fn a_number_beyond_the_last_write_is_refused_after_a_loss_of_power() {
    let (files, engine, table) = open_new(tiny);
    let written = engine.put(table, b"durable", b"value").unwrap();
    engine.wait_durable(written.sequence).unwrap();
    let since = write_some(&engine, table, &mut SeededRandom::new(3), 10).last().unwrap().0;
    let mut fallen_back = 0;
    for seed in 0..20 {
        let engine = Engine::open(STORE, tiny(&files.crash(seed))).unwrap();
        let newest = engine.newest_sequence();
        if newest < since {
            fallen_back += 1;
            let refused = engine.changes(table, since).unwrap_err();
            assert!(matches!(refused, Error::ChangesLost { .. }), "{refused}");
        }
        let kept = changes_since(&engine, table, written.sequence - 1).unwrap();
        assert_eq!(kept[0].0, written.sequence);
    }
    assert!(fallen_back > 0, "no loss of power took a write");
}

/// Regression: a step over large writes of other tables read gigabytes before it returned.
#[test]
fn a_step_over_other_tables_reads_few_bytes() {
    let (_, engine, _) = open_new(tiny);
    let (mine, other) = (engine.table("mine").unwrap(), engine.table("other").unwrap());
    let since = engine.stats().published_sequence;
    for number in 0..60 {
        put(&engine, other, &[number], &[7; 100_000]).unwrap();
    }
    let mut changes = engine.changes(mine, since).unwrap();
    let mut steps = 0;
    while !matches!(changes.step().unwrap(), ChangeStep::End) {
        steps += 1;
    }
    assert!((5..20).contains(&steps), "{steps} steps");
}
