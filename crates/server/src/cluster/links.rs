//! The links of one event loop: its connections to peers, and the connections of peers to it
//! ("callers").

use std::io;
use std::sync::{Arc, PoisonError, Weak};

use mio::net::TcpStream;
use pellucid_account::Record;
use pellucid_cluster::{
    Ask, Callers, Cluster, Failure as PeerFailure, Hello, Outcome, OwnerAnswer, PROTOCOL,
    PROTOCOL_OF_ANY_VERSION, Peers, RangePages, UnverifiedCaller,
};
use pellucid_http::{LinkContext, LinkEvent, Messenger, Request, Ticket};
use pellucid_thread::{Mutex, ParkedWork, WaitKind};

use super::owner_reply::{ForwardedRequest, OwnerReply, refusal_of};
use super::serve::Owner;
use super::served_request::ServedRequest;
use crate::answer::{HandlerResult, LoopMessage};
use crate::names::Outcome as End;
use crate::reply::{Body, Failure, Reply};

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

/// The links of one event loop, and the state of the asks on them.
pub(crate) struct Links {
    cluster: Arc<Cluster>,
    peers: Peers<Context>,
    callers: Callers<Option<Record>>,
    messenger: Messenger<LoopMessage>,
    /// The callers that have completed the handshake, but whose connections the transport has not
    /// handed over.
    arriving: Vec<(Ticket, UnverifiedCaller)>,
    ranges: Vec<(Ticket, Weak<Mutex<RangePages>>)>,
    buffers: Vec<Vec<u8>>,
}

fn peer_token(link: usize) -> mio::Token {
    LinkContext::<LoopMessage>::token(link)
}

fn caller_token(slot: usize) -> mio::Token {
    LinkContext::<LoopMessage>::token(CALLERS_AT + slot)
}

impl Links {
    pub(super) fn start(
        cluster: &Arc<Cluster>,
        owner: &Owner,
        turn: &LinkContext<'_, LoopMessage>,
    ) -> io::Result<Links> {
        let clock = owner.observer().account.clock();
        let peers =
            Peers::start(Arc::clone(cluster), clock, turn.index(), turn.registry(), peer_token)?;
        Ok(Links {
            peers,
            callers: Callers::new(Arc::clone(cluster), clock, caller_token),
            cluster: Arc::clone(cluster),
            messenger: turn.messenger(),
            arriving: Vec::new(),
            ranges: Vec::new(),
            buffers: Vec::new(),
        })
    }

    /// Forwards a request to the node with the index `node`, which owns the key.
    ///
    /// # Errors
    /// If the node cannot be reached, or too many asks are in progress with it.
    pub(super) fn forward(
        &mut self,
        node: usize,
        ask: Ask<'_>,
        request: ForwardedRequest,
        ticket: Ticket,
    ) -> Result<(), Failure> {
        let put_down = ParkedWork::put_down(WaitKind::Node);
        let asked = self.peers.ask(node, ask, Context::Request(ticket, request, put_down));
        asked.map_err(|failure| refusal_of(&failure))
    }

    /// Registers a range whose pages are fetched from other nodes as they are needed.
    pub(super) fn follow_range(&mut self, ticket: Ticket, pages: &Arc<Mutex<RangePages>>) {
        self.ranges.push((ticket, Arc::downgrade(pages)));
    }

