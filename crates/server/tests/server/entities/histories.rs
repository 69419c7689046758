//! Concurrent clients of one server: each key behaves as a register, also across restarts.

use std::sync::{Arc, Mutex};

use crate::common::histories::{Effect, Event, History, OperationMix, is_linearizable};
use crate::common::{Client, start, start_on, wait_until};
use tempfile::TempDir;

/// Number of concurrent clients.
const CLIENTS: u64 = 6;

#[test]
fn every_key_is_a_register() {
    let events = play(40, 40, OperationMix::Single);
    assert_eq!(events, 40 * 40 * CLIENTS as usize);
}

/// Reads of several keys and ranges see a batch completely or not at all.
#[test]
fn operations_on_several_keys_have_one_moment() {
    let events = play(40, 40, OperationMix::Several);
    assert_eq!(events, 40 * 40 * CLIENTS as usize);
}

/// Plays `rounds` histories with `count` operations for each client; returns the number of events.
fn play(rounds: u64, count: u64, mix: OperationMix) -> usize {
    let server = start();
    let mut events = 0;
    for round in 0..rounds {
        let history = History::default();
        let prefix = format!("round {round} ");
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (history, prefix, server) = (&history, &prefix, &server);
                let seed = round * 1_000 + client;
                let connect = move || Some(server.client());
                scope.spawn(move || history.play((prefix, mix), count, seed, connect));
            }
        });
        let (all, unknown) = history.check(&prefix);
        assert_eq!(unknown, 0, "no connection was lost");
        events += all;
    }
    events
}

#[test]
fn every_key_is_a_register_beside_restarts() {
    for round in 0..6 {
        let folder = Arc::new(TempDir::new().unwrap());
        let server = start_on(Arc::clone(&folder), |_| {});
        let address = Mutex::new(server.address);
        let history = History::default();
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (history, address) = (&history, &address);
                let connect = move || {
                    let address = *address.lock().unwrap();
                    Client::try_connect(address).ok()
                };
                let seed = round * 1_000 + client;
                scope.spawn(move || history.play(("k", OperationMix::Several), 60, seed, connect));
            }
            let mut server = server;
            // The clients make 360 operations in all.
            for events in [40, 80, 120] {
                wait_until(|| history.len(), |count| *count >= events);
                server = server.restart();
                *address.lock().unwrap() = server.address;
            }
            // The server runs until all clients are done.
            server
        });
        history.check(&format!("round {round}"));
    }
}

/// A check that accepts every history would prove nothing.
#[test]
fn a_history_that_is_not_linearizable_is_detected() {
    use Effect::{Read, Swap, Write};
    let event = |called, answered, effect| Event::new(called, answered, &[(0, effect)]);
    let written = || event(0, Some(1), Write(Some(1)));
    // A read that is older than the write before it.
    assert!(!is_linearizable(&[written(), event(2, Some(3), Read(None))]));
    assert!(is_linearizable(&[written(), event(0, Some(3), Read(None))]));
    // Two reads during a write, of which the later one sees the older value.
    let beside = event(2, Some(9), Write(Some(2)));
    let (new, old) = (event(3, Some(4), Read(Some(2))), event(5, Some(6), Read(Some(1))));
    assert!(!is_linearizable(&[written(), beside, new, old]));
    // Two conditional writes on one value cannot both be done.
    let swap = |called, to| {
        event(called, Some(called + 5), Swap { from: Some(1), to: Some(to), is_done: true })
    };
    assert!(!is_linearizable(&[written(), swap(2, 2), swap(3, 3)]));
    // A write whose answer was lost may or may not have happened.
    let lost = || event(2, None, Write(Some(2)));
    for seen in [Some(1), Some(2)] {
        assert!(is_linearizable(&[written(), lost(), event(3, Some(4), Read(seen))]));
    }
    let back = event(5, Some(6), Read(Some(1)));
    assert!(!is_linearizable(&[written(), lost(), event(3, Some(4), Read(Some(2))), back]));
    // Half of a batch, which a check of each key alone would accept.
    let batch = |answered| Event::new(0, answered, &[(0, Write(Some(1))), (1, Write(Some(2)))]);
    let half = Event::new(1, Some(2), &[(0, Read(Some(1))), (1, Read(None))]);
    assert!(!is_linearizable(&[batch(Some(9)), half.clone()]));
    assert!(!is_linearizable(&[batch(None), half]));
    let whole = Event::new(1, Some(2), &[(0, Read(Some(1))), (1, Read(Some(2)))]);
    assert!(is_linearizable(&[batch(Some(9)), whole]));
}

/// Regression: each write with an unknown outcome doubled the number of orders. On a busy machine,
/// on which a restart takes seconds, the check of one history took 8 GB and did not end.
#[test]
fn many_writes_with_unknown_outcomes_do_not_prolong_the_search() {
    use Effect::{Read, Swap, Write};
    let event = |called, answered, effect| Event::new(called, answered, &[(0, effect)]);
    let lost = |number| {
        let effect = match number % 3 {
            0 => Write(None),
            1 => Write(Some(number)),
            _ => Swap { from: Some(1), to: Some(number), is_done: true },
        };
        event(2 + number, None, effect)
    };
    let begin = || event(0, Some(1), Write(Some(1)));
    let mut events: Vec<Event> = std::iter::once(begin()).chain((0..90).map(lost)).collect();
    // Reads alternate between no value, which needs a lost deletion each, and that of a lost write.
    for number in 0..20 {
        let seen = if number % 2 == 0 { None } else { Some(31 + 3 * (number / 2)) };
        events.push(event(100 + 2 * number, Some(101 + 2 * number), Read(seen)));
    }
    assert!(is_linearizable(&events));
    events.push(event(200, Some(201), Read(Some(1_000))));
    assert!(!is_linearizable(&events));
}
