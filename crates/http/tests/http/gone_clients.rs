//! Clients that go away before their response is complete, and the accounts of their requests.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::common::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, frame, greeting, headers, post, read_frame,
};
use crate::common::tls_client::{certificates, client_config, client_of};
use crate::common::{
    TestServer, await_that, connect, connect_narrow, gone, read_to, request, rest, start,
    start_connected, start_narrow, start_with,
};
use pellucid_account::Phase;
use pellucid_http::{AbortReason, HALF_CLOSE_GRACE, Limits};
use socket2::SockRef;

fn await_gone(number: usize) {
    await_that(|| gone(number) > 0, || format!("client {number} is not known to be gone"));
}

fn await_in_flight(running: &TestServer, count: usize) {
    running.until("the requests are in flight", |stats| stats.requests_in_flight == count);
}

fn reset(socket: &TcpStream) {
    SockRef::from(socket).set_linger(Some(Duration::ZERO)).unwrap();
}

/// The time for which a client lets its response wait before it goes.
const STALL: Duration = Duration::from_millis(300);

/// Checks that the only request so far has this ending, and that `phase` lasted at least [`STALL`].
fn assert_ended(running: &TestServer, ending: AbortReason, phase: Phase) {
    let record = running.records(1).remove(0);
    assert_eq!(record.facts.outcome, 1 + ending as u8, "{ending:?}: {record:?}");
    let clock = running.account.clock();
    let total_ns = clock.nanoseconds(record.total_ticks());
    let phase_ns = clock.nanoseconds(record.phase_ticks(phase));
    assert!(u128::from(phase_ns) >= STALL.as_nanos(), "{phase:?} has {phase_ns} of {total_ns} ns");
}

/// Reads the first bytes of a response, and lets the rest wait.
fn stall(socket: &mut TcpStream) {
    socket.read_exact(&mut [0; 100]).unwrap();
    std::thread::sleep(STALL + Duration::from_millis(50));
}

/// Regression: the account of such a response ended when its head was made: after some
/// microseconds, and as a success.
#[test]
fn the_account_of_an_abandoned_response_ends_when_its_client_goes() {
    for (path, phase, is_reset) in [
        ("/endless", Phase::Encode, true),
        ("/endless", Phase::Encode, false),
        ("/large", Phase::Write, true),
        ("/large", Phase::Write, false),
    ] {
        let running = start_narrow(Limits::default(), None);
        let mut socket = connect_narrow(&running);
        socket.write_all(request(path, "", "").as_bytes()).unwrap();
        stall(&mut socket);
        if is_reset {
            reset(&socket);
        }
        drop(socket);
        assert_ended(&running, AbortReason::ClientGone, phase);
    }
}

#[test]
fn the_account_of_an_abandoned_stream_ends_when_its_client_goes() {
    for goes in [Shutdown::Both, Shutdown::Read] {
        let (running, mut socket) = start_connected(Limits::default());
        let ask = frame(HEADERS, END_STREAM | END_HEADERS, 1, &headers("/endless"));
        socket.write_all(&[greeting(), ask].concat()).unwrap();
        stall(&mut socket);
        match goes {
            Shutdown::Both => reset(&socket),
            _ => socket.write_all(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes())).unwrap(),
        }
        let socket = (goes == Shutdown::Read).then_some(socket);
        assert_ended(&running, AbortReason::ClientGone, Phase::Encode);
        drop(socket);
    }
}

#[test]
fn the_account_of_a_handed_over_request_ends_when_its_client_goes() {
    let (running, mut socket) = start_connected(Limits::default());
    let mut bytes = greeting();
    bytes.extend(frame(HEADERS, END_HEADERS, 1, &post("/watched")));
    bytes.extend(frame(DATA, END_STREAM, 1, b"5"));
    socket.write_all(&bytes).unwrap();
    await_in_flight(&running, 1);
    socket.write_all(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes())).unwrap();
    await_gone(5);
    assert_eq!(running.records(1)[0].facts.outcome, 1 + AbortReason::ClientGone as u8);
    let mut socket = connect(&running);
    socket.write_all(request("/watched", "", "6").as_bytes()).unwrap();
    await_in_flight(&running, 1);
    reset(&socket);
    drop(socket);
    await_gone(6);
    let ended = running.records(2);
    assert_eq!(ended[1].facts.outcome, 1 + AbortReason::ClientGone as u8, "{ended:?}");
}

#[test]
fn the_account_of_a_response_ends_when_the_server_cuts_it() {
    let limits = Limits { exchange: STALL, ..Limits::default() };
    for protocol in ["http/1.1", "h2"] {
        let (running, mut socket) = start_connected(limits.clone());
        let ask = frame(HEADERS, END_STREAM | END_HEADERS, 1, &headers("/endless"));
        match protocol {
            "h2" => socket.write_all(&[greeting(), ask].concat()).unwrap(),
            _ => socket.write_all(request("/endless", "", "").as_bytes()).unwrap(),
        }
        assert_ended(&running, AbortReason::TimedOut, Phase::Encode);
    }
}

#[test]
fn the_account_of_a_broken_response_is_failed() {
    let (running, mut socket) = start_connected(Limits::default());
    socket.write_all(request("/broken", "", "").as_bytes()).unwrap();
    socket.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(running.records(1)[0].facts.outcome, 1 + AbortReason::Failed as u8);
}

