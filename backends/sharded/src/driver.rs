//! The thread that owns the connections to the nodes, and its mailbox.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use mio::{Events, Poll, Token, Waker};
use pellucid_clock::Clock;
use pellucid_cluster::{Ask, AskKind, AskTable, Cluster, Failure, Outcome, OwnerAnswer, Peers};
use pellucid_store::{Acknowledgement, Condition};
use pellucid_thread::Mutex;

/// The token of the mailbox; the tokens of the links follow.
const WAKE: Token = Token(0);
/// Limit of the events that one wake-up takes.
const EVENTS: usize = 256;
/// Limit of the asks in the mailbox; further ones are refused.
const MAILBOX_MAX: usize = 16_384;

/// An answer with its payload: the value, or the reason of a failure.
pub(crate) struct ReceivedAnswer {
    pub(crate) answer: OwnerAnswer,
    pub(crate) payload: Vec<u8>,
}

type AnswerCallback = Box<dyn FnOnce(Result<ReceivedAnswer, Failure>) + Send>;

/// A callback for an answer. It is called exactly once, also if the thread ends before an answer.
pub(crate) struct PendingAnswer(Option<AnswerCallback>);

impl PendingAnswer {
    pub(crate) fn new(
        brings: impl FnOnce(Result<ReceivedAnswer, Failure>) + Send + 'static,
    ) -> PendingAnswer {
        PendingAnswer(Some(Box::new(brings)))
    }

    fn bring(mut self, result: Result<ReceivedAnswer, Failure>) {
        if let Some(brings) = self.0.take() {
            brings(result);
        }
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        if let Some(brings) = self.0.take() {
            let reason = "the store was closed".to_owned();
            brings(Err(Failure::Lost { owner: "of the cluster".to_owned(), reason }));
        }
    }
}

/// An ask that owns its key and value.
pub(crate) struct OwnedAsk {
    pub(crate) kind: AskKind,
    pub(crate) acknowledgement: Acknowledgement,
    pub(crate) condition: Condition,
    pub(crate) lifetime_ms: Option<u64>,
    /// The table's name, and the length of the key's prefix that determines its owner.
    pub(crate) table: (Arc<str>, u16),
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl OwnedAsk {
    fn ask(&self) -> Ask<'_> {
        Ask {
            acknowledgement: self.acknowledgement,
            condition: self.condition,
            lifetime_ms: self.lifetime_ms,
            table: Some(AskTable { name: &self.table.0, part_length: self.table.1 }),
            key: &self.key,
            value: &self.value,
            ..Ask::plain(self.kind)
        }
    }
}

/// An ask in the mailbox, with its destination and its callback.
struct QueuedAsk {
    node: usize,
    ask: OwnedAsk,
    waiting: PendingAnswer,
}

#[derive(Default)]
struct Mailbox {
    orders: Vec<QueuedAsk>,
    is_closed: bool,
}

impl Mailbox {
    fn take(&mut self) -> Vec<QueuedAsk> {
        std::mem::take(&mut self.orders)
    }
}

/// Closes the mailbox when the thread ends, also by a panic, so that no ask waits for ever.
struct MailboxCloser<'a>(&'a Mutex<Mailbox>);

impl Drop for MailboxCloser<'_> {
    fn drop(&mut self) {
        let mut mailbox = self.0.lock();
        mailbox.is_closed = true;
        let orders = mailbox.take();
        // Orders are dropped without the lock, because a callback may ask again.
        drop(mailbox);
        drop(orders);
    }
}

/// A handle of the thread. Dropping it ends the thread.
pub(crate) struct Driver {
    cluster: Arc<Cluster>,
    mailbox: Arc<Mutex<Mailbox>>,
    waker: Waker,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Driver {
    pub(crate) fn start(cluster: Arc<Cluster>) -> io::Result<Driver> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let token = |link: usize| Token(link + 1);
        let registry = poll.registry();
        let peers = Peers::start(Arc::clone(&cluster), Clock::system(), 0, registry, token)?;
        let mailbox = Arc::new(Mutex::new(Mailbox::default()));
        let kept = Arc::clone(&mailbox);
        let run = move || run(poll, peers, &kept);
        let thread = std::thread::Builder::new().name("pellucid-peers".to_owned()).spawn(run)?;
        Ok(Driver { cluster, mailbox, waker, thread: Mutex::new(Some(thread)) })
    }

