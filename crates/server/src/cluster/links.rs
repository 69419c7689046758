//! The links of one event loop: its connections to peers, and those of peers to it.

use std::io;
use std::sync::{Arc, PoisonError, Weak};

use mio::net::TcpStream;
use pellucid_account::Record;
use pellucid_cluster::{
    Ask, Callers, Cluster, Failure as PeerFailure, Greeted, Hello, Outcome, OwnerAnswer, PROTOCOL,
    PROTOCOL_OF_ANY_VERSION, Peers, RangePages,
};
use pellucid_http::{LinkTurn, Messenger, Request, Ticket};
use pellucid_thread::{HandedOver, Mutex, WaitKind};

use super::owner_reply::{Forwarded, OwnerReply, refusal_of};
use super::serve::Owner;
use super::served::Served;
use crate::answer::{Handling, Later};
use crate::names::Outcome as End;
use crate::reply::{Body, Failure, Reply};

/// The number of the link that is a timer.
const TIMER: usize = 0;
/// Numbers of links: up to here those of peers, from here on those of callers.
const CALLERS_AT: usize = 1_000;
/// Callers that have greeted and whose connections are on their way: the transport hands them over
/// within the same wake-up, but for those that are gone.
const ARRIVING_MAX: usize = 64;
/// Buffers for payloads that are kept for the next, and how large they may be.
const BUFFERS_KEPT: usize = 64;
const BUFFER_BYTES_KEPT: usize = 64 * 1024;

/// The beginning of an ask, until its answer comes.
enum Context {
    /// A request waits for it.
    Request(Ticket, Forwarded, HandedOver),
    /// A range does, for its page of this node.
    Range(Ticket, Weak<Mutex<RangePages>>, usize),
}

/// See the module.
pub(crate) struct Links {
    cluster: Arc<Cluster>,
    peers: Peers<Context>,
    callers: Callers<Option<Record>>,
    messenger: Messenger<Later>,
    /// Connections on their way from the transport, and the peers that have greeted on them.
    arriving: Vec<(Ticket, Greeted)>,
    ranges: Vec<(Ticket, Weak<Mutex<RangePages>>)>,
    buffers: Vec<Vec<u8>>,
}

fn peer_token(link: usize) -> mio::Token {
    LinkTurn::<Later>::token(link)
}

fn caller_token(slot: usize) -> mio::Token {
    LinkTurn::<Later>::token(CALLERS_AT + slot)
}

impl Links {
    pub(super) fn start(
        cluster: &Arc<Cluster>,
        owner: &Owner,
        turn: &LinkTurn<'_, Later>,
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

    /// Forwards a request to its owner.
    pub(super) fn forward(
        &mut self,
        node: usize,
        ask: Ask<'_>,
        request: Forwarded,
        ticket: Ticket,
    ) -> Result<(), Failure> {
        let put_down = HandedOver::put_down(WaitKind::Node);
        let asked = self.peers.ask(node, ask, Context::Request(ticket, request, put_down));
        asked.map_err(|failure| refusal_of(&failure))
    }

    /// Has the pages of a range asked for, as they are wanted.
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

    /// Takes a peer's connection, or refuses it.
    pub(super) fn welcome(
        &mut self,
        request: &Request<'_>,
        ticket: Ticket,
        may_upgrade: bool,
    ) -> Handling {
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

    /// Takes over the connection of a peer that has greeted.
    pub(super) fn adopt(
        &mut self,
        ticket: Ticket,
        socket: TcpStream,
        unread: Vec<u8>,
        owner: &mut Owner,
        turn: &mut LinkTurn<'_, Later>,
    ) {
        let Some(at) = self.arriving.iter().position(|(known, _)| *known == ticket) else {
            return;
        };
        let (_, greeted) = self.arriving.swap_remove(at);
        if let Some(slot) = self.callers.adopt(socket, greeted, turn.registry()) {
            self.attend(CALLERS_AT + slot, unread, owner, turn);
        }
    }

    /// Does what an event of this link asks for, behind the bytes that were `unread` of it.
    pub(super) fn attend(
        &mut self,
        link: usize,
        unread: Vec<u8>,
        owner: &mut Owner,
        turn: &mut LinkTurn<'_, Later>,
    ) {
        let Links { peers, callers, cluster, messenger, buffers, .. } = self;
        let registry = turn.registry();
        match link.checked_sub(CALLERS_AT) {
            None => {
                if link == TIMER {
                    callers.tick(registry);
                }
                peers.ready(link, registry, &mut |context, outcome| {
                    bring(context, outcome, buffers, turn);
                });
            }
            Some(slot) => {
                callers.ready(slot, unread, registry, &mut |reply, ask| {
                    owner.serve(cluster, messenger, turn, reply, &ask)
                });
            }
        }
    }

    pub(super) fn has_to_settle(&self) -> bool {
        self.peers.is_dirty() || self.callers.is_dirty()
    }

    /// Sends what the wake-up brought. True if that completed requests.
    pub(super) fn settle(&mut self, turn: &mut LinkTurn<'_, Later>) -> bool {
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
    pub(super) fn finish(&mut self, served: Served, owner: &Owner, turn: &LinkTurn<'_, Later>) {
        owner.finish(served, &mut self.callers, turn);
    }

    /// Keeps a buffer for the next payload.
    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS_KEPT && (1..=BUFFER_BYTES_KEPT).contains(&buffer.capacity())
        {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Asks for the pages that ranges want.
    fn ask_for_pages(&mut self, turn: &mut LinkTurn<'_, Later>) {
        let peers = &mut self.peers;
        self.ranges.retain(|(ticket, range)| {
            let Some(kept) = range.upgrade() else { return false };
            let mut pages = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let mut failed = false;
            for node in pages.wanted() {
                let context = Context::Range(*ticket, Weak::clone(range), node);
                failed |= !pages.ask(node, None, |ask| peers.ask(node, ask, context));
            }
            if failed {
                turn.go_on(*ticket);
            }
            true
        });
    }
}

/// Brings the outcome of an ask to the request that waits for it.
fn bring(
    context: Context,
    outcome: Outcome<'_>,
    buffers: &mut Vec<Vec<u8>>,
    turn: &mut LinkTurn<'_, Later>,
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
                Later::Forwarded(OwnerReply { request, put_down, result, payload }),
            );
        }
        Context::Range(ticket, range, node) => {
            // A range whose client has gone wants nothing more.
            let Some(range) = range.upgrade() else { return };
            let mut pages = range.lock().unwrap_or_else(PoisonError::into_inner);
            pages.bring(node, outcome);
            drop(pages);
            turn.go_on(ticket);
        }
    }
}
