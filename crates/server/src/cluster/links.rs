//! The links of one event loop: its connections to peers, and the connections of peers to it
//! ("callers"). They forward requests to peers, and serve requests of peers.

use std::io;
use std::sync::{Arc, Weak};

use mio::net::TcpStream;
use pellucid_account::Record;
use pellucid_cluster::{
    Ask, AskKind, AskTrace, CONTENT_BYTES_MAX, Callers, Cluster, Failure as PeerFailure, Hello,
    Outcome, OwnerAnswer, PROTOCOL, PROTOCOL_OF_ANY_VERSION, Peers, RangePages, UnverifiedCaller,
};
use pellucid_http::{ClientWatch, LinkContext, LinkEvent, Messenger, Request, Ticket};
use pellucid_store::StoreError;
use pellucid_thread::{Mutex, ParkedWork, WaitKind};

use super::merged_entries::MergedEntries;
use super::owner_reply::{ForwardedRequest, OwnerReply, WAITS_ONE_IN, refusal_of};
use super::serve::Owner;
use super::served_request::ServedRequest;
use crate::access::Accounts;
use crate::answer::{Answer, DeferredReply, HandlerResult, LoopExchange, LoopMessage};
use crate::entities::ranges::RangeBody;
use crate::entities::{EntityHeaders, WriteParameters, batch};
use crate::names::{Operation, Outcome as End};
use crate::reply::{Body, Failure, Reply, WriteReply};
use crate::reporter::Trace;
use crate::timing::route;

/// The number of the link that is a timer.
const TIMER: usize = 0;
/// The number of the first link of a caller. Lower numbers are links to peers.
const CALLERS_AT: usize = 1_000;
/// The limit of callers that have completed the handshake, but whose connections the transport has
/// not handed over. It does so within the same wake-up, unless the connection is closed.
const ARRIVING_MAX: usize = 64;
/// The limit of payload buffers that are kept for reuse.
const BUFFERS_KEPT: usize = 64;
/// The largest payload buffer that is kept for reuse, in bytes.
const BUFFER_BYTES_KEPT: usize = 64 * 1024;

/// The purpose of an ask that was sent to a peer, kept until the answer arrives.
enum Context {
    /// A client's request waits for the answer.
    Request(Ticket, ForwardedRequest, ParkedWork),
    /// A range waits for its next page from the node with this index.
    Range(Ticket, Weak<Mutex<RangePages>>, usize),
}

/// A range whose reply is not begun: it waits for the first page of each node.
struct WaitingRange {
    ticket: Ticket,
    client: ClientWatch,
    body: RangeBody<MergedEntries>,
    put_down: ParkedWork,
}

/// The links of one event loop, the state of the asks on them, and the state to serve peers.
pub(crate) struct Links {
    cluster: Arc<Cluster>,
    accounts: Arc<Accounts>,
    owner: Owner,
    peers: Peers<Context>,
    callers: Callers<Option<Record>>,
    messenger: Messenger<LoopMessage>,
    /// The callers that have completed the handshake, but whose connections the transport has not
    /// handed over.
    arriving: Vec<(Ticket, UnverifiedCaller)>,
    ranges: Vec<(Ticket, Weak<Mutex<RangePages>>)>,
    waiting_ranges: Vec<WaitingRange>,
    buffers: Vec<Vec<u8>>,
}

fn peer_token(link: usize) -> mio::Token {
    LinkContext::<LoopMessage>::token(link)
}

fn caller_token(slot: usize) -> mio::Token {
    LinkContext::<LoopMessage>::token(CALLERS_AT + slot)
}

impl Links {
    /// Opens the links, when the event loop starts.
    pub(crate) fn start(
        cluster: &Arc<Cluster>,
        accounts: Arc<Accounts>,
        owner: Owner,
        turn: &LinkContext<'_, LoopMessage>,
    ) -> io::Result<Links> {
        let clock = owner.observer().account.clock();
        let peers =
            Peers::start(Arc::clone(cluster), clock, turn.index(), turn.registry(), peer_token)?;
        Ok(Links {
            peers,
            callers: Callers::new(Arc::clone(cluster), clock, caller_token),
            cluster: Arc::clone(cluster),
            accounts,
            owner,
            messenger: turn.messenger(),
            arriving: Vec::new(),
            ranges: Vec::new(),
            waiting_ranges: Vec::new(),
            buffers: Vec::new(),
        })
    }

    /// The index of the node that owns the key; `None` if it is this one.
    #[inline]
    pub(crate) fn elsewhere(&self, key: &[u8]) -> Option<usize> {
        let owner = self.cluster.owner(key);
        (owner != self.own()).then_some(owner)
    }

