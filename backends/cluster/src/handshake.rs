//! The handshake of the peer protocol.
//!
//! The caller starts with an HTTP request, `Upgrade: pellucid-peer/3`, on the peer's ordinary port.
//! Both sides send a key share ([`crate::session`]), and nothing else that a stranger does not
//! know. The first encrypted record of the caller is its list of nodes. If this record decrypts,
//! the caller knows the cluster's secret, and knows it now, because the peer's key share is new.
//! Only then does the peer send anything more: a record that accepts or refuses the caller, and
//! that proves to the caller that the peer knows the secret as well.
//!
//! Both sides need the same version of the protocol and the same list; with different lists, each
//! would expect a key at another node. The caller has to be on the list, and the node that it wants
//! to reach has to be this one.

use std::time::{Duration, Instant};

use pellucid_topology::{NodeList, NodeUrl};

use crate::cluster::{Cluster, ClusterEvent, GUEST};
use crate::frame::PROTOCOL;
use crate::session::{KeyDerivationInputs, KeyShare, Session, Side};

/// The path of the HTTP request that starts the handshake.
pub const PEER_PATH: &str = "/v0/cluster/peer";
/// The shortest time between two log lines about callers that have not proven themselves.
const REFUSALS_LOGGED_EVERY: Duration = Duration::from_secs(10);
/// Limit of the response to the HTTP request, in bytes.
pub(crate) const WELCOME_BYTES_MAX: usize = 16 * 1024;

/// The caller's greeting, from the headers of its request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hello<'a> {
    /// `Upgrade`: the protocol with its version.
    pub protocol: &'a str,
    /// `Pellucid-From`: the name of the caller.
    pub from: &'a str,
    /// `Pellucid-To`: the node that the caller wants to reach.
    pub to: &'a str,
    /// `Pellucid-Key`: the caller's key share.
    pub key: &'a str,
}

/// A caller that has sent its key share, and has not yet proven that it knows the secret.
pub struct UnverifiedCaller {
    pub(crate) session: Session,
    pub(crate) from: String,
    pub(crate) to: String,
}

/// The refusal of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeRefusal {
    /// The HTTP status of the response.
    pub status: u16,
    /// The reason, for the response's body.
    pub what: String,
}

impl Cluster {
    /// Answers a caller's request. Returns the value of the response's `Pellucid-Key` header, and
    /// the state that [`crate::Callers::adopt`] needs to continue.
    ///
    /// # Errors
    /// The reason for a refusal, which is logged too. It tells the caller nothing about the
    /// cluster.
    pub fn greet(&self, hello: Hello<'_>) -> Result<(String, UnverifiedCaller), HandshakeRefusal> {
        let greeted = self.agree(hello);
        if let Err(refused) = &greeted {
            self.note_refused(hello.from, &refused.what);
        }
        greeted
    }

    fn agree(&self, hello: Hello<'_>) -> Result<(String, UnverifiedCaller), HandshakeRefusal> {
        let refused = |status, what| Err(HandshakeRefusal { status, what });
        // This check comes first: the other headers of another version may mean something else.
        if hello.protocol != PROTOCOL {
            let what = format!(
                "{} asks for {}, and this node speaks {PROTOCOL}: run the same version of \
                 Pellucid on all nodes",
                caller(hello.from),
                shown(hello.protocol)
            );
            return refused(409, what);
        }
        if let Some(why) = self.distrust() {
            return refused(403, why.to_owned());
        }
        let own = KeyShare::new().map_err(|what| HandshakeRefusal { status: 503, what })?;
        let key = own.text().to_owned();
        let parties = self.parties(hello.from, hello.to);
        let Some(session) = Session::agree(own, hello.key, Side::Responder, parties) else {
            return refused(400, format!("{} has sent no key share", caller(hello.from)));
        };
        let (from, to) = (hello.from.to_owned(), hello.to.to_owned());
        Ok((key, UnverifiedCaller { session, from, to }))
    }

    /// Notes why a caller was refused that has not proven itself. A new reason is logged, but at
    /// most one every [`REFUSALS_LOGGED_EVERY`]: strangers could fill the log otherwise.
    pub(crate) fn note_refused(&self, from: &str, what: &str) {
        let mut logged = self.refusal_logged.lock();
        if logged.is_some_and(|at| at.elapsed() < REFUSALS_LOGGED_EVERY) {
            return;
        }
        if self.note_why(from, what) {
            *logged = Some(Instant::now());
        }
    }

