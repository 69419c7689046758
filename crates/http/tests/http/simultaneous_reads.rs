//! Connections that become readable in one wake-up: they are read one after the other, and answered
//! afterwards.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::common::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, frame, greeting, headers, post,
};
use crate::common::{
    TestServer, await_held, connect, read_to, release, request, rest, start_single,
};
use pellucid_account::{PHASES, Phase, Record, Stamp};
use pellucid_http::Limits;

/// More connections than are read before the first of them is answered.
const CONNECTIONS: usize = 3 * pellucid_http::AHEAD_CONNECTIONS_MAX + 1;

/// Holds the only event loop at `gate` and calls `send` meanwhile, so that the loop finds all that
/// it sends in one wake-up. Each of `sockets` has had a request answered before.
fn while_held_up(
    running: &TestServer,
    gate: usize,
    sockets: &mut [TcpStream],
    send: impl FnOnce(&mut [TcpStream]),
) {
    for socket in sockets.iter_mut() {
        socket.set_nodelay(true).unwrap();
        socket.write_all(request("/", "", "first").as_bytes()).unwrap();
        read_answer(socket, "first");
    }
    let mut held = connect(running);
    let text = request("/held", "Connection: close\r\n", &gate.to_string());
    held.write_all(text.as_bytes()).unwrap();
    await_held(gate);
    send(sockets);
    release(gate);
    held.read_to_end(&mut Vec::new()).unwrap();
}

