//! A node whose peer is not what it should be: silent, slow, talking nonsense, or asking for what
//! is not there. The peer is a socket of the test's own that greets as a node does.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::entity;
use common::nodes::{Node, PATIENCE, free_addresses, list_of, options, try_start};
use pellucid_cluster::{
    Answer, AnswerStatus, Ask, AskKind, Frame, PartOperation, RangeAsk, decode,
};
use pellucid_server::{ClusterOptions, NodeList};
use pellucid_store::{Acknowledgement, Condition, Operation};
use tempfile::TempDir;

/// How long the node under test waits for its peer.
const WAIT: Duration = Duration::from_millis(300);
/// What that may take on a machine that has much else to do; far below [`PATIENCE`], which is what
/// a wait without an end would take.
const WAIT_BOUND: Duration = Duration::from_secs(5);

/// A node whose only peer the test is.
struct Alone {
    node: Node,
    list: NodeList,
    greeted: Receiver<TcpStream>,
}

/// Starts a node; `silence` is how long its peer may be silent.
fn start(silence: Duration) -> Alone {
    start_beside(silence, b"")
}

/// As [`start`], with a peer that sends `with_it` in one piece with its consent.
fn start_beside(silence: Duration, with_it: &'static [u8]) -> Alone {
    start_as(with_it, |cluster| (cluster.wait, cluster.silence) = (WAIT, silence))
}

/// As [`start_beside`], with a cluster as `set` leaves it.
fn start_as(with_it: &'static [u8], set: impl Fn(&mut ClusterOptions)) -> Alone {
    let addresses = free_addresses(2);
    let list = list_of(&addresses);
    let listener = TcpListener::bind(addresses[1]).unwrap();
    let (sender, greeted) = channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(socket) = socket else { return };
            if sender.send(greet(socket, with_it)).is_err() {
                return;
            }
        }
    });
    let folder = TempDir::new().unwrap();
    let mut options = options(&folder, addresses[0], &list);
    options.threads = 1;
    if let Some(cluster) = &mut options.cluster {
        set(cluster);
    }
    let (server, log) = try_start(options).unwrap();
    Alone { node: Node { server: Some(server), address: addresses[0], folder, log }, list, greeted }
}

/// Takes the node's request for the protocol; `with_it` is sent with the consent.
fn greet(mut socket: TcpStream, with_it: &[u8]) -> TcpStream {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && socket.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
    }
    let text = String::from_utf8(head).unwrap();
    assert!(text.starts_with("GET /v0/cluster/peer HTTP/1.1\r\n"), "{text}");
    let answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: pellucid-peer/2\r\n\r\n";
    // The node may be gone already; the test sees that.
    let _ = socket.write_all(&[answer.as_bytes(), with_it].concat());
    socket
}

