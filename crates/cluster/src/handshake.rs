//! How two nodes agree to speak the peer protocol.
//!
//! The caller asks for it with an ordinary request, `Upgrade: pellucid-peer/2`, on the peer's
//! ordinary port. Both have to speak the same version of it, and to have the same list of nodes,
//! for else each would take keys for the other's; the caller has to be on it, and to mean the node
//! that it has reached. Where there is a secret, either proves that it knows it (HMAC-SHA256, RFC
//! 2104), without saying it.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use pellucid_topology::{NodeList, NodeUrl};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::cluster::{Cluster, News};
use crate::frame::PROTOCOL;

/// The path of the request.
pub const PEER_PATH: &str = "/v0/cluster/peer";
/// What a caller says that it is who asks for what it needs, and is no node itself.
pub const GUEST: &str = "guest";
/// Seconds that the clocks of two nodes may be apart; older proofs are not taken.
const PROOF_SECONDS_MAX: u64 = 300;
/// Bytes that the answer to the request may have.
pub(crate) const WELCOME_BYTES_MAX: usize = 16 * 1024;

/// What the caller says, as the headers of its request have it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hello<'a> {
    /// `Upgrade`: the protocol with its version.
    pub protocol: &'a str,
    /// `Pellucid-From`: the caller.
    pub from: &'a str,
    /// `Pellucid-To`: whom it means to have reached.
    pub to: &'a str,
    /// `Pellucid-Nodes`: its list.
    pub nodes: &'a str,
    /// `Pellucid-Time`: seconds since the Unix epoch.
    pub time: &'a str,
    /// `Pellucid-Proof`: in hexadecimal; empty without a secret.
    pub proof: &'a str,
}

/// A caller that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Its place in the list; of a guest, that of the node that it calls.
    pub from: usize,
    /// What we prove, for `Pellucid-Proof` of the answer.
    pub proof: Option<String>,
}

/// A caller that is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status that it is told.
    pub status: u16,
    /// Why.
    pub what: String,
}

impl Cluster {
    /// Decides about a caller.
    ///
    /// # Errors
    /// Why it is refused; the log has it too.
    pub fn welcome(&self, hello: Hello<'_>, unix_seconds: u64) -> Result<Welcome, Refused> {
        let judged = self.judge(hello, unix_seconds);
        if let Err(refused) = &judged {
            let from = NodeUrl::parse(hello.from).ok();
            let known = from.and_then(|from| self.nodes().index_of(&from));
            let is_news = match known {
                Some(node) if node != self.own() => self.board(node).explain(Some(&refused.what)),
                // A stranger is logged under our own name, so that many of him are one line.
                _ => self.board(self.own()).explain(Some(&refused.what)),
            };
            if is_news {
                let line = format!("a peer's connection was refused: {}", refused.what);
                self.log(News::Bad(&line));
            }
        }
        judged
    }

    fn judge(&self, hello: Hello<'_>, unix_seconds: u64) -> Result<Welcome, Refused> {
        let conflict = |what: String| Refused { status: 409, what };
        // First, as another version may prove what it knows in another way.
        if hello.protocol != PROTOCOL {
            return Err(conflict(format!(
                "{} asks for {}, and this node speaks {PROTOCOL}: run the same version of \
                 Pellucid on all nodes",
                shown(hello.from),
                shown(hello.protocol)
            )));
        }
        // Next, so that nobody learns the list who does not know the secret.
        let proof = self.check_proof(hello, unix_seconds)?;
        let own = self.url(self.own());
        let theirs = NodeList::parse(hello.nodes);
        if theirs.as_ref().map(NodeList::fingerprint) != Ok(self.fingerprint()) {
            return Err(conflict(format!(
                "the lists of nodes differ: {own} has {}, and {} has {}; start both with the same \
                 --cluster",
                self.nodes().text(),
                shown(hello.from),
                shown(hello.nodes)
            )));
        }
        if hello.to != own.as_str() {
            let what = format!(
                "{} meant to reach {}, and this is {own}: each node's --advertise has to lead to \
                 it",
                shown(hello.from),
                shown(hello.to)
            );
            return Err(conflict(what));
        }
        if hello.from == GUEST {
            return Ok(Welcome { from: self.own(), proof });
        }
        let from = NodeUrl::parse(hello.from).ok();
        match from.and_then(|from| self.nodes().index_of(&from)) {
            Some(from) if from != self.own() => Ok(Welcome { from, proof }),
            Some(_) => Err(conflict(format!(
                "two nodes say that they are {own}: give each its own --advertise"
            ))),
            None => Err(conflict(format!("{} is not on the list", shown(hello.from)))),
        }
    }

