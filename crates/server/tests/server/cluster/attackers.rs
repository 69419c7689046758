//! Attackers of a cluster: those who do not know its secret, those who replay recorded traffic, and
//! those who change traffic on the way.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::common::nodes::Nodes;
use crate::common::peer::{self, Caller, PeerEnd, ask_of_peer};
use crate::common::{Client, add_account, entity, wait_until};
use pellucid_cluster::{Ask, AskKind, KeyDerivationInputs, KeyShare, Session, Side, decode};
use pellucid_server::access::Right;

/// A cluster of nodes with a secret.
fn with_secret() -> Nodes {
    Nodes::start(2, |options| {
        if let Some(cluster) = &mut options.cluster {
            cluster.secret = Some(SECRET.to_vec());
        }
    })
}

const SECRET: &[u8] = b"the secret of this test";

fn put_of(key: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    let put = ask_of_peer(1, AskKind::Put);
    let ask = Ask { wait_ms: 0, key: key.as_bytes(), value: b"of a peer", ..put };
    ask.encode(&mut frame);
    frame
}

/// Regression: a caller with another list was told the list of nodes, and a recorded greeting was
/// accepted from anyone.
#[test]
fn a_caller_without_the_secret_is_refused_and_learns_nothing() {
    let nodes = with_secret();
    let list = nodes.list.text();
    let (from, to) = (nodes.url(1), nodes.url(0));
    let key = nodes.key_of(0);
    let known = Caller { from: &from, to: &to, list: &list, secret: Some(SECRET) };
    for stranger in [
        Caller { secret: None, ..known },
        Caller { secret: Some(b"a guess"), ..known },
        Caller { from: "guest", secret: None, ..known },
        Caller { list: "http://10.0.0.1:1", secret: None, ..known },
    ] {
        let mut end = PeerEnd::caller(nodes.nodes[0].address, stranger, &put_of(&key));
        while end.receive() {}
        assert_eq!((&end.first, &end.opened[..]), (&None, &b""[..]), "it is told something");
    }
    let log = nodes.nodes[0].log.lock().unwrap().concat();
    assert!(log.contains("does not know the cluster's secret"), "{log}");
    assert_eq!(nodes.client(0).get(&entity(&key)).status, 404, "nothing was written");
    // A caller that knows the secret is told what is wrong.
    let other = Caller { list: "http://10.0.0.1:1", ..known };
    let mut end = PeerEnd::caller(nodes.nodes[0].address, other, b"");
    while end.receive() {}
    let told = String::from_utf8(end.first.unwrap()).unwrap();
    assert!(told.contains("lists of nodes differ") && told.contains(&list), "{told}");
    let mut end = PeerEnd::caller(nodes.nodes[0].address, known, &put_of(&key));
    while end.opened.is_empty() {
        assert!(end.receive());
    }
    assert_eq!(nodes.client(0).get(&entity(&key)).text(), "of a peer");
    nodes.client(0).get("/v0/cluster/peer").having(400);
}

