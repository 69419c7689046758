//! A node with a faulty peer, which is silent, slow, sends garbage, or asks for keys that are not
//! the node's. The peer is a socket of the test, which does the handshake as a node does.

use std::io::Read;
use std::net::{Shutdown, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::common::nodes::{Node, free_addresses, keys_at, list_of, options, try_start};
use crate::common::peer::{Caller, PeerEnd, ask_of_peer};
use crate::common::{Client, PATIENCE, entity, request, wait_for, wait_until};
use pellucid_cluster::{
    Answer, AnswerStatus, Ask, AskKind, Frame, PartOperation, RangeAsk, decode,
};
use pellucid_server::{ClusterOptions, NodeList};
use pellucid_store::Operation;
use rustix::net::{SendFlags, send};
use tempfile::TempDir;

/// How long the node under test waits for its peer.
const WAIT: Duration = Duration::from_millis(300);
/// The limit of that wait on a busy machine; far below [`PATIENCE`], the limit of a wait that does
/// not end.
const WAIT_BOUND: Duration = Duration::from_secs(5);

/// A node whose only peer is the test.
struct IsolatedNode {
    node: Node,
    list: NodeList,
    greeted: Receiver<PeerEnd>,
}

/// Starts a node. `silence` is the time for which its peer may be silent.
fn start(silence: Duration) -> IsolatedNode {
    start_beside(silence, b"")
}

/// Like [`start`], with a peer that sends `with_it` in the same write as its consent.
fn start_beside(silence: Duration, with_it: &'static [u8]) -> IsolatedNode {
    start_as(with_it, |cluster| (cluster.wait, cluster.silence) = (WAIT, silence))
}

/// Like [`start_beside`], with cluster options that `set` changes.
fn start_as(with_it: &'static [u8], set: impl Fn(&mut ClusterOptions)) -> IsolatedNode {
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
    IsolatedNode {
        node: Node { server: Some(server), address: addresses[0], folder, log },
        list,
        greeted,
    }
}

/// The largest frame of these tests, in bytes.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// The number of the next ask that is not a ping.
fn next_ask(peer: &mut PeerEnd) -> u64 {
    next_ask_as(peer, |ask| ask.id)
}

/// The result of `seen` for the next ask that is not a ping.
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

impl IsolatedNode {
    fn peer(&self) -> PeerEnd {
        self.greeted.recv_timeout(PATIENCE).unwrap()
    }

    /// A key that belongs to the peer (`true`) or to the node.
    fn key(&self, is_of_peer: bool) -> String {
        let (own, peer) = self.urls();
        keys_at(&self.list, if is_of_peer { peer } else { own }).next().unwrap()
    }

    /// The URLs of the node and of its peer.
    fn urls(&self) -> (String, String) {
        let own = format!("http://{}", self.node.address);
        let list = self.list.text();
        let peer = list.split(',').find(|url| **url != own).unwrap().to_owned();
        (own, peer)
    }

    /// Sends asks to the node as its peer, in the same write as the proof. Returns the connection,
    /// and the number, status and text of each answer.
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

    /// Waits until the log has a line that contains `what`.
    fn wait_for_log(&self, what: &str) {
        wait_for(|| {
            let log = self.node.log.lock().unwrap();
            if log.iter().any(|line| line.contains(what)) { Ok(()) } else { Err(log.clone()) }
        });
    }
}

impl Drop for IsolatedNode {
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
fn a_silent_peer_delays_only_requests_for_its_own_keys() {
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
    // The answer comes around the end of the wait.
    assert!(waited >= WAIT / 2 && waited < WAIT_BOUND, "{waited:?}");
    assert!(answer.text().contains(&alone.urls().1), "{}", answer.text());
    // An answer that comes too late is dropped, and does no harm.
    peer.send(&found(id, b"late"));
    waiting.send(&request("GET", &theirs, &[], b""));
    let id = next_ask(&mut peer);
    peer.send(&found(id, b"in time"));
    let answer = waiting.answer();
    // On a machine that stalls, this request may be late, too, but it never gets the other answer.
    assert!(answer.status == 504 || answer.text() == "in time", "{answer:?}");
}

/// Regression: a write stayed in the node's buffer while the peer read nothing, and was sent once
/// the peer read again, long after its client had got 504.
#[test]
fn a_request_answered_with_504_is_never_sent_later() {
    let alone = start(PATIENCE);
    let mut peer = alone.peer();
    let theirs = entity(alone.key(true));
    // More than the system buffers for a peer that reads nothing.
    let large = vec![b'x'; 48 << 20];
    assert_eq!(alone.client().call("PUT", &theirs, &[], &large).status, 504);
    assert_eq!(alone.client().call("PUT", &theirs, &[], b"blocked").status, 504);
    let seen = |ask: &Ask<'_>| (ask.kind, ask.value.len());
    // The peer has received its beginning, so the rest must follow.
    assert_eq!(next_ask_as(&mut peer, seen), (AskKind::Put, large.len()));
    alone.client().send(&request("GET", &theirs, &[], b""));
    assert_eq!(next_ask_as(&mut peer, seen), (AskKind::Get, 0));
}

/// Regression: the owner ignored the time for which the asker waits.
#[test]
fn an_owner_does_not_execute_an_expired_ask() {
    let alone = start(PATIENCE);
    let key = alone.key(false);
    let url = entity(&key);
    assert_eq!(alone.client().call("PUT", &url, &[], b"early").status, 201);
    // Executing so many operations first takes more than a millisecond on any machine.
    let mut operations = Vec::new();
    let operation = Operation::plain(key.as_bytes(), Some(b"x"));
    let part = PartOperation { operation, part_length: key.len() as u16 };
    (0..30_000).for_each(|_| part.encode(&mut operations));
    let get = Ask { key: key.as_bytes(), ..ask_of_peer(1, AskKind::Get) };
    let write = Ask { kind: AskKind::Write, key: b"", value: &operations, ..get };
    let late = Ask { id: 2, kind: AskKind::Put, wait_ms: 1, value: b"late", ..get };
    let (_socket, answers) = alone.answers_to(&[write, late]);
    let (_, status, what) = answers.iter().find(|(id, _, _)| *id == 2).unwrap();
    assert_eq!(*status, AnswerStatus::Late);
    assert!(what.contains(&alone.urls().0), "{what}");
    assert_eq!(alone.client().get(&url).text(), "x", "nothing late was written");
}

/// Regression: pages of ranges were read on the event loop, however many removed entries it had to
/// pass, so all other asks waited, and peers took the node for dead.
#[test]
fn a_page_of_a_range_delays_no_other_ask() {
    let alone = start(PATIENCE);
    let key = alone.key(false);
    assert_eq!(alone.client().call("PUT", &entity(&key), &[], b"x").status, 201);
    let mut range = Vec::new();
    let (reverse, behind, end, first) = (false, false, None, &b""[..]);
    RangeAsk { reverse, behind, end, entries_max: 1, first }.encode(&mut range);
    let get = Ask { key: key.as_bytes(), ..ask_of_peer(2, AskKind::Get) };
    let page = Ask { id: 1, kind: AskKind::Range, value: &range, ..get };
    let (_socket, answers) = alone.answers_to(&[page, get]);
    let answers = answers.iter().map(|(id, status, _)| (*id, *status)).collect::<Vec<_>>();
    assert_eq!(answers, [(2, AnswerStatus::Found), (1, AnswerStatus::Page)]);
}

/// Regression: a forwarded request was shown as one that waits for nothing.
#[test]
fn a_request_that_waits_for_another_node_is_shown_as_waiting() {
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

/// The number of asks that the node has under way with its peer.
fn in_flight(alone: &IsolatedNode) -> u64 {
    let view = alone.client().get("/v0/cluster").json();
    let nodes = view["nodes"].as_array().unwrap();
    nodes.iter().filter_map(|node| node["in_flight"].as_u64()).sum()
}

#[test]
fn asks_beyond_the_limit_of_a_peer_are_refused() {
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

/// Regression: a failure before the first page was a 200 without a body, and a cut connection.
#[test]
fn a_merged_range_that_cannot_begin_has_the_status_of_the_failure() {
    let alone = start_as(b"", |cluster| {
        (cluster.wait, cluster.silence, cluster.in_flight_max) = (PATIENCE, PATIENCE, 1);
    });
    let mut peer = alone.peer();
    let range = "/v0/entities?start=a&cluster=true";
    let mut waiting = alone.client();
    waiting.send(&request("GET", range, &[], b""));
    let id = next_ask(&mut peer);
    let refused = alone.client().get(range).having(503);
    assert!(refused.text().contains("too many requests"), "{}", refused.text());
    let busy = Answer { payload: b"later", ..Answer::plain(id, AnswerStatus::Busy) };
    let mut bytes = Vec::new();
    busy.encode(&mut bytes);
    peer.send(&bytes);
    assert_eq!(waiting.answer().having(503).text(), "later\n");
    waiting.send(&request("GET", range, &[], b""));
    next_ask(&mut peer);
    drop(peer);
    let lost = waiting.answer().having(504);
    assert!(lost.text().contains(&alone.urls().1), "{}", lost.text());
}

/// Regression: a range that waited for its first page outlived its client.
#[test]
fn a_waiting_range_ends_with_its_client() {
    let alone = start_as(b"", |cluster| (cluster.wait, cluster.silence) = (PATIENCE, PATIENCE));
    let mut peer = alone.peer();
    let mut gone = alone.client();
    gone.send(&request("GET", "/v0/entities?start=a&cluster=true", &[], b""));
    next_ask(&mut peer);
    drop(gone);
    let mut client = alone.client();
    wait_until(
        || client.get("/metrics").text().to_owned(),
        |page| page.contains("\npellucid_requests_in_flight 1\n"),
    );
}

/// The answer is dropped, as nobody waits for it any more.
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
fn a_peer_that_sends_garbage_is_cut_off_and_the_reason_is_logged() {
    for (nonsense, reason) in [
        (vec![0xff; 64], "bytes; at most"),
        ([24_u32.to_le_bytes().as_slice(), &[7; 28]].concat(), "checksum"),
    ] {
        let alone = start(PATIENCE);
        let mut peer = alone.peer();
        peer.send(&nonsense);
        alone.wait_for_log(reason);
        // The node connects again.
        drop(alone.peer());
    }
}

/// Regression: these bytes were read only when more came, because their event was already consumed.
#[test]
fn bytes_in_the_same_write_as_the_consent_are_read() {
    let alone = start_beside(PATIENCE, &[0xff; 64]);
    alone.wait_for_log("bytes; at most");
    drop(alone.peer());
}

/// Regression: where the last bytes and the end of a connection came in one event, the end was
/// never noticed, and the descriptor stayed.
#[test]
fn a_caller_that_ends_within_a_frame_is_let_go() {
    let alone = start(PATIENCE);
    let key = alone.key(false);
    let ask = Ask { key: key.as_bytes(), ..ask_of_peer(5, AskKind::Get) };
    let (mut end, _) = alone.answers_to(&[ask]);
    let mut frame = Vec::new();
    ask.encode(&mut frame);
    let mut record = Vec::new();
    end.session.sealer.seal(&frame[..frame.len() / 2], &mut record);
    // The kernel holds the bytes back, and sends them together with the end.
    send(&end.socket, &record, SendFlags::MORE).unwrap();
    end.socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(end.socket.read(&mut [0; 64]).unwrap(), 0, "the node keeps the connection");
}

#[test]
fn an_ask_for_another_nodes_key_is_refused_and_names_the_owner() {
    let alone = start(PATIENCE);
    let (own, peer) = alone.urls();
    let key = alone.key(true);
    let ask = Ask { key: key.as_bytes(), ..ask_of_peer(5, AskKind::Get) };
    // The same for several operations, one of which is on another node's key.
    let own_key = alone.key(false);
    let mut operations = Vec::new();
    for key in [own_key.as_bytes(), key.as_bytes()] {
        let operation = Operation::plain(key, Some(b"x"));
        PartOperation { operation, part_length: key.len() as u16 }.encode(&mut operations);
    }
    let write = Ask { id: 6, kind: AskKind::Write, key: b"", value: &operations, ..ask };
    // Sent together with the request: bytes behind it belong to the protocol.
    let (mut socket, answers) = alone.answers_to(&[ask, write]);
    for (answer, id) in answers.iter().zip([5, 6]) {
        assert_eq!((answer.0, answer.1), (id, AnswerStatus::NotOwner));
        assert!(answer.2.contains(&peer) && answer.2.contains(&own), "{}", answer.2);
    }
    assert_eq!(alone.client().get(&entity(&own_key)).status, 404, "nothing of it was written");
    // Garbage ends the connection, and the log says why.
    socket.send(&[0xff; 16]);
    alone.wait_for_log("bytes; at most");
    assert_eq!(alone.client().get(&entity(&own_key)).status, 404, "and the node serves on");
}