    fn check_proof(&self, hello: Hello<'_>, unix_seconds: u64) -> Result<Option<String>, Refused> {
        let Some(secret) = &self.options.secret else { return Ok(None) };
        let unauthorized = |what: String| Err(Refused { status: 401, what });
        let expected = proof_of(secret, hello.from, hello.to, hello.nodes, hello.time);
        if !bool::from(expected.as_bytes().ct_eq(hello.proof.as_bytes())) {
            return unauthorized(format!(
                "{} does not know the cluster's secret: give every node the same \
                 --cluster-secret-file",
                shown(hello.from)
            ));
        }
        let time: u64 = hello.time.parse().unwrap_or(0);
        if time.abs_diff(unix_seconds) > PROOF_SECONDS_MAX {
            return unauthorized(format!(
                "the clock of {} differs by more than {PROOF_SECONDS_MAX} s: set the clocks",
                shown(hello.from)
            ));
        }
        Ok(Some(answer_to(secret, &expected)))
    }

    /// The request with which this node asks the one at place `to`.
    pub(crate) fn hello(&self, to: usize, unix_seconds: u64) -> Vec<u8> {
        let from = self.options.node.as_ref().map_or(GUEST, NodeUrl::as_str);
        let to = self.url(to);
        let (nodes, time) = (self.nodes().text(), unix_seconds.to_string());
        let mut text = format!(
            "GET {PEER_PATH} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\
             Pellucid-From: {from}\r\nPellucid-To: {to}\r\nPellucid-Nodes: {nodes}\r\n\
             Pellucid-Time: {time}\r\n",
            to.authority()
        );
        if let Some(secret) = &self.options.secret {
            let proof = proof_of(secret, from, to.as_str(), &nodes, &time);
            text += &format!("Pellucid-Proof: {proof}\r\n");
        }
        text += "\r\n";
        text.into_bytes()
    }

    /// Reads the answer to `hello`. Returns its length once it is whole.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(crate) fn welcomed(&self, hello: &[u8], bytes: &[u8]) -> Result<Option<usize>, String> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        let Some(end) = end else {
            if bytes.len() > WELCOME_BYTES_MAX {
                return Err("it answers with what is not HTTP".to_owned());
            }
            return Ok(None);
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        match status {
            Some("101") => {}
            Some(status) => return refusal(status, &head, &bytes[end..]),
            None => return Err("it answers with what is not HTTP".to_owned()),
        }
        if header(&head, "upgrade") != Some(PROTOCOL) {
            return Err(format!("it does not speak {PROTOCOL}"));
        }
        if let Some(secret) = &self.options.secret {
            let hello = String::from_utf8_lossy(hello);
            let expected = answer_to(secret, header(&hello, "pellucid-proof").unwrap_or(""));
            let proof = header(&head, "pellucid-proof").unwrap_or("");
            if !bool::from(expected.as_bytes().ct_eq(proof.as_bytes())) {
                return Err("it does not know the cluster's secret".to_owned());
            }
        }
        Ok(Some(end))
    }
}

/// The reason that a refusal brings in its body, once that is there.
fn refusal(status: &str, head: &str, body: &[u8]) -> Result<Option<usize>, String> {
    let length = header(head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    if body.len() < length && body.len() < WELCOME_BYTES_MAX {
        return Ok(None);
    }
    let body = String::from_utf8_lossy(body);
    Err(format!("it refuses with {status}: {}", shown(body.trim())))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim())
}

/// What others sent, safe and short enough for a log.
fn shown(text: &str) -> String {
    const LENGTH_MAX: usize = 2_000;
    text.chars().filter(|letter| !letter.is_control()).take(LENGTH_MAX).collect()
}

fn proof_of(secret: &[u8], from: &str, to: &str, nodes: &str, time: &str) -> String {
    mac(secret, &[PROTOCOL, "hello", from, to, nodes, time])
}