    /// Notes why a caller was refused. Returns true if the reason was new, and was logged.
    pub(crate) fn note_why(&self, from: &str, what: &str) -> bool {
        let from = NodeUrl::parse(from).ok().and_then(|from| self.nodes().index_of(&from));
        // A stranger is noted under this node's own name, so that many strangers with the same
        // reason are one line.
        let is_news = self.status(from.unwrap_or(self.own())).note_refused(what);
        if is_news {
            self.log(ClusterEvent::Bad(&format!("a peer's connection was refused: {what}")));
        }
        is_news
    }

    /// Accepts or refuses a caller that has proven itself with this list of nodes. Returns the
    /// caller's index in the list; for a guest, the index of this node.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub(crate) fn judge(&self, from: &str, to: &str, list: &[u8]) -> Result<usize, String> {
        let own = self.url(self.own());
        let list = String::from_utf8_lossy(list);
        let theirs = NodeList::parse(&list);
        if theirs.as_ref().map(NodeList::fingerprint) != Ok(self.fingerprint()) {
            return Err(format!(
                "the lists of nodes differ: {own} has {}, and {} has {}; start both with the same \
                 --cluster",
                self.nodes().text(),
                shown(from),
                shown(&list)
            ));
        }
        if to != own.as_str() {
            return Err(format!(
                "{} meant to reach {}, and this is {own}: each node's --advertise has to lead to \
                 it",
                shown(from),
                shown(to)
            ));
        }
        if from == GUEST {
            return Ok(self.own());
        }
        let node = NodeUrl::parse(from).ok().and_then(|from| self.nodes().index_of(&from));
        match node {
            Some(node) if node != self.own() => Ok(node),
            Some(_) => {
                Err(format!("two nodes say that they are {own}: give each its own --advertise"))
            }
            None => Err(format!("{} is not on the list", shown(from))),
        }
    }

    /// The log text for a caller whose first record does not decrypt.
    pub(crate) fn unproven(from: &str) -> String {
        format!(
            "{} does not know the cluster's secret: give every node the same \
             --cluster-secret-file",
            shown(from)
        )
    }

    fn parties<'a>(&'a self, from: &'a str, to: &'a str) -> KeyDerivationInputs<'a> {
        KeyDerivationInputs { from, to, secret: self.options.secret.as_deref() }
    }

    /// The HTTP request with which this node starts the handshake with the node at index `to`.
    pub(crate) fn hello(&self, to: usize, share: &KeyShare) -> Vec<u8> {
        let to = self.url(to);
        format!(
            "GET {PEER_PATH} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\
             Pellucid-From: {}\r\nPellucid-To: {to}\r\nPellucid-Key: {}\r\n\r\n",
            to.authority(),
            self.options.own_name(),
            share.text()
        )
        .into_bytes()
    }

    /// The session of this node with the node at index `to`, whose response had the key share
    /// `theirs`.
    ///
    /// # Errors
    /// If `theirs` is not a valid key share.
    pub(crate) fn agree_with(
        &self,
        to: usize,
        share: KeyShare,
        theirs: &str,
    ) -> Result<Session, String> {
        let parties = self.parties(self.options.own_name(), self.url(to).as_str());
        let session = Session::agree(share, theirs, Side::Initiator, parties);
        session.ok_or_else(|| "it has sent no key share".to_owned())
    }
}

/// Reads the response to the HTTP request. Returns its length and its key share, or `None` while it
/// is incomplete.
///
/// # Errors
/// The peer's refusal, or the reason why the response is not one of this protocol.
pub(crate) fn read_welcome(bytes: &[u8]) -> Result<Option<(usize, String)>, String> {
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
    Ok(Some((end, header(&head, "pellucid-key").unwrap_or("").to_owned())))
}

/// Reads the peer's answer to this node's proof: it is empty if the peer accepts.
///
/// # Errors
/// The peer's reason for a refusal.
pub(crate) fn read_verdict(bytes: &[u8]) -> Result<(), String> {
    if bytes.is_empty() {
        return Ok(());
    }
    Err(format!("it refuses: {}", shown(&String::from_utf8_lossy(bytes))))
}