/// Bytes that a frame may have here.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// The number of the next ask that is no ping.
fn next_ask(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> u64 {
    next_ask_as(socket, buffer, |ask| ask.id)
}

/// What `seen` says of the next ask that is no ping.
fn next_ask_as<T>(socket: &mut TcpStream, buffer: &mut Vec<u8>, seen: impl Fn(&Ask<'_>) -> T) -> T {
    loop {
        if let Ok(Some((frame, length))) = decode(buffer, FRAME_BYTES_MAX) {
            let ask = match frame {
                Frame::Ask(ask) if ask.kind != AskKind::Ping => Some(seen(&ask)),
                _ => None,
            };
            buffer.drain(..length);
            match ask {
                Some(ask) => return ask,
                None => continue,
            }
        }
        let mut piece = [0; 64 << 10];
        let count = socket.read(&mut piece).unwrap();
        assert!(count > 0, "the node closed the connection");
        buffer.extend_from_slice(&piece[..count]);
    }
}

impl Alone {
    fn peer(&self) -> TcpStream {
        let socket = self.greeted.recv_timeout(PATIENCE).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// A key of the peer's (`true`) or of the node's own.
    fn key(&self, is_of_peer: bool) -> String {
        let own = format!("http://{}", self.node.address);
        let is_it = |key: &String| {
            (self.list.nodes()[self.list.owner(key.as_bytes())].as_str() != own) == is_of_peer
        };
        (0..).map(|number| format!("key{number}")).find(is_it).unwrap()
    }

    /// The URLs of the node and of its peer.
    fn urls(&self) -> (String, String) {
        let own = format!("http://{}", self.node.address);
        let list = self.list.text();
        let peer = list.split(',').find(|url| **url != own).unwrap().to_owned();
        (own, peer)
    }

    /// Asks the node as its peer, all in one piece with the greeting; gives the connection, and of
    /// each answer its number, its status and its text.
    fn answers_to(&self, asks: &[Ask<'_>]) -> (TcpStream, Vec<(u64, AnswerStatus, String)>) {
        let ((own, peer), list) = (self.urls(), self.list.text());
        let mut bytes = format!(
            "GET /v0/cluster/peer HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
             Upgrade: pellucid-peer/2\r\nPellucid-From: {peer}\r\nPellucid-To: {own}\r\n\
             Pellucid-Nodes: {list}\r\nPellucid-Time: 0\r\n\r\n"
        )
        .into_bytes();
        asks.iter().for_each(|ask| ask.encode(&mut bytes));
        let mut socket = TcpStream::connect(self.node.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(&bytes).unwrap();
        let (mut received, mut answers, mut is_greeted) = (Vec::new(), Vec::new(), false);
        while answers.len() < asks.len() {
            let mut piece = [0; 64 << 10];
            let count = socket.read(&mut piece).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&received));
            received.extend_from_slice(&piece[..count]);
            if !is_greeted {
                let end = received.windows(4).position(|four| four == b"\r\n\r\n");
                let Some(end) = end else { continue };
                let head = String::from_utf8_lossy(&received[..end]).into_owned();
                assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
                received.drain(..end + 4);
                is_greeted = true;
            }
            while let Some((frame, length)) = decode(&received, FRAME_BYTES_MAX).unwrap() {
                let Frame::Answer(answer) = frame else { panic!("{frame:?}") };
                let what = String::from_utf8_lossy(answer.payload).into_owned();
                answers.push((answer.id, answer.status, what));
                received.drain(..length);
            }
        }
        (socket, answers)
    }

    fn client(&self) -> common::Client {
        common::Client::connect(self.node.address)
    }

    /// Waits until the log has a line with this.
    fn wait_for_log(&self, what: &str) {
        let begun = Instant::now();
        while !self.node.log.lock().unwrap().iter().any(|line| line.contains(what)) {
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.node.log);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if let Some(server) = self.node.server.take() {
            let _ = server.stop();
        }
    }
}

/// A GET as a peer asks it, with this number and no key yet.
fn get_of_peer(id: u64) -> Ask<'static> {
    Ask {
        id,
        kind: AskKind::Get,
        acknowledgement: Acknowledgement::Os,
        condition: Condition::None,
        lifetime_ms: None,
        wait_ms: PATIENCE.as_millis() as u32,
        trace: None,
        table: None,
        key: b"",
        value: b"",
    }
}

fn found(id: u64, value: &[u8]) -> Vec<u8> {
    let answer = Answer {
        sequence: 7,
        value_length: value.len() as u64,
        payload: value,
        ..Answer::plain(id, AnswerStatus::Found)
    };
    let mut bytes = Vec::new();
    answer.encode(&mut bytes);
    bytes
}

#[test]
fn a_peer_that_does_not_answer_costs_the_wait_and_its_own_keys_alone() {
    let alone = start(PATIENCE);
    let mut peer = alone.peer();
    let (own, theirs) = (entity(alone.key(false)), entity(alone.key(true)));
    let mut waiting = alone.client();
    let begun = Instant::now();
    waiting.send(&common::request("GET", &theirs, &[], b""));
    let mut buffer = Vec::new();
    let id = next_ask(&mut peer, &mut buffer);
    // Its own keys are served while the peer is silent.
    assert_eq!(alone.client().call("PUT", &own, &[], b"x").status, 201);
    let answer = waiting.answer();
    assert_eq!(answer.status, 504);
    let waited = begun.elapsed();
    // It is told before the wait is over, and not long before.
    assert!(waited >= WAIT / 2 && waited < WAIT_BOUND, "{waited:?}");
    let list = alone.list.text();
    let url = list.split(',').find(|url| *url != format!("http://{}", alone.node.address));
    assert!(answer.text().contains(url.unwrap()), "{}", answer.text());
    // What comes too late is thrown away, and does no harm.
    peer.write_all(&found(id, b"late")).unwrap();
    waiting.send(&common::request("GET", &theirs, &[], b""));
    let id = next_ask(&mut peer, &mut buffer);
    peer.write_all(&found(id, b"in time")).unwrap();
    let answer = waiting.answer();
    // A machine that stands still makes this one late, too; never is it the other's.
    assert!(answer.status == 504 || answer.text() == "in time", "{answer:?}");
}

/// It stayed in the node's buffer behind what the peer did not read, and was sent once the peer
/// went on: a write that its client had been told 504 of long before.
#[test]
fn what_could_not_be_sent_before_its_504_is_never_sent() {
    let alone = start(PATIENCE);
    let mut peer = alone.peer();
    let theirs = entity(alone.key(true));
    // More than the system takes for a peer that reads nothing.
    let large = vec![b'x'; 48 << 20];
    assert_eq!(alone.client().call("PUT", &theirs, &[], &large).status, 504);
    assert_eq!(alone.client().call("PUT", &theirs, &[], b"blocked").status, 504);
    let mut buffer = Vec::new();
    let seen = |ask: &Ask<'_>| (ask.kind, ask.value.len());
    // The peer has its beginning, so the rest has to follow.
    assert_eq!(next_ask_as(&mut peer, &mut buffer, seen), (AskKind::Put, large.len()));
    alone.client().send(&common::request("GET", &theirs, &[], b""));
    assert_eq!(next_ask_as(&mut peer, &mut buffer, seen), (AskKind::Get, 0));
}

/// The time that is given was carried to the owner, who did not look at it.
#[test]
fn an_owner_does_nothing_whose_time_is_over() {
    let alone = start(PATIENCE);
    let key = alone.key(false);
    let url = entity(&key);
    let large = vec![b'x'; 4 << 20];
    assert_eq!(alone.client().call("PUT", &url, &[], &large).status, 201);
    // Behind so many bytes of pages, a millisecond is over on any machine.
    let mut range = Vec::new();
    let (reverse, behind, end, first) = (false, false, None, &b""[..]);
    RangeAsk { reverse, behind, end, entries_max: 1, first }.encode(&mut range);
    let get = Ask { key: key.as_bytes(), ..get_of_peer(1) };
    let page = Ask { kind: AskKind::Range, value: &range, ..get };
    let late = Ask { id: 2, kind: AskKind::Put, wait_ms: 1, value: b"late", ..get };
    let mut asks = vec![page; 16];
    asks.push(late);
    let (_socket, answers) = alone.answers_to(&asks);
    let (id, status, what) = answers.last().unwrap();
    assert_eq!((*id, *status), (2, AnswerStatus::Late));
    assert!(what.contains(&alone.urls().0), "{what}");
    assert_eq!(alone.client().get(&url).text().len(), large.len(), "nothing was written");
}

/// A forwarded request said of itself that it waited for nothing.
#[test]
fn a_request_that_waits_for_another_node_says_so() {
    let alone = start_as(b"", |cluster| (cluster.wait, cluster.silence) = (PATIENCE, PATIENCE));
    let mut peer = alone.peer();
    let mut waiting = alone.client();
    waiting.send(&common::request("GET", &entity(alone.key(true)), &[], b""));
    let id = next_ask(&mut peer, &mut Vec::new());
    let document = alone.client().get("/_admin/requests").json();
    let requests = document["requests"].as_array().unwrap();
    let forwarded = requests.iter().find(|of| of["operation"] == "entity_get_forwarded").unwrap();
    let wait = &forwarded["waits_for"];
    assert_eq!((&wait["kind"], &forwarded["place"]), (&"node".into(), &"away".into()), "{wait}");
    assert!(wait["place"].as_str().unwrap().contains("cluster/forward.rs:"), "{wait}");
    assert!(wait["duration_ns"].as_u64().unwrap() > 0, "{wait}");
    peer.write_all(&found(id, b"here")).unwrap();
    assert_eq!(waiting.answer().text(), "here");
    let document = alone.client().get("/_admin/requests").json();
    let requests = document["requests"].as_array().unwrap();
    assert!(requests.iter().all(|of| of["waits_for"]["kind"] != "node"), "{document}");
}

/// How many asks the node has under way with its peer.
fn in_flight(alone: &Alone) -> u64 {
    let view = alone.client().get("/v0/cluster").json();
    let nodes = view["nodes"].as_array().unwrap();
    nodes.iter().filter_map(|node| node["in_flight"].as_u64()).sum()
}

#[test]
fn beyond_its_room_a_peer_is_asked_nothing_more() {
    let alone = start_as(b"", |cluster| {
        (cluster.wait, cluster.silence, cluster.in_flight_max) = (PATIENCE, PATIENCE, 2);
    });
    let mut peer = alone.peer();
    let theirs = common::request("GET", &entity(alone.key(true)), &[], b"");
    let mut waiting = [(); 2].map(|()| alone.client());
    let mut buffer = Vec::new();
    let ids = waiting.each_mut().map(|client| {
        client.send(&theirs);
        next_ask(&mut peer, &mut buffer)
    });
    let refused = alone.client().get(&entity(alone.key(true)));
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("too many requests"), "{}", refused.text());
    // Answers come in any order.
    for (id, client) in ids.into_iter().zip(&mut waiting).rev() {
        peer.write_all(&found(id, b"here")).unwrap();
        assert_eq!(client.answer().text(), "here");
    }
    let mut next = alone.client();
    next.send(&theirs);
    let id = next_ask(&mut peer, &mut buffer);
    peer.write_all(&found(id, b"room again")).unwrap();
    assert_eq!(next.answer().text(), "room again");
}

/// Nobody waits for the answer any more, and it is thrown away.
#[test]
fn a_client_that_goes_away_leaves_nothing_behind() {
    let alone = start_as(b"", |cluster| (cluster.wait, cluster.silence) = (PATIENCE, PATIENCE));
    let mut peer = alone.peer();
    let theirs = entity(alone.key(true));
    let (mut gone, mut buffer) = (alone.client(), Vec::new());
    gone.send(&common::request("GET", &theirs, &[], b""));
    let id = next_ask(&mut peer, &mut buffer);
    assert_eq!(in_flight(&alone), 1);
    drop(gone);
    let mut stays = alone.client();
    stays.send(&common::request("GET", &theirs, &[], b""));
    let other = next_ask(&mut peer, &mut buffer);
    peer.write_all(&[found(id, b"for nobody"), found(other, b"for one")].concat()).unwrap();
    assert_eq!(stays.answer().text(), "for one");
    assert_eq!(in_flight(&alone), 0);
}

#[test]
fn a_peer_that_hangs_is_taken_for_dead() {
    let alone = start(Duration::from_millis(200));
    let peer = alone.peer();
    alone.wait_for_log("silent");
    drop(peer);
}

#[test]
fn a_peer_that_talks_nonsense_is_cut_off_with_the_reason() {
    for (nonsense, reason) in [
        (vec![0xff; 64], "bytes, where"),
        ([24_u32.to_le_bytes().as_slice(), &[7; 28]].concat(), "checksum"),
    ] {
        let alone = start(PATIENCE);
        let mut peer = alone.peer();
        peer.write_all(&nonsense).unwrap();
        alone.wait_for_log(reason);
        // And it tries again.
        drop(alone.peer());
    }
}

/// It was only looked at when more came, as the event that told of it was over.
#[test]
fn what_comes_in_one_piece_with_the_consent_is_read() {
    let alone = start_beside(PATIENCE, &[0xff; 64]);
    alone.wait_for_log("bytes, where");
    drop(alone.peer());
}

#[test]
fn a_node_that_is_asked_for_what_is_not_its_own_says_whose_it_is() {
    let alone = start(PATIENCE);
    let (own, peer) = alone.urls();
    let key = alone.key(true);
    let ask = Ask { key: key.as_bytes(), ..get_of_peer(5) };
    // Likewise several operations of which one is another's.
    let own_key = alone.key(false);
    let mut operations = Vec::new();
    for key in [own_key.as_bytes(), key.as_bytes()] {
        let (value, condition, lifetime_ms) = (Some(&b"x"[..]), Condition::None, None);
        let operation = Operation { key, value, condition, lifetime_ms };
        PartOperation { operation, part_length: key.len() as u16 }.encode(&mut operations);
    }
    let write = Ask { id: 6, kind: AskKind::Write, key: b"", value: &operations, ..ask };
    // At once with the request: what is read beyond it belongs to the protocol.
    let (mut socket, answers) = alone.answers_to(&[ask, write]);
    for (answer, id) in answers.iter().zip([5, 6]) {
        assert_eq!((answer.0, answer.1), (id, AnswerStatus::NotOwner));
        assert!(answer.2.contains(&peer) && answer.2.contains(&own), "{}", answer.2);
    }
    assert_eq!(alone.client().get(&entity(&own_key)).status, 404, "nothing of it was written");
    // Garbage ends the connection, and says why.
    socket.write_all(&[0xff; 16]).unwrap();
    alone.wait_for_log("bytes, where");
    assert_eq!(alone.client().get("/v0/status").status, 200);
}