    /// Asks the node at this index. `waiting` is called with the outcome: on the connections'
    /// thread, or at once on this one if the ask is refused.
    pub(crate) fn ask(&self, node: usize, ask: OwnedAsk, waiting: PendingAnswer) {
        let mut mailbox = self.mailbox.lock();
        let owner = || self.cluster.url(node).to_string();
        let failure = if mailbox.is_closed {
            let reason = "the store was closed".to_owned();
            Some(Failure::Unreachable { owner: owner(), reason })
        } else if mailbox.orders.len() >= MAILBOX_MAX {
            Some(Failure::Full { owner: owner() })
        } else {
            None
        };
        if let Some(failure) = failure {
            drop(mailbox);
            return waiting.bring(Err(failure));
        }
        let is_first = mailbox.orders.is_empty();
        mailbox.orders.push(QueuedAsk { node, ask, waiting });
        drop(mailbox);
        if is_first {
            self.wake();
        }
    }

    fn wake(&self) {
        // A failure means that the system has lost the descriptor. Then the links' timer wakes the
        // thread a little later.
        let _ = self.waker.wake();
    }

    /// Ends the thread. Asks without an answer fail.
    pub(crate) fn close(&self) {
        self.mailbox.lock().is_closed = true;
        self.wake();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            // The message of a panic is on standard error already.
            let _ = thread.join();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.mailbox.lock().is_closed
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.close();
    }
}

/// Serves the mailbox until it is closed. At the end, dropping the orders and the links calls all
/// callbacks.
fn run(mut poll: Poll, mut peers: Peers<PendingAnswer>, mailbox: &Mutex<Mailbox>) {
    let _closer = MailboxCloser(mailbox);
    let mut events = Events::with_capacity(EVENTS);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // No event can arrive any more.
            Err(_) => return,
            Ok(()) => {}
        }
        let registry = poll.registry();
        for event in &events {
            if let Some(link) = event.token().0.checked_sub(1) {
                peers.ready(link, event.is_read_closed(), registry, &mut bring);
            }
        }
        let orders = {
            let mut mailbox = mailbox.lock();
            if mailbox.is_closed {
                return;
            }
            mailbox.take()
        };
        orders.into_iter().for_each(|order| begin(&mut peers, order));
        peers.settle(registry, &mut bring);
    }
}

fn begin(peers: &mut Peers<PendingAnswer>, order: QueuedAsk) {
    let QueuedAsk { node, ask, waiting } = order;
    match peers.refuses(node) {
        Some(failure) => waiting.bring(Err(failure)),
        // `refuses` has just said that the ask is accepted.
        None => drop(peers.ask(node, ask.ask(), waiting)),
    }
}

fn bring(waiting: PendingAnswer, outcome: Outcome<'_>) {
    waiting.bring(match outcome {
        Outcome::Failed(failure) => Err(failure),
        Outcome::Answered(answer, times) => {
            let payload = answer.payload.to_vec();
            Ok(ReceivedAnswer { answer: OwnerAnswer::new(&answer, times), payload })
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use pellucid_cluster::ClusterOptions;
    use pellucid_topology::NodeList;

    use super::*;

    /// Regression: the mailbox stayed open, and later asks waited in it for ever.
    #[test]
    fn asks_fail_at_once_after_the_thread_has_panicked() {
        // No program listens there.
        let nodes = NodeList::parse("http://127.0.0.1:1").unwrap();
        let cluster = Cluster::new(ClusterOptions::of_guest(nodes), 1, |_| {}).unwrap();
        let driver = Driver::start(cluster).unwrap();
        let ask = |waiting| {
            let ask = OwnedAsk {
                kind: AskKind::Get,
                acknowledgement: Acknowledgement::Memory,
                condition: Condition::None,
                lifetime_ms: None,
                table: (Arc::from("t"), 0),
                key: b"k".to_vec(),
                value: Vec::new(),
            };
            driver.ask(0, ask, waiting);
        };
        ask(PendingAnswer::new(|_| panic!("on purpose")));
        let thread = driver.thread.lock().take().unwrap();
        assert!(thread.join().is_err());
        let (sender, results) = channel();
        ask(PendingAnswer::new(move |result| {
            // The send fails if the test has failed before.
            let _ = sender.send(result.is_err());
        }));
        assert_eq!(results.try_recv(), Ok(true));
    }
}
