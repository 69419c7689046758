//! A node whose peer is not what it should be: silent, slow, talking nonsense, or asking for what
//! is not there. The peer is a socket of the test's own that greets as a node does.

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::common::nodes::{Node, free_addresses, list_of, options, try_start};
use crate::common::peer::{Caller, PeerEnd, ask_of_peer};
use crate::common::{Client, PATIENCE, entity, request, wait_for};
use pellucid_cluster::{
    Answer, AnswerStatus, Ask, AskKind, Frame, PartOperation, RangeAsk, decode,
};
use pellucid_server::{ClusterOptions, NodeList};
use pellucid_store::{Condition, Operation};
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
    greeted: Receiver<PeerEnd>,
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
            if sender.send(PeerEnd::owner(socket, with_it)).is_err() {
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

/// Bytes that a frame may have here.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// The number of the next ask that is no ping.
fn next_ask(peer: &mut PeerEnd) -> u64 {
    next_ask_as(peer, |ask| ask.id)
}

/// What `seen` says of the next ask that is no ping.
fn next_ask_as<T>(peer: &mut PeerEnd, seen: impl Fn(&Ask<'_>) -> T) -> T {
    loop {
        if let Ok(Some((frame, length))) = decode(&peer.opened, FRAME_BYTES_MAX) {
            let ask = match frame {
                Frame::Ask(ask) if ask.kind != AskKind::Ping => Some(seen(&ask)),
                _ => None,
            };
            peer.opened.drain(..length);
            match ask {
                Some(ask) => return ask,
                None => continue,
            }
        }
        assert!(peer.receive(), "the node closed the connection");
    }
}

impl Alone {
    fn peer(&self) -> PeerEnd {
        self.greeted.recv_timeout(PATIENCE).unwrap()
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

    /// Asks the node as its peer, all in one piece with the proof; gives the connection, and of
    /// each answer its number, its status and its text.
    fn answers_to(&self, asks: &[Ask<'_>]) -> (PeerEnd, Vec<(u64, AnswerStatus, String)>) {
        let ((own, from), list) = (self.urls(), self.list.text());
        let caller = Caller { from: &from, to: &own, list: &list, secret: None };
        let mut frames = Vec::new();
        asks.iter().for_each(|ask| ask.encode(&mut frames));
        let mut end = PeerEnd::caller(self.node.address, caller, &frames);
        let mut answers = Vec::new();
        while answers.len() < asks.len() {
            assert!(end.receive(), "the node closed the connection: {:?}", end.first);
            while let Some((frame, length)) = decode(&end.opened, FRAME_BYTES_MAX).unwrap() {
                let Frame::Answer(answer) = frame else { panic!("{frame:?}") };
                let what = String::from_utf8_lossy(answer.payload).into_owned();
                answers.push((answer.id, answer.status, what));
                end.opened.drain(..length);
            }
        }
        (end, answers)
    }

    fn client(&self) -> Client {
        Client::connect(self.node.address)
    }

    /// Waits until the log has a line with this.
    fn wait_for_log(&self, what: &str) {
        wait_for(|| {
            let log = self.node.log.lock().unwrap();
            if log.iter().any(|line| line.contains(what)) { Ok(()) } else { Err(log.clone()) }
        });
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if let Some(server) = self.node.server.take() {
            let _ = server.stop();
        }
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
    waiting.send(&request("GET", &theirs, &[], b""));
    let id = next_ask(&mut peer);
    // Its own keys are served while the peer is silent.
    assert_eq!(alone.client().call("PUT", &own, &[], b"x").status, 201);
    let answer = waiting.answer().having(504);
    let waited = begun.elapsed();
    // It is told before the wait is over, and not long before.
    assert!(waited >= WAIT / 2 && waited < WAIT_BOUND, "{waited:?}");
    assert!(answer.text().contains(&alone.urls().1), "{}", answer.text());
    // What comes too late is thrown away, and does no harm.
    peer.send(&found(id, b"late"));
    waiting.send(&request("GET", &theirs, &[], b""));
    let id = next_ask(&mut peer);
    peer.send(&found(id, b"in time"));
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
    let seen = |ask: &Ask<'_>| (ask.kind, ask.value.len());
    // The peer has its beginning, so the rest has to follow.
    assert_eq!(next_ask_as(&mut peer, seen), (AskKind::Put, large.len()));
    alone.client().send(&request("GET", &theirs, &[], b""));
    assert_eq!(next_ask_as(&mut peer, seen), (AskKind::Get, 0));
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
    let get = Ask { key: key.as_bytes(), ..ask_of_peer(1, AskKind::Get) };
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
    waiting.send(&request("GET", &entity(alone.key(true)), &[], b""));
    let id = next_ask(&mut peer);
    let document = alone.client().get("/_admin/requests").json();
    let requests = document["requests"].as_array().unwrap();
    let forwarded = requests.iter().find(|of| of["operation"] == "entity_get_forwarded").unwrap();
    let wait = &forwarded["waits_for"];
    assert_eq!((&wait["kind"], &forwarded["place"]), (&"node".into(), &"away".into()), "{wait}");
    assert!(wait["place"].as_str().unwrap().contains("cluster/links.rs:"), "{wait}");
    assert!(wait["duration_ns"].as_u64().unwrap() > 0, "{wait}");
    peer.send(&found(id, b"here"));
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
    let theirs = request("GET", &entity(alone.key(true)), &[], b"");
    let mut waiting = [(); 2].map(|()| alone.client());
    let ids = waiting.each_mut().map(|client| {
        client.send(&theirs);
        next_ask(&mut peer)
    });
    let refused = alone.client().get(&entity(alone.key(true))).having(503);
    assert!(refused.text().contains("too many requests"), "{}", refused.text());
    // Answers come in any order.
    for (id, client) in ids.into_iter().zip(&mut waiting).rev() {
        peer.send(&found(id, b"here"));
        assert_eq!(client.answer().text(), "here");
    }
    let mut next = alone.client();
    next.send(&theirs);
    let id = next_ask(&mut peer);
    peer.send(&found(id, b"room again"));
    assert_eq!(next.answer().text(), "room again");
}

/// Nobody waits for the answer any more, and it is thrown away.
#[test]
fn a_client_that_goes_away_leaves_nothing_behind() {
    let alone = start_as(b"", |cluster| (cluster.wait, cluster.silence) = (PATIENCE, PATIENCE));
    let mut peer = alone.peer();
    let theirs = entity(alone.key(true));
    let mut gone = alone.client();
    gone.send(&request("GET", &theirs, &[], b""));
    let id = next_ask(&mut peer);
    assert_eq!(in_flight(&alone), 1);
    drop(gone);
    let mut stays = alone.client();
    stays.send(&request("GET", &theirs, &[], b""));
    let other = next_ask(&mut peer);
    peer.send(&[found(id, b"for nobody"), found(other, b"for one")].concat());
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
        peer.send(&nonsense);
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
    let ask = Ask { key: key.as_bytes(), ..ask_of_peer(5, AskKind::Get) };
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
    socket.send(&[0xff; 16]);
    alone.wait_for_log("bytes, where");
    assert_eq!(alone.client().get(&entity(&own_key)).status, 404, "and the node serves on");
}