    /// Forwards a request for one key to its owner, the node with the index `node`.
    pub(crate) fn forward(
        &mut self,
        operation: Operation,
        node: usize,
        key: &[u8],
        request: &Request<'_>,
        exchange: &mut LoopExchange<'_>,
    ) -> HandlerResult {
        let (kind, accounted) = match operation {
            Operation::EntityGet => (AskKind::Get, Operation::EntityGetForwarded),
            Operation::EntityHead => (AskKind::Head, Operation::EntityHeadForwarded),
            Operation::EntityPut => (AskKind::Put, Operation::EntityPutForwarded),
            _ => (AskKind::Delete, Operation::EntityDeleteForwarded),
        };
        route(exchange, accounted);
        let mut ask = Ask { key, ..Ask::plain(kind) };
        if matches!(kind, AskKind::Put | AskKind::Delete) {
            let write = self.owner.entities().asked_write(request, kind == AskKind::Put)?;
            let WriteParameters { condition, lifetime_ms, acknowledgement } = write;
            ask = Ask { condition, lifetime_ms, acknowledgement, ..ask };
        }
        if kind == AskKind::Put {
            ask.value = request.body;
        }
        let forwarded = match kind {
            AskKind::Get => ForwardedRequest::Get(EntityHeaders::of(request)),
            AskKind::Head => ForwardedRequest::Head(EntityHeaders::of(request)),
            AskKind::Put => ForwardedRequest::Write(WriteReply::Put),
            _ => ForwardedRequest::Write(WriteReply::Delete),
        };
        self.ask(node, ask, forwarded, exchange)
    }

    /// Forwards a batch if another node owns all its keys; `None` if this node does.
    ///
    /// # Errors
    /// If the keys belong to several nodes, or the ask cannot be sent.
    pub(crate) fn forward_batch(
        &mut self,
        entries: &[batch::Entry],
        request: &Request<'_>,
        exchange: &mut LoopExchange<'_>,
    ) -> Result<Option<Answer>, Failure> {
        let cluster = &self.cluster;
        let Some(first) = entries.first() else { return Ok(None) };
        let owner = cluster.owner(first.key());
        let other = entries.iter().map(|entry| cluster.owner(entry.key())).find(|o| *o != owner);
        if let Some(other) = other {
            let line = format!(
                "the keys of a batch belong to one node, so that all of it or nothing is written: \
                 these are of {} and {}",
                cluster.url(owner),
                cluster.url(other)
            );
            return Err(line.into());
        }
        if owner == cluster.own() {
            return Ok(None);
        }
        exchange.facts.operation = Operation::EntityBatchForwarded as u8;
        exchange.timeline.set_operation(Operation::EntityBatchForwarded as u8);
        let forwarded = ForwardedRequest::Write(WriteReply::Batch { entries: entries.len() });
        let acknowledgement = self.owner.entities().acknowledgement(request)?;
        let ask = Ask { acknowledgement, value: request.body, ..Ask::plain(AskKind::Batch) };
        self.ask(owner, ask, forwarded, exchange).map(Some)
    }

    /// Sends an ask, with the trace of its request, to the node with the index `node`. The reply
    /// comes later.
    ///
    /// # Errors
    /// If the node cannot be reached, or too many asks are in progress with it.
    fn ask(
        &mut self,
        node: usize,
        ask: Ask<'_>,
        forwarded: ForwardedRequest,
        exchange: &LoopExchange<'_>,
    ) -> HandlerResult {
        if ask.key.len() + ask.value.len() > CONTENT_BYTES_MAX {
            let line = format!("what is forwarded may have up to {CONTENT_BYTES_MAX} bytes");
            return Err(Failure::Refused(413, line.into()));
        }
        let traced = self.owner.observer().traced.of(exchange.facts.request);
        let trace = traced.as_ref().map(|Trace { context, state, .. }| AskTrace {
            trace: context.trace,
            span: context.span,
            state: state.as_deref().unwrap_or_default(),
        });
        let put_down = ParkedWork::put_down(WaitKind::Node);
        let context = Context::Request(exchange.ticket(), forwarded, put_down);
        let asked = self.peers.ask(node, Ask { trace, ..ask }, context);
        asked.map_err(|failure| refusal_of(&failure))?;
        Ok(Answer::Away)
    }

    /// Registers a range whose pages are fetched from other nodes as they are needed. Its reply
    /// begins once the first pages are here, or a node has failed.
    pub(super) fn follow_range(
        &mut self,
        exchange: &mut LoopExchange<'_>,
        pages: &Arc<Mutex<RangePages>>,
        body: RangeBody<MergedEntries>,
    ) {
        let (ticket, client) = (exchange.ticket(), exchange.client_watch());
        self.ranges.push((ticket, Arc::downgrade(pages)));
        let put_down = ParkedWork::put_down(WaitKind::Node);
        self.waiting_ranges.push(WaitingRange { ticket, client, body, put_down });
    }