    /// The number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.cluster.nodes().nodes().len()
    }

    /// The failure of another node that cannot be reached now, if there is one.
    pub(super) fn unreachable(&self) -> Option<PeerFailure> {
        let own = self.cluster.own();
        let mut others = (0..self.nodes()).filter(|node| *node != own);
        others.find_map(|node| self.peers.unreachable(node))
    }

    /// Answers the handshake of a peer that wants to connect.
    ///
    /// # Errors
    /// If the request is no such handshake, or the cluster refuses the peer.
    pub(super) fn welcome(
        &mut self,
        request: &Request<'_>,
        ticket: Ticket,
        may_upgrade: bool,
    ) -> HandlerResult {
        let field = |name: &str| {
            request.header(name).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or("")
        };
        let protocol =
            if request.header_has("upgrade", PROTOCOL) { PROTOCOL } else { field("upgrade") };
        let asks = request.method == "GET" && protocol.starts_with(PROTOCOL_OF_ANY_VERSION);
        if !asks || !may_upgrade {
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
        self.arriving.push((ticket, greeted));
        let reply = Reply::new(101, None, Body::None).with_header("Connection", "Upgrade");
        Ok(reply.with_header("Upgrade", PROTOCOL).with_header("Pellucid-Key", key).into())
    }

    /// Takes over the connection of a peer that has completed the handshake. `unread` are bytes
    /// that the transport has read already.
    pub(super) fn adopt(
        &mut self,
        ticket: Ticket,
        socket: TcpStream,
        unread: Vec<u8>,
        owner: &mut Owner,
        turn: &mut LinkContext<'_, LoopMessage>,
    ) {
        let Some(at) = self.arriving.iter().position(|(known, _)| *known == ticket) else {
            return;
        };
        let (_, greeted) = self.arriving.swap_remove(at);
        if let Some(slot) = self.callers.adopt(socket, greeted, turn.registry()) {
            // If the peer has closed the connection already, the registration causes an event.
            let event = LinkEvent { link: CALLERS_AT + slot, is_read_closed: false };
            self.attend(event, unread, owner, turn);
        }
    }

    /// Handles an event of a link: reads, serves and writes. `unread` are bytes of the link that
    /// were read before.
    pub(super) fn attend(
        &mut self,
        event: LinkEvent,
        unread: Vec<u8>,
        owner: &mut Owner,
        turn: &mut LinkContext<'_, LoopMessage>,
    ) {
        let Links { peers, callers, cluster, messenger, buffers, ranges, .. } = self;
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

    pub(super) fn has_to_settle(&self) -> bool {
        self.peers.is_dirty() || self.callers.is_dirty()
    }

    /// Sends all asks and answers that this wake-up has made. Returns true if that completed
    /// requests.
    pub(super) fn settle(&mut self, turn: &mut LinkContext<'_, LoopMessage>) -> bool {
        if !self.ranges.is_empty() {
            self.ask_for_pages(turn);
        }
        let Links { peers, callers, buffers, .. } = self;
        let mut is_more = false;
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
    pub(super) fn finish(
        &mut self,
        served: ServedRequest,
        owner: &Owner,
        turn: &LinkContext<'_, LoopMessage>,
    ) {
        owner.finish(served, &mut self.callers, turn);
    }

    /// Keeps a payload buffer for reuse, up to the limits.
    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS_KEPT && (1..=BUFFER_BYTES_KEPT).contains(&buffer.capacity())
        {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Asks other nodes for the pages that ranges need next.
    fn ask_for_pages(&mut self, turn: &mut LinkContext<'_, LoopMessage>) {
        let peers = &mut self.peers;
        self.ranges.retain(|(ticket, range)| {
            let Some(kept) = range.upgrade() else { return false };
            let mut pages = kept.lock().unwrap_or_else(PoisonError::into_inner);
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
}

/// The ranges that want their next page from the node `own`, which is this one.
fn own_pages_wanted(
    ranges: &[(Ticket, Weak<Mutex<RangePages>>)],
    own: usize,
) -> impl Iterator<Item = Ticket> + '_ {
    let is_wanted = move |(_, range): &&(Ticket, Weak<Mutex<RangePages>>)| {
        let pages = range.upgrade();
        pages.is_some_and(|pages| {
            pages.lock().unwrap_or_else(PoisonError::into_inner).wanted().contains(&own)
        })
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
            let mut pages = range.lock().unwrap_or_else(PoisonError::into_inner);
            pages.bring(node, outcome);
            drop(pages);
            turn.go_on(ticket);
        }
    }
}
