//! Tests of cursors.

use std::sync::{Arc, Weak};

use pellucid_value::{Array, Value};

use super::super::cursor::ResultRemainder;
use super::*;

/// The memory for requests in these tests. Results may take half of it.
const MEMORY: usize = 2 << 30;

const DATABASE: u64 = 7;

fn cursors() -> Cursors {
    Cursors::new(Budget::new(MEMORY))
}

fn cursor(id: u64, expires_at_ms: u64) -> (Box<Cursor>, Weak<Array>) {
    let value = Value::array(vec![Value::from("a result that somebody wanted")]).unwrap();
    let Value::Array(values) = value else { panic!("it is an array") };
    let held = Arc::downgrade(&values);
    let cursor = Cursor {
        id,
        database: DATABASE,
        owner: Owner::of(&Identity::Anybody),
        collections: Vec::new(),
        text: String::new(),
        rest: ResultRemainder::Ready { values: vec![Value::Array(values)].into_iter(), bytes: 1 },
        batch_size: 1,
        next_batch: 1,
        trailer: Vec::new(),
        ttl_ms: 1,
        expires_at_ms,
        last_batch: None,
        may_retry: false,
        is_exhausted: false,
        committed: None,
        listed: None,
        memory: Budget::unbounded().share(usize::MAX),
    };
    (Box::new(cursor), held)
}

/// The number of the error with which a cursor cannot be taken.
fn refusal(cursors: &Cursors, id: u64) -> Option<u16> {
    cursors.take(DATABASE, id, &Identity::Anybody).err().map(|error| error.number.0)
}

/// The memory of a result is freed when its cursor expires, and not before.
#[test]
fn expired_cursors_are_freed() {
    let cursors = cursors();
    let (first, of_first) = cursor(1, 100);
    let (second, of_second) = cursor(2, 200);
    cursors.keep(first).unwrap();
    cursors.keep(second).unwrap();
    cursors.remove_expired(99);
    assert!(of_first.upgrade().is_some());
    cursors.remove_expired(150);
    assert!(of_first.upgrade().is_none() && of_second.upgrade().is_some());
    assert_eq!(refusal(&cursors, 1), Some(1600));
    // A cursor that is being read does not expire, and cannot be taken again.
    let taken = cursors.take(DATABASE, 2, &Identity::Anybody).unwrap();
    cursors.remove_expired(300);
    assert!(of_second.upgrade().is_some());
    assert_eq!(refusal(&cursors, 2), Some(1601));
    cursors.forget(taken.id);
    drop(taken);
    assert!(of_second.upgrade().is_none());
}

#[test]
fn cursors_beyond_the_limit_are_refused() {
    let cursors = cursors();
    for id in 0..CURSORS_MAX as u64 {
        cursors.keep(cursor(id, u64::MAX).0).unwrap();
    }
    let refused = cursors.keep(cursor(u64::MAX, u64::MAX).0).err();
    assert_eq!(refused.map(|error| error.number), Some(ErrorNumber::RESOURCE_LIMIT));
    // A cursor that has its slot can be kept again.
    let again = cursors.take(DATABASE, 7, &Identity::Anybody).unwrap();
    cursors.keep(again).unwrap();
}

fn weigh(cursor: &mut Cursor, with: usize) {
    if let ResultRemainder::Ready { bytes, .. } = &mut cursor.rest {
        *bytes = with;
    }
}

/// Regression: the results of a few cursors could take all memory.
#[test]
fn results_beyond_the_limit_of_memory_are_refused() {
    let cursors = cursors();
    let large = |id: u64| {
        let (mut cursor, held) = cursor(id, u64::MAX);
        weigh(&mut cursor, MEMORY / CURSORS_MEMORY_PART / 3);
        (cursor, held)
    };
    for id in 1..=2 {
        cursors.keep(large(id).0).unwrap();
    }
    let (third, of_third) = large(3);
    let refused = cursors.keep(third).err();
    assert_eq!(refused.map(|error| error.number), Some(ErrorNumber::RESOURCE_LIMIT));
    assert!(of_third.upgrade().is_none());
    cursors.keep(cursor(4, u64::MAX).0).unwrap();
    // A cursor that is kept again takes no more memory than before, and one read to its end none.
    let again = cursors.take(DATABASE, 1, &Identity::Anybody).unwrap();
    cursors.keep(again).unwrap();
    cursors.forget(cursors.take(DATABASE, 2, &Identity::Anybody).unwrap().id);
    cursors.keep(large(3).0).unwrap();
    // A cursor that grows while it is read can exceed the limit as well.
    let mut grown = cursors.take(DATABASE, 3, &Identity::Anybody).unwrap();
    weigh(&mut grown, MEMORY / CURSORS_MEMORY_PART);
    assert!(cursors.keep(grown).is_err());
    assert_eq!(refusal(&cursors, 3), Some(1600));
    cursors.remove_expired(u64::MAX);
    let CursorFigures { open, bytes } = cursors.figures();
    assert_eq!((open, bytes), (0, 0));
}

/// Regression: one account could open all cursors that the server allows.
#[test]
fn the_cursors_of_one_account_are_limited() {
    let cursors = cursors();
    let account = |name: &str| {
        let record = crate::access::AccountRecord::new(name).unwrap();
        Identity::Account(Arc::new(record), crate::access::Proof::Password)
    };
    let (ann, ben) = (account("ann"), account("ben"));
    let of = |id: usize, caller: &Identity| {
        let mut cursor = cursor(id as u64, u64::MAX).0;
        cursor.owner = Owner::of(caller);
        cursor
    };
    for id in 0..CURSORS_OF_ACCOUNT_MAX {
        cursors.keep(of(id, &ann)).unwrap();
    }
    let refused = cursors.keep(of(CURSORS_MAX, &ann)).unwrap_err();
    assert_eq!(refused.number, ErrorNumber::RESOURCE_LIMIT);
    cursors.keep(of(CURSORS_MAX, &ben)).unwrap();
    let again = cursors.take(DATABASE, 7, &ann).unwrap();
    cursors.keep(again).unwrap();
    cursors.remove(DATABASE, 7, &ann).unwrap();
    cursors.keep(of(7, &ann)).unwrap();
}

/// The result of an open cursor counts in the server's budget until it is read or expires.
#[test]
fn results_of_open_cursors_count_in_the_budget() {
    let cursors = cursors();
    let mut waiting = cursor(1, 100).0;
    waiting.memory = cursors.memory();
    weigh(&mut waiting, 1 << 20);
    cursors.keep(waiting).unwrap();
    assert!(cursors.memory.used_bytes() >= 1 << 20);
    cursors.remove_expired(100);
    assert_eq!(cursors.memory.used_bytes(), 0);
    cursors.memory.take(MEMORY - 4096).unwrap();
    let mut refused = cursor(2, 100).0;
    refused.memory = cursors.memory();
    weigh(&mut refused, 1 << 20);
    assert_eq!(cursors.keep(refused).unwrap_err().number, ErrorNumber::RESOURCE_LIMIT);
    assert_eq!(cursors.figures().open, 0);
}