/// Regression: a greeting was valid for 300 seconds, and frames had a checksum but no
/// authentication, so anyone who could write to the connection could write to the store.
#[test]
fn replayed_traffic_is_refused_and_changed_traffic_ends_the_connection() {
    let nodes = with_secret();
    let list = nodes.list.text();
    let (from, to) = (nodes.url(1), nodes.url(0));
    let known = Caller { from: &from, to: &to, list: &list, secret: Some(SECRET) };
    let address = nodes.nodes[0].address;
    let mut keys = nodes.keys_of(0);
    let is_there = |key: &str| nodes.client(0).get(&entity(key)).status == 200;
    // A replay of a node's greeting, proof and ask.
    let key = keys.next().unwrap();
    let share = KeyShare::new().unwrap();
    let said = peer::hello(known, share.text());
    let mut first = TcpStream::connect(address).unwrap();
    first.write_all(said.as_bytes()).unwrap();
    let theirs = peer::key_in(&mut first);
    let parties = KeyDerivationInputs { from: &from, to: &to, secret: Some(SECRET) };
    let mut session = Session::agree(share, &theirs, Side::Initiator, parties).unwrap();
    let mut records = Vec::new();
    session.sealer.seal(list.as_bytes(), &mut records);
    session.sealer.seal(&put_of(&key), &mut records);
    let mut again = TcpStream::connect(address).unwrap();
    again.write_all(said.as_bytes()).unwrap();
    peer::key_in(&mut again);
    again.write_all(&records).unwrap();
    assert_eq!(again.read(&mut [0]).unwrap_or(0), 0, "it is taken for the node");
    assert!(!is_there(&key));
    // The same for records that are changed on the way, sent twice, or left out.
    for harm in [
        (|record: &mut Vec<u8>| record[40] ^= 1) as fn(&mut Vec<u8>),
        |record| *record.last_mut().unwrap() ^= 0x80,
        |record| record[0] ^= 1,
    ] {
        let key = keys.next().unwrap();
        let mut end = PeerEnd::caller(address, known, b"");
        let mut record = Vec::new();
        end.session.sealer.seal(&put_of(&key), &mut record);
        harm(&mut record);
        end.socket.write_all(&record).unwrap();
        end.socket.shutdown(Shutdown::Write).unwrap();
        while end.receive() {}
        assert!(end.opened.is_empty() && !is_there(&key));
    }
    let mut end = PeerEnd::caller(address, known, b"");
    let key = keys.next().unwrap();
    let mut record = Vec::new();
    end.session.sealer.seal(&put_of(&key), &mut record);
    end.socket.write_all(&[&record[..], &record].concat()).unwrap();
    while end.receive() {}
    let mut answers = 0;
    while let Some((_, length)) = decode(&end.opened, 1 << 20).unwrap() {
        end.opened.drain(..length);
        answers += 1;
    }
    assert!(answers <= 1, "it was served twice");
    let mut end = PeerEnd::caller(address, known, b"");
    let key = keys.next().unwrap();
    end.session.sealer.seal(&put_of(&key), &mut Vec::new());
    end.send(&put_of(&key));
    while end.receive() {}
    assert!(!is_there(&key));
}

/// Regression: after that, any caller was still accepted as a peer, and could read and write all
/// keys.
#[test]
fn the_first_account_ends_a_cluster_without_a_secret() {
    let nodes = Nodes::start(2, |_| {});
    let list = nodes.list.text();
    let (from, to) = (nodes.url(1), nodes.url(0));
    let caller = Caller { from: &from, to: &to, list: &list, secret: None };
    let (address, key) = (nodes.nodes[0].address, nodes.key_of(0));
    let mut before = PeerEnd::caller(address, caller, &put_of(&key));
    while before.opened.is_empty() {
        assert!(before.receive());
    }
    let token = add_account(nodes.nodes[0].folder.path(), "ada", &[("*", Right::Write)]);
    let mut client = nodes.client(0);
    wait_until(|| client.get(&entity(&key)).status, |status| *status == 401);
    // An open connection ends, and no new one is made, in either direction.
    before.opened.clear();
    before.send(&put_of(&key));
    while before.receive() {}
    assert!(before.opened.is_empty(), "it is served on");
    let hello = peer::hello(caller, KeyShare::new().unwrap().text());
    let mut stranger = Client::connect(address);
    stranger.send(hello.as_bytes());
    let refused = stranger.answer().having(403);
    assert!(refused.text().contains("--cluster-secret-file"), "{}", refused.text());
    let headers = [("Authorization", &*format!("Bearer {token}"))];
    let theirs = || client.call("GET", &entity(nodes.key_of(1)), &headers, b"");
    wait_until(theirs, |theirs| {
        theirs.status == 504 && theirs.text().contains("--cluster-secret-file")
    });
}