    /// The index of this node.
    pub(super) fn own(&self) -> usize {
        self.cluster.own()
    }

    /// The number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.cluster.nodes().nodes().len()
    }

    /// The failure of another node that cannot be reached now, if there is one.
    pub(super) fn unreachable(&self) -> Option<PeerFailure> {
        let mut others = (0..self.nodes()).filter(|node| *node != self.own());
        others.find_map(|node| self.peers.unreachable(node))
    }

    /// Answers the handshake of a peer that wants to connect.
    ///
    /// # Errors
    /// If the request is no such handshake, or the cluster refuses the peer.
    pub(crate) fn welcome(
        &mut self,
        request: &Request<'_>,
        exchange: &LoopExchange<'_>,
    ) -> HandlerResult {
        self.require_secret();
        let field = |name: &str| {
            request.header(name).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or("")
        };
        let protocol =
            if request.header_has("upgrade", PROTOCOL) { PROTOCOL } else { field("upgrade") };
        let asks = request.method == "GET" && protocol.starts_with(PROTOCOL_OF_ANY_VERSION);
        if !asks || !exchange.may_upgrade() {
            let line =
                format!("nodes of a cluster meet here by `Upgrade: {PROTOCOL}`, without TLS");
            return Err(line.into());
        }
        let hello = Hello {
            protocol,
            from: field("pellucid-from"),
            to: field("pellucid-to"),
            key: field("pellucid-key"),
        };
        let greeted = self.cluster.greet(hello);
        let (key, greeted) =
            greeted.map_err(|refused| Failure::Refused(refused.status, refused.what.into()))?;
        if self.arriving.len() >= ARRIVING_MAX {
            self.arriving.remove(0);
        }
        self.arriving.push((exchange.ticket(), greeted));
        let reply = Reply::new(101, None, Body::None).with_header("Connection", "Upgrade");
        Ok(reply.with_header("Upgrade", PROTOCOL).with_header("Pellucid-Key", key).into())
    }

    /// Takes over the connection of a peer that has completed the handshake. `unread` are bytes
    /// that the transport has read already.
    pub(crate) fn adopt(
        &mut self,
        ticket: Ticket,
        socket: TcpStream,
        unread: Vec<u8>,
        turn: &mut LinkContext<'_, LoopMessage>,
    ) {
        let Some(at) = self.arriving.iter().position(|(known, _)| *known == ticket) else {
            return;
        };
        let (_, greeted) = self.arriving.swap_remove(at);
        if let Some(slot) = self.callers.adopt(socket, greeted, turn.registry()) {
            // If the peer has closed the connection already, the registration causes an event.
            let event = LinkEvent { link: CALLERS_AT + slot, is_read_closed: false };
            self.attend(event, unread, turn);
        }
    }

    /// Handles an event of a link: reads, serves and writes. `unread` are bytes of the link that
    /// were read before.
    pub(crate) fn attend(
        &mut self,
        event: LinkEvent,
        unread: Vec<u8>,
        turn: &mut LinkContext<'_, LoopMessage>,
    ) {
        self.require_secret();
        let Links { peers, callers, cluster, owner, messenger, buffers, ranges, .. } = self;
        let (registry, LinkEvent { link, is_read_closed }) = (turn.registry(), event);
        match link.checked_sub(CALLERS_AT) {
            None => {
                if link == TIMER {
                    callers.tick(registry);
                    for ticket in own_pages_wanted(ranges, cluster.own()) {
                        turn.go_on(ticket);
                    }
                }
                peers.ready(link, is_read_closed, registry, &mut |context, outcome| {
                    bring(context, outcome, buffers, turn);
                });
            }
            Some(slot) => {
                if is_read_closed {
                    callers.note_read_closed(slot);
                }
                callers.ready(slot, unread, registry, &mut |reply, ask| {
                    owner.serve(cluster, messenger, turn, reply, &ask)
                });
            }
        }
    }

    pub(crate) fn has_to_settle(&self) -> bool {
        self.peers.is_dirty() || self.callers.is_dirty()
    }

    /// Sends all asks and answers that this wake-up has made. Returns true if that completed
    /// requests.
    pub(crate) fn settle(&mut self, turn: &mut LinkContext<'_, LoopMessage>) -> bool {
        if !self.ranges.is_empty() {
            self.ask_for_pages(turn);
        }
        let mut is_more = self.begin_replies(turn);
        let Links { peers, callers, buffers, .. } = self;
        if peers.is_dirty() {
            let registry = turn.registry();
            peers.settle(registry, &mut |context, outcome| {
                is_more = true;
                bring(context, outcome, buffers, turn);
            });
        }
        let recorder = turn.recorder();
        if callers.is_dirty() {
            callers.settle(turn.registry(), &mut |record, written| {
                if let Some(mut record) = record {
                    recorder.record_sealed(&mut record, written);
                }
            });
        }
        for mut record in callers.take_unsent().flatten() {
            record.facts.outcome = End::ClientGone as u8;
            recorder.record_sealed(&mut record, recorder.now());
        }
        is_more
    }

    /// Answers an ask that another thread has served.
    pub(crate) fn finish(&mut self, served: ServedRequest, turn: &LinkContext<'_, LoopMessage>) {
        self.owner.finish(served, &mut self.callers, turn);
    }

    /// Keeps the buffer of a reply's body, up to the limits, for the payload of another one.
    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS_KEPT && (1..=BUFFER_BYTES_KEPT).contains(&buffer.capacity())
        {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Makes the cluster require its secret from peers, if clients need credentials.
    fn require_secret(&self) {
        if self.accounts.is_enforced() {
            self.cluster.require_secret();
        }
    }

    /// Asks other nodes for the pages that ranges need next.
    fn ask_for_pages(&mut self, turn: &mut LinkContext<'_, LoopMessage>) {
        let peers = &mut self.peers;
        self.ranges.retain(|(ticket, range)| {
            let Some(kept) = range.upgrade() else { return false };
            let mut pages = kept.lock();
            let mut failed = false;
            // The range reads the pages of this node itself.
            let own = self.cluster.own();
            for node in pages.wanted().into_iter().filter(|node| *node != own) {
                let context = Context::Range(*ticket, Weak::clone(range), node);
                failed |= !pages.ask(node, |ask| peers.ask(node, ask, context));
            }
            if failed {
                turn.go_on(*ticket);
            }
            true
        });
    }

    /// Begins the replies of ranges whose first pages are here, one of whose nodes has failed, or
    /// whose client is gone. Returns true if there are any.
    fn begin_replies(&mut self, turn: &mut LinkContext<'_, LoopMessage>) -> bool {
        let mut has_begun = false;
        let is_due = |range: &mut WaitingRange| {
            range.client.is_gone() || range.body.entries().are_here() != Ok(false)
        };
        for range in self.waiting_ranges.extract_if(.., is_due) {
            let WaitingRange { ticket, mut body, put_down, .. } = range;
            put_down.end_by_chance(WAITS_ONE_IN);
            let first = body.entries().are_here();
            let reply = match first {
                // A client that has only closed its sending side gets this.
                Ok(false) => Err(StoreError::Unreachable("the client is gone".to_owned())),
                first => first.map(|_| Reply::streamed(body.form().content_type(), body)),
            };
            let made = DeferredReply::of(reply.map_err(Failure::Store));
            turn.complete(ticket, LoopMessage::Made(Box::new(made)));
            has_begun = true;
        }
        has_begun
    }
}