/// The error for a response that refuses, with the reason from its body. Returns `Ok(None)` while
/// the body is incomplete.
fn refusal(status: &str, head: &str, body: &[u8]) -> Result<Option<(usize, String)>, String> {
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

fn caller(from: &str) -> String {
    if from.is_empty() { "a caller without a name".to_owned() } else { shown(from) }
}

/// Text from another program, without control characters, and short enough for the log.
fn shown(text: &str) -> String {
    const LENGTH_MAX: usize = 2_000;
    text.chars().filter(|letter| !letter.is_control()).take(LENGTH_MAX).collect()
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
            let (ClusterEvent::Bad(line) | ClusterEvent::Good(line)) = news;
            log.lock().push(line.to_owned());
        });
        (cluster.unwrap(), lines)
    }

    fn guest(list: &str, secret: Option<&str>) -> Arc<Cluster> {
        let mut options = ClusterOptions::of_guest(NodeList::parse(list).unwrap());
        options.secret = secret.map(|secret| secret.as_bytes().to_vec());
        Cluster::new(options, 1, |_| {}).unwrap()
    }

    fn parts(text: &str) -> Hello<'_> {
        let field = |name| header(text, name).unwrap_or("");
        Hello {
            protocol: field("upgrade"),
            from: field("pellucid-from"),
            to: field("pellucid-to"),
            key: field("pellucid-key"),
        }
    }

    /// Runs the handshake of `caller` with `owner`, the node at index `to` of the caller's list.
    /// Returns the verdict of `owner`.
    fn call(caller: &Cluster, to: usize, owner: &Cluster) -> Result<usize, String> {
        let share = KeyShare::new().unwrap();
        let text = String::from_utf8(caller.hello(to, &share)).unwrap();
        let (key, mut greeted) = owner.greet(parts(&text)).map_err(|refused| refused.what)?;
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: {PROTOCOL}\r\n\
             Pellucid-Key: {key}\r\n\r\nrecords"
        );
        let length = answer.len() - "records".len();
        assert_eq!(read_welcome(&answer.as_bytes()[..length - 1]), Ok(None));
        let (end, theirs) = read_welcome(answer.as_bytes()).unwrap().unwrap();
        assert_eq!(end, length);
        let mut session = caller.agree_with(to, share, &theirs).unwrap();
        let mut proof = Vec::new();
        session.sealer.seal(caller.nodes().text().as_bytes(), &mut proof);
        let mut judged = None;
        let (from, to) = (greeted.from, greeted.to);
        greeted.session.opener.open(&mut proof, &mut |list| {
            judged = Some(owner.judge(&from, &to, list));
            Ok(list.len())
        })?;
        judged.unwrap()
    }

    const LIST: &str = "http://10.0.0.1:1,http://10.0.0.2:2";

    #[test]
    fn nodes_with_one_list_and_one_secret_meet() {
        for secret in [None, Some("one secret")] {
            let (one, _) = node(LIST, "http://10.0.0.1:1", secret);
            let (two, log) = node(LIST, "http://10.0.0.2:2", secret);
            assert_eq!(call(&one, 1, &two), Ok(0));
            assert!(log.lock().is_empty());
        }
    }

    /// Regression: the greeting had the list of nodes, and so had refusals, so strangers could read
    /// it.
    #[test]
    fn the_greeting_does_not_reveal_the_list_of_nodes() {
        let (one, _) = node(LIST, "http://10.0.0.1:1", Some("one secret"));
        let (two, log) = node(LIST, "http://10.0.0.2:2", Some("one secret"));
        let share = KeyShare::new().unwrap();
        let hello = String::from_utf8(one.hello(1, &share)).unwrap();
        assert!(!hello.contains("10.0.0.1:1,"), "{hello}");
        // The answer to any key share is a key share and nothing else.
        let (key, _) = two.greet(parts(&hello)).unwrap();
        assert_eq!(key.len(), 64);
        for wrong in [
            Hello { protocol: "pellucid-peer/2", ..parts(&hello) },
            Hello { key: "", ..parts(&hello) },
        ] {
            let refused = two.greet(wrong).err().unwrap();
            assert!(!refused.what.contains("10.0.0.2"), "{}", refused.what);
        }
        assert_eq!(log.lock().len(), 1, "strangers do not fill the log");
    }

    #[test]
    fn callers_without_the_right_secret_are_refused() {
        let (two, _) = node(LIST, "http://10.0.0.2:2", Some("one secret"));
        for secret in [Some("another"), None] {
            let (stranger, _) = node(LIST, "http://10.0.0.1:1", secret);
            assert!(call(&stranger, 1, &two).unwrap_err().contains("not sealed"));
            assert!(call(&guest(LIST, secret), 1, &two).unwrap_err().contains("not sealed"));
        }
    }

    /// Regression: a recorded greeting was accepted again for five minutes.
    #[test]
    fn a_replayed_greeting_and_proof_are_refused() {
        let (one, _) = node(LIST, "http://10.0.0.1:1", Some("one secret"));
        let (two, _) = node(LIST, "http://10.0.0.2:2", Some("one secret"));
        let share = KeyShare::new().unwrap();
        let hello = String::from_utf8(one.hello(1, &share)).unwrap();
        let (key, mut first) = two.greet(parts(&hello)).unwrap();
        let mut proof = Vec::new();
        let mut session = one.agree_with(1, share, &key).unwrap();
        session.sealer.seal(LIST.as_bytes(), &mut proof);
        let (_, mut second) = two.greet(parts(&hello)).unwrap();
        let take = &mut |list: &[u8]| Ok(list.len());
        assert!(first.session.opener.open(&mut proof.clone(), take).is_ok());
        assert!(second.session.opener.open(&mut proof, take).is_err());
    }

    #[test]
    fn another_version_of_the_protocol_is_refused_by_name() {
        let (one, _) = node(LIST, "http://10.0.0.1:1", Some("one secret"));
        let (two, log) = node(LIST, "http://10.0.0.2:2", Some("one secret"));
        let text = String::from_utf8(one.hello(1, &KeyShare::new().unwrap())).unwrap();
        let of_before = Hello { protocol: "pellucid-peer/2", ..parts(&text) };
        let refused = two.greet(of_before).err().unwrap();
        let names = ["http://10.0.0.1:1 ", "pellucid-peer/2,", PROTOCOL];
        assert_eq!(refused.status, 409);
        assert!(names.iter().all(|name| refused.what.contains(name)), "{}", refused.what);
        assert!(log.lock()[0].contains(&refused.what));
        // The refusal of an older node names its version.
        let body = "nodes of a cluster meet here by `Upgrade: pellucid-peer/2`, without TLS";
        let answer =
            format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert!(read_welcome(answer.as_bytes()).unwrap_err().contains(body));
    }

    #[test]
    fn lists_that_differ_are_named() {
        let three = "http://10.0.0.1:1,http://10.0.0.2:2,http://10.0.0.3:3";
        let (one, _) = node(three, "http://10.0.0.1:1", None);
        let (two, _) = node(LIST, "http://10.0.0.2:2", None);
        let what = call(&one, 1, &two).unwrap_err();
        assert!(what.contains("10.0.0.3:3") && what.contains(&format!("has {LIST},")), "{what}");
        let told = read_verdict(what.as_bytes()).unwrap_err();
        assert!(told.contains(&what), "{told}");
        assert_eq!(read_verdict(b""), Ok(()));
    }

    #[test]
    fn a_node_other_than_the_wanted_one_is_refused() {
        let list = "http://10.0.0.1:1,http://10.0.0.2:2,http://10.0.0.3:3";
        let (one, _) = node(list, "http://10.0.0.1:1", None);
        let (two, _) = node(list, "http://10.0.0.2:2", None);
        let wrong = call(&one, 2, &two).unwrap_err();
        assert!(wrong.contains("--advertise"), "{wrong}");
        let twin = call(&two, 1, &two).unwrap_err();
        assert!(twin.contains("two nodes"), "{twin}");
    }

    /// A guest is not a node, but knows the list and the secret.
    #[test]
    fn a_guest_is_accepted_like_a_node() {
        let (two, _) = node(LIST, "http://10.0.0.2:2", Some("one secret"));
        let known = guest(LIST, Some("one secret"));
        assert_eq!((known.own(), known.owner(b"key") < 2), (2, true));
        assert_eq!(call(&known, 1, &two), Ok(two.own()));
        let other = call(&guest("http://10.0.0.2:2", Some("one secret")), 0, &two).unwrap_err();
        assert!(other.contains("lists of nodes differ"), "{other}");
    }

    /// Regression: a node with accounts and without a secret accepted any caller as a peer.
    #[test]
    fn a_node_with_accounts_accepts_no_peer_without_a_secret() {
        let (one, _) = node(LIST, "http://10.0.0.1:1", None);
        let (two, log) = node(LIST, "http://10.0.0.2:2", None);
        assert_eq!(call(&one, 1, &two), Ok(0));
        two.require_secret();
        let refused = call(&one, 1, &two).unwrap_err();
        assert!(refused.contains("--cluster-secret-file"), "{refused}");
        assert!(log.lock()[0].contains(&refused));
        let (with, _) = node(LIST, "http://10.0.0.2:2", Some("one secret"));
        with.require_secret();
        let (one, _) = node(LIST, "http://10.0.0.1:1", Some("one secret"));
        assert_eq!(call(&one, 1, &with), Ok(0));
    }

    #[test]
    fn responses_of_other_protocols_are_errors() {
        let garbage = [b'x'; WELCOME_BYTES_MAX + 1];
        for answer in [b"SSH-2.0-x\r\n\r\n".as_slice(), &garbage, b"HTTP/1.1 101 x\r\n\r\n"] {
            assert!(read_welcome(answer).is_err());
        }
    }
}