fn answer_to(secret: &[u8], proof: &str) -> String {
    mac(secret, &[PROTOCOL, "welcome", proof])
}

/// The code of lines, in hexadecimal.
fn mac(secret: &[u8], lines: &[&str]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length is taken");
    for line in lines {
        mac.update(line.as_bytes());
        mac.update(b"\n");
    }
    let mut text = String::new();
    for byte in mac.finalize().into_bytes() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pellucid_thread::Mutex;

    use super::*;
    use crate::cluster::ClusterOptions;

    type Lines = Arc<Mutex<Vec<String>>>;

    fn node(list: &str, own: &str, secret: Option<&str>) -> (Arc<Cluster>, Lines) {
        let nodes = NodeList::parse(list).unwrap();
        let mut options = ClusterOptions::new(nodes, NodeUrl::parse(own).unwrap());
        options.secret = secret.map(|secret| secret.as_bytes().to_vec());
        let lines = Lines::default();
        let log = Arc::clone(&lines);
        let cluster = Cluster::new(options, 1, move |news| {
            let (News::Bad(line) | News::Good(line)) = news;
            log.lock().unwrap().push(line.to_owned());
        });
        (cluster.unwrap(), lines)
    }

    fn read(hello: &[u8]) -> String {
        String::from_utf8(hello.to_vec()).unwrap()
    }

    fn parts(text: &str) -> Hello<'_> {
        let field = |name| header(text, name).unwrap_or("");
        Hello {
            protocol: field("upgrade"),
            from: field("pellucid-from"),
            to: field("pellucid-to"),
            nodes: field("pellucid-nodes"),
            time: field("pellucid-time"),
            proof: field("pellucid-proof"),
        }
    }

    const LIST: &str = "http://10.0.0.1:1,http://10.0.0.2:2";

    #[test]
    fn nodes_with_one_list_and_one_secret_meet() {
        for secret in [None, Some("one secret")] {
            let (one, _) = node(LIST, "http://10.0.0.1:1", secret);
            let (two, log) = node(LIST, "http://10.0.0.2:2", secret);
            let hello = one.hello(1, 1_000);
            let text = read(&hello);
            let welcome = two.welcome(parts(&text), 1_100).unwrap();
            assert_eq!((welcome.from, welcome.proof.is_some()), (0, secret.is_some()));
            let proof = welcome.proof.unwrap_or_default();
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: {PROTOCOL}\r\n\
                 Pellucid-Proof: {proof}\r\n\r\nframes"
            );
            let length = answer.len() - "frames".len();
            assert_eq!(one.welcomed(&hello, answer.as_bytes()), Ok(Some(length)));
            assert_eq!(one.welcomed(&hello, &answer.as_bytes()[..length - 1]), Ok(None));
            assert!(log.lock().unwrap().is_empty());
        }
    }

    #[test]
    fn whoever_does_not_know_the_secret_learns_nothing() {
        let (stranger, _) = node(LIST, "http://10.0.0.1:1", Some("another"));
        let (none, _) = node(LIST, "http://10.0.0.1:1", None);
        let (two, log) = node(LIST, "http://10.0.0.2:2", Some("one secret"));
        for caller in [stranger, none] {
            let text = read(&caller.hello(1, 1_000));
            let refused = two.welcome(parts(&text), 1_000).unwrap_err();
            assert_eq!(refused.status, 401);
            assert!(!refused.what.contains("10.0.0.2"), "{}", refused.what);
        }
        assert_eq!(log.lock().unwrap().len(), 1, "the same again is no news");
        let (one, _) = node(LIST, "http://10.0.0.1:1", Some("one secret"));
        let text = read(&one.hello(1, 1_000));
        let late = two.welcome(parts(&text), 1_000 + PROOF_SECONDS_MAX + 1).unwrap_err();
        assert!(late.what.contains("clock"), "{}", late.what);
        let answer = format!("HTTP/1.1 101 Switching Protocols\r\nUpgrade: {PROTOCOL}\r\n\r\n");
        let error = one.welcomed(text.as_bytes(), answer.as_bytes()).unwrap_err();
        assert!(error.contains("secret"), "{error}");
    }

    #[test]
    fn another_version_of_the_protocol_is_refused_by_name() {
        let (one, _) = node(LIST, "http://10.0.0.1:1", Some("one secret"));
        let (two, log) = node(LIST, "http://10.0.0.2:2", Some("one secret"));
        let text = read(&one.hello(1, 1_000));
        let of_before = Hello { protocol: "pellucid-peer/1", ..parts(&text) };
        let refused = two.welcome(of_before, 1_000).unwrap_err();
        let names = ["http://10.0.0.1:1 ", "pellucid-peer/1,", PROTOCOL];
        assert_eq!(refused.status, 409);
        assert!(names.iter().all(|name| refused.what.contains(name)), "{}", refused.what);
        assert!(log.lock().unwrap()[0].contains(&refused.what));
        // A node of before says what it speaks.
        let body = "nodes of a cluster meet here by `Upgrade: pellucid-peer/1`, without TLS";
        let answer =
            format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert!(one.welcomed(b"", answer.as_bytes()).unwrap_err().contains(body));
    }

    #[test]
    fn lists_that_differ_are_named_on_both_sides() {
        let (one, _) = node(
            "http://10.0.0.1:1,http://10.0.0.2:2,http://10.0.0.3:3",
            "http://10.0.0.1:1",
            None,
        );
        let (two, log) = node(LIST, "http://10.0.0.2:2", None);
        let hello = one.hello(1, 1_000);
        let refused = two.welcome(parts(&read(&hello)), 1_000).unwrap_err();
        let both =
            |text: &str| text.contains("10.0.0.3:3") && text.contains(&format!("has {LIST},"));
        assert_eq!(refused.status, 409);
        assert!(both(&refused.what), "{}", refused.what);
        assert!(both(&log.lock().unwrap()[0]));
        let body = refused.what;
        let answer =
            format!("HTTP/1.1 409 Conflict\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert!(both(&one.welcomed(&hello, answer.as_bytes()).unwrap_err()));
    }

    #[test]
    fn a_node_that_is_not_who_it_should_be_is_refused() {
        let list = "http://10.0.0.1:1,http://10.0.0.2:2,http://10.0.0.3:3";
        let (one, _) = node(list, "http://10.0.0.1:1", None);
        let (two, _) = node(list, "http://10.0.0.2:2", None);
        let wrong = two.welcome(parts(&read(&one.hello(2, 0))), 0).unwrap_err();
        assert!(wrong.what.contains("--advertise"), "{}", wrong.what);
        let twin = two.welcome(parts(&read(&two.hello(1, 0))), 0).unwrap_err();
        assert!(twin.what.contains("two nodes"), "{}", twin.what);
    }

    /// It is no node, and knows the list and the secret as nodes do.
    #[test]
    fn a_guest_is_taken_like_a_node() {
        let guest = |secret: Option<&str>, list| {
            let mut options = ClusterOptions::of_guest(NodeList::parse(list).unwrap());
            options.secret = secret.map(|secret| secret.as_bytes().to_vec());
            Cluster::new(options, 1, |_| {}).unwrap()
        };
        let (two, _) = node(LIST, "http://10.0.0.2:2", Some("one secret"));
        let known = guest(Some("one secret"), LIST);
        assert_eq!((known.own(), known.owner(b"key") < 2), (2, true));
        let welcome = two.welcome(parts(&read(&known.hello(1, 0))), 0).unwrap();
        assert_eq!(welcome.from, two.own());
        let stranger = two.welcome(parts(&read(&guest(None, LIST).hello(1, 0))), 0).unwrap_err();
        assert_eq!(stranger.status, 401);
        let other = guest(Some("one secret"), "http://10.0.0.2:2");
        let other = two.welcome(parts(&read(&other.hello(0, 0))), 0).unwrap_err();
        assert!(other.what.contains("lists of nodes differ"), "{}", other.what);
    }

    #[test]
    fn what_is_not_the_protocol_is_said_to_be_so() {
        let (one, _) = node(LIST, "http://10.0.0.1:1", None);
        let garbage = [b'x'; WELCOME_BYTES_MAX + 1];
        for answer in [b"SSH-2.0-x\r\n\r\n".as_slice(), &garbage, b"HTTP/1.1 101 x\r\n\r\n"] {
            assert!(one.welcomed(b"", answer).is_err());
        }
    }
}