/// The ranges that want their next page from the node `own`, which is this one.
fn own_pages_wanted(
    ranges: &[(Ticket, Weak<Mutex<RangePages>>)],
    own: usize,
) -> impl Iterator<Item = Ticket> + '_ {
    let is_wanted = move |(_, range): &&(Ticket, Weak<Mutex<RangePages>>)| {
        let pages = range.upgrade();
        pages.is_some_and(|pages| pages.lock().wanted().contains(&own))
    };
    ranges.iter().filter(is_wanted).map(|(ticket, _)| *ticket)
}

/// Passes the outcome of an ask to the request or range that waits for it.
fn bring(
    context: Context,
    outcome: Outcome<'_>,
    buffers: &mut Vec<Vec<u8>>,
    turn: &mut LinkContext<'_, LoopMessage>,
) {
    match context {
        Context::Request(ticket, request, put_down) => {
            let mut payload = Vec::new();
            let result = match outcome {
                Outcome::Failed(failure) => Err(failure),
                Outcome::Answered(answer, times) => {
                    if !answer.payload.is_empty() {
                        payload = buffers.pop().unwrap_or_default();
                        payload.extend_from_slice(answer.payload);
                    }
                    Ok(OwnerAnswer::new(&answer, times))
                }
            };
            turn.complete(
                ticket,
                LoopMessage::Forwarded(OwnerReply { request, put_down, result, payload }),
            );
        }
        Context::Range(ticket, range, node) => {
            // If the client is gone, the range has been dropped.
            let Some(range) = range.upgrade() else { return };
            let mut pages = range.lock();
            pages.bring(node, outcome);
            drop(pages);
            turn.go_on(ticket);
        }
    }
}