/// Regression: to an HTTP/1.0 client, for which the end of the connection ends the body, a broken
/// body looked complete.
#[test]
fn a_broken_response_is_a_reset_to_a_client_of_http_1_0() {
    let (_running, mut socket) = start_connected(Limits::default());
    socket.write_all(b"GET /broken HTTP/1.0\r\n\r\n").unwrap();
    let ended = socket.read_to_end(&mut Vec::new());
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn the_account_of_a_response_that_a_stop_ends_is_cut() {
    let (mut running, mut socket) = start_connected(Limits { stop: STALL, ..Limits::default() });
    socket.write_all(request("/waiting", "", "").as_bytes()).unwrap();
    await_in_flight(&running, 1);
    running.server.take().unwrap().stop().unwrap();
    assert_ended(&running, AbortReason::Cut, Phase::Encode);
}

/// Regression: the reset was not noticed until there was an answer to send.
#[test]
fn a_client_that_resets_its_connection_is_gone_at_once() {
    let running = start(Limits::default());
    // A machine may stall for longer than that, but not each time.
    let is_at_once = (1..=5).any(|count| {
        let mut socket = connect(&running);
        socket.write_all(request("/watched", "", "0").as_bytes()).unwrap();
        await_in_flight(&running, 1);
        reset(&socket);
        let begun = Instant::now();
        drop(socket);
        await_that(|| gone(0) == count, || format!("{count} clients are not known to be gone"));
        let is_at_once = begun.elapsed() < HALF_CLOSE_GRACE;
        running.until_nothing_is_left();
        is_at_once
    });
    assert!(is_at_once, "a reset leaves no doubt");
}

#[test]
fn a_client_that_resets_its_connection_in_tls_is_gone() {
    let running = start_with(Limits::default(), Some(certificates("first")));
    let mut client = client_of(&running, &client_config("first", rustls::ALL_VERSIONS));
    client.write_all(request("/watched", "", "1").as_bytes()).unwrap();
    client.flush().unwrap();
    await_in_flight(&running, 1);
    reset(&client.sock);
    drop(client);
    await_gone(1);
}

/// A FIN comes when a client exits, and also when it only closes its sending side.
#[test]
fn a_client_that_sends_no_more_is_gone_after_a_while_and_still_answered() {
    let (_running, mut socket) = start_connected(Limits::default());
    let begun = Instant::now();
    socket.write_all(request("/watched", "", "2").as_bytes()).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let answer = rest(socket);
    assert!(answer.starts_with("HTTP/1.1 202 ") && answer.ends_with("\r\n\r\ngone"), "{answer}");
    assert!(begun.elapsed() >= HALF_CLOSE_GRACE, "{:?}", begun.elapsed());
}

#[test]
fn a_stream_that_is_reset_and_a_connection_that_ends_are_gone() {
    let (running, mut socket) = start_connected(Limits::default());
    let mut bytes = greeting();
    for (stream, number) in [(1, b"3"), (3, b"4")] {
        bytes.extend(frame(HEADERS, END_HEADERS, stream, &post("/watched")));
        bytes.extend(frame(DATA, END_STREAM, stream, number));
    }
    socket.write_all(&bytes).unwrap();
    await_in_flight(&running, 2);
    socket.write_all(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes())).unwrap();
    await_gone(3);
    await_in_flight(&running, 1);
    assert_eq!(gone(4), 0, "the other stream goes on");
    socket.shutdown(Shutdown::Write).unwrap();
    await_gone(4);
    while read_frame(&mut socket).is_some() {}
    running.until_nothing_is_left();
}

/// Regression: while much waited for windows, a reset was noticed only with the next input.
#[test]
fn a_reset_is_noticed_at_once_however_much_waits_for_windows() {
    let (running, mut socket) = start_connected(Limits::default());
    let mut bytes = greeting();
    bytes.extend(frame(HEADERS, END_HEADERS, 1, &post("/watched")));
    bytes.extend(frame(DATA, END_STREAM, 1, b"7"));
    // Their first pieces are more than may wait before further requests are not accepted.
    for stream in [3, 5, 7, 9, 11, 13] {
        bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &headers("/endless")));
    }
    socket.write_all(&bytes).unwrap();
    await_in_flight(&running, 7);
    let resets = [1, 3, 5, 7, 9, 11, 13].map(|of| frame(RST_STREAM, 0, of, &8_u32.to_be_bytes()));
    socket.write_all(&resets.concat()).unwrap();
    await_gone(7);
    await_in_flight(&running, 0);
}

/// Regression: a streamed response without a ready piece kept its connection for ever.
#[test]
fn a_waiting_streamed_response_ends_with_its_connection() {
    let (running, mut socket) = start_connected(Limits::default());
    socket.write_all(request("/waiting", "", "").as_bytes()).unwrap();
    await_in_flight(&running, 1);
    reset(&socket);
    drop(socket);
    running.until_nothing_is_left();
}

/// Regression: an answer from a hand-over overtook unsent bytes, which were lost; in TLS the
/// process ended.
#[test]
fn an_answer_from_a_hand_over_waits_for_those_before_it() {
    for tls in [false, true] {
        let running = start_narrow(Limits::default(), tls.then(|| certificates("first")));
        // The body is larger than the kernel's buffer, and smaller than the limit of unsent bytes
        // beyond which the second request waits.
        let body = "x".repeat(240_000);
        let text = request("/", "", &body) + &request("/later", "", "behind it");
        let take = |stream: &mut dyn Read| {
            // After this, the second answer is ready, and the first is not completely sent.
            std::thread::sleep(Duration::from_millis(200));
            read_to(stream, "\r\n\r\nbehind it")
        };
        let answer = if tls {
            let mut client = client_of(&running, &client_config("first", rustls::ALL_VERSIONS));
            client.write_all(text.as_bytes()).unwrap();
            client.flush().unwrap();
            take(&mut client)
        } else {
            let mut socket = connect(&running);
            socket.write_all(text.as_bytes()).unwrap();
            take(&mut socket)
        };
        assert!(answer.contains(&format!("\r\n\r\n{body}HTTP/1.1 202 ")), "TLS: {tls}");
    }
}