/// Reads up to a body that ends with `body`.
fn read_answer(socket: &mut TcpStream, body: &str) {
    let text = read_to(socket, body);
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

#[test]
fn all_are_answered_each_with_its_own() {
    let running = start_single(Limits::default());
    let mut sockets: Vec<_> = (0..CONNECTIONS).map(|_| connect(&running)).collect();
    while_held_up(&running, 0, &mut sockets, |sockets| {
        for (number, socket) in sockets.iter_mut().enumerate() {
            socket.write_all(request("/", "", &format!("body {number}.")).as_bytes()).unwrap();
        }
    });
    for (number, socket) in sockets.iter_mut().enumerate() {
        read_answer(socket, &format!("body {number}."));
    }
}

/// Half requests, several requests, more than the buffer holds, streamed responses, and ends of
/// connections, all in one wake-up.
#[test]
fn connections_read_together_do_not_affect_each_other() {
    let running = start_single(Limits::default());
    let mut sockets: Vec<_> = (0..CONNECTIONS).map(|_| connect(&running)).collect();
    let long = "l".repeat(30_000) + "end";
    let whole = request("/", "", "whole");
    let (half, other_half) = whole.split_at(whole.len() / 2);
    while_held_up(&running, 1, &mut sockets, |sockets| {
        for (number, socket) in sockets.iter_mut().enumerate() {
            let text = match number % 6 {
                0 => half.to_owned(),
                1 => whole.clone() + &request("/", "", "and one more"),
                2 => request("/", "", &long),
                3 => request("/pieces", "Connection: close\r\n", ""),
                4 => request("/", "Connection: close\r\n", "last"),
                _ => whole.clone(),
            };
            socket.write_all(text.as_bytes()).unwrap();
            if number % 6 == 5 {
                socket.shutdown(Shutdown::Write).unwrap();
            }
        }
    });
    for (number, socket) in sockets.iter_mut().enumerate() {
        match number % 6 {
            0 => {
                socket.write_all(other_half.as_bytes()).unwrap();
                read_answer(socket, "whole");
            }
            1 => read_answer(socket, "and one more"),
            2 => read_answer(socket, &long),
            ends => {
                let answer = rest(socket);
                let end = ["\r\n0\r\n\r\n", "last", "whole"][ends - 3];
                assert!(answer.ends_with(end), "{number}: {answer:.200}");
            }
        }
    }
}

/// Regression: a refusal overtook a response that waited in the batch, and the client took it for
/// the answer to its first request.
#[test]
fn a_refusal_is_sent_behind_the_responses_that_wait() {
    let running = start_single(Limits { body_bytes_in_flight: 1, ..Limits::default() });
    let mut sockets: Vec<_> = (0..2).map(|_| connect(&running)).collect();
    let body = "b".repeat(40_000);
    let incomplete = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n".to_owned();
    while_held_up(&running, 14, &mut sockets, |sockets| {
        let first = request("/", "", "of the first") + &incomplete + &body;
        sockets[0].write_all(first.as_bytes()).unwrap();
        sockets[1].write_all(request("/", "", "of another").as_bytes()).unwrap();
    });
    read_answer(&mut sockets[1], "of another");
    let answers = rest(&mut sockets[0]);
    let statuses: Vec<_> = answers.match_indices("HTTP/1.1 ").collect();
    let status_at = |number: usize| &answers[statuses[number].0 + 9..][..3];
    assert_eq!((status_at(0), status_at(1), statuses.len()), ("200", "413", 2), "{answers}");
}

/// The wait for other connections of the same wake-up is part of `queue`, and the phases still add
/// up.
#[test]
fn the_wait_for_others_of_the_wake_up_is_queue() {
    let running = start_single(Limits::default());
    let mut sockets: Vec<_> = (0..4).map(|_| connect(&running)).collect();
    while_held_up(&running, 2, &mut sockets, |sockets| {
        // All but one of them hold the loop up.
        for (number, socket) in sockets.iter_mut().enumerate() {
            let path = if number == 2 { "/" } else { "/slow" };
            socket.write_all(request(path, "", "done").as_bytes()).unwrap();
        }
    });
    sockets.iter_mut().for_each(|socket| read_answer(socket, "done"));
    let snapshot = running.account.snapshot(None);
    let operation = &snapshot.operations[0];
    let phase = |name: &str| {
        let named = operation.phases.iter().find(|phase| phase.name == name).unwrap();
        &named.distribution
    };
    // In any order, the last one waited for at least two that took 100 ms each.
    assert!(phase("queue").max_ns >= 200_000_000, "{:?}", phase("queue"));
    assert!(phase("unaccounted").max_ns < 1_000_000, "{:?}", phase("unaccounted"));
    assert!(phase("parse").max_ns < phase("queue").max_ns / 2, "{:?}", phase("parse"));
}

/// The sum of the phases that make up the total of a request.
fn within_total(record: &Record) -> u64 {
    let others = [Phase::Receive, Phase::Unaccounted];
    let within = PHASES.into_iter().filter(|phase| !others.contains(phase));
    within.map(|phase| record.phase_ticks(phase)).sum()
}

/// Regression: requests that were read together with one that was handed over, or whose response
/// was streamed, counted as received only once that one had ended.
#[test]
fn the_wait_for_a_request_that_is_away_is_queue() {
    let running = start_single(Limits::default());
    let mut socket = connect(&running);
    let [away, streamed] = ["/later", "/pieces"].map(|path| request(path, "", "away"));
    let direct = request("/", "", "direct");
    let last = request("/", "Connection: close\r\n", "last");
    socket.write_all([away, direct, streamed, last].concat().as_bytes()).unwrap();
    socket.read_to_end(&mut Vec::new()).unwrap();
    let records = running.records(4);
    let clock = running.account.clock();
    let ns = |record: &Record, phase| clock.nanoseconds(record.phase_ticks(phase));
    for record in &records[1..] {
        assert!(ns(record, Phase::Queue) >= 15_000_000, "the hand-over lasted 20 ms: {record:?}");
        assert!(ns(record, Phase::Parse) < 15_000_000, "{record:?}");
        assert_eq!(within_total(record), record.total_ticks(), "the phases add up: {record:?}");
        assert_eq!(record.arrived_ticks, records[0].arrived_ticks, "of one read: {record:?}");
        assert_eq!(record.stamp(Stamp::Received), records[0].stamp(Stamp::Received));
    }
}

/// Regression: the wait for a request that was handed over was part of `receive` of the half
/// request behind it.
#[test]
fn half_a_request_begins_after_the_hand_over_before_it() {
    let running = start_single(Limits::default());
    let mut socket = connect(&running);
    let last = request("/", "Connection: close\r\n", "last");
    let (half, rest) = last.split_at(last.len() / 2);
    socket.write_all([&request("/later", "", "away"), half].concat().as_bytes()).unwrap();
    assert!(socket.read(&mut [0; 1_024]).unwrap() > 0, "the first answer");
    socket.write_all(rest.as_bytes()).unwrap();
    socket.read_to_end(&mut Vec::new()).unwrap();
    let records = running.records(2);
    let between = records[1].arrived_ticks - records[0].arrived_ticks;
    let between_ns = running.account.clock().nanoseconds(between);
    assert!(between_ns >= 15_000_000, "the hand-over lasted 20 ms: {records:?}");
}

/// Regression: the wait for other streams of a read was part of `parse` for requests with a body.
#[test]
fn the_wait_for_other_streams_of_a_read_is_queue() {
    let running = start_single(Limits::default());
    let mut socket = connect(&running);
    let stream = |number, head: Vec<u8>, flags| frame(HEADERS, END_HEADERS | flags, number, &head);
    let body = |number| frame(DATA, END_STREAM, number, b"body");
    let text = [
        greeting(),
        stream(1, headers("/slow"), END_STREAM),
        [stream(3, post("/slow"), 0), body(3)].concat(),
        [stream(5, post("/slow"), 0), body(5)].concat(),
    ];
    socket.write_all(&text.concat()).unwrap();
    let clock = running.account.clock();
    for (before, record) in running.records(3).iter().enumerate() {
        let queue_ns = clock.nanoseconds(record.phase_ticks(Phase::Queue));
        assert!(queue_ns >= before as u64 * 99_000_000, "behind {before}: {record:?}");
        assert_eq!(within_total(record), record.total_ticks(), "the phases add up: {record:?}");
    }
}

/// Runs requests for links: `ready` of them in one wake-up, and two more while these are answered.
/// Returns the answers of the first of each group, which say how many were settled together.
fn settled_together(ready: usize, gates: [usize; 2]) -> [String; 2] {
    let running = start_single(Limits::default());
    let mut sockets: Vec<_> = (0..ready + 2).map(|_| connect(&running)).collect();
    while_held_up(&running, gates[0], &mut sockets, |sockets| {
        let held = request("/held-put-by", "", &gates[1].to_string());
        sockets[0].write_all(held.as_bytes()).unwrap();
        for socket in &mut sockets[1..ready] {
            socket.write_all(request("/put-by", "", "").as_bytes()).unwrap();
        }
    });
    await_held(gates[1]);
    for socket in &mut sockets[ready..] {
        socket.write_all(request("/put-by", "", "").as_bytes()).unwrap();
    }
    release(gates[1]);
    [0, ready].map(|index| {
        let text = read_to(&mut sockets[index], " together");
        text.rsplit_once("\r\n").unwrap().1.to_owned()
    })
}

/// A frame to a peer costs both sides the same for one request as for twenty. So a busy loop looks
/// for more requests before it sends one, and an idle loop does not wait.
#[test]
fn links_of_a_busy_loop_also_send_requests_that_came_meanwhile() {
    let enough = pellucid_http::LINK_LOOK_READY_MIN;
    let all = format!("{} together", enough + 2);
    assert_eq!(settled_together(enough, [3, 4]), [all.clone(), all]);
    assert_eq!(settled_together(enough - 1, [5, 6]), ["7 together", "2 together"]);
}
