//! What one event loop has of a cluster: connections to peers, and connections of peers.

use std::io;
use std::sync::{Arc, PoisonError, Weak};

use mio::net::TcpStream;
use pellucid_account::Record;
use pellucid_cluster::{Callers, Cluster, Greeted, Outcome, OwnerAnswer, Peers, RangePages};
use pellucid_http::{LinkTurn, Messenger, Ticket};
use pellucid_thread::{HandedOver, Mutex};

use super::serve::{Served, serve};
use super::{Brought, Waiting};
use crate::service::{Api, Later};

/// The number of the link that is a timer.
const TIMER: usize = 0;
/// Numbers of links: up to here those of peers, from here on those of callers.
const CALLERS_AT: usize = 1_000;
/// Callers that have greeted and whose connections are on their way: the transport hands them over
/// within the same wake-up, but for those that are gone.
pub(super) const ARRIVING_MAX: usize = 64;
/// Buffers for payloads that are kept for the next, and how large they may be.
const BUFFERS_KEPT: usize = 64;
const BUFFER_BYTES_KEPT: usize = 64 * 1024;

/// What is remembered of an ask.
pub(super) enum Context {
    /// A request waits for it.
    Request(Ticket, Waiting, HandedOver),
    /// A range does, for its page of this node.
    Range(Ticket, Weak<Mutex<RangePages>>, usize),
}

/// See the module.
pub(crate) struct Links {
    pub(super) cluster: Arc<Cluster>,
    pub(super) peers: Peers<Context>,
    callers: Callers<Option<Record>>,
    messenger: Messenger<Later>,
    /// Connections that are on their way from the transport, and who has greeted on them.
    pub(super) arriving: Vec<(Ticket, Greeted)>,
    pub(super) ranges: Vec<(Ticket, Weak<Mutex<RangePages>>)>,
    buffers: Vec<Vec<u8>>,
}

fn peer_token(link: usize) -> mio::Token {
    LinkTurn::<Later>::token(link)
}

fn caller_token(slot: usize) -> mio::Token {
    LinkTurn::<Later>::token(CALLERS_AT + slot)
}

impl Links {
    fn start(cluster: Arc<Cluster>, api: &Api, turn: &LinkTurn<'_, Later>) -> io::Result<Links> {
        let clock = api.shared.account.clock();
        let peers =
            Peers::start(Arc::clone(&cluster), clock, turn.index(), turn.registry(), peer_token)?;
        Ok(Links {
            peers,
            callers: Callers::new(Arc::clone(&cluster), clock, caller_token),
            cluster,
            messenger: turn.messenger(),
            arriving: Vec::new(),
            ranges: Vec::new(),
            buffers: Vec::new(),
        })
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

/// Brings what became of an ask to whoever waits for it.
fn bring(
    context: Context,
    outcome: Outcome<'_>,
    buffers: &mut Vec<Vec<u8>>,
    turn: &mut LinkTurn<'_, Later>,
) {
    match context {
        Context::Request(ticket, waiting, put_down) => {
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
            turn.complete(ticket, Later::Forwarded(Brought { waiting, put_down, result, payload }));
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

/// What the service does with the links of its loop.
impl Api {
    pub(crate) fn begin_links(&mut self, turn: &mut LinkTurn<'_, Later>) -> io::Result<()> {
        if let Some(cluster) = &self.shared.cluster {
            self.links = Some(Box::new(Links::start(Arc::clone(cluster), self, turn)?));
        }
        Ok(())
    }

    pub(crate) fn link_ready(&mut self, link: usize, turn: &mut LinkTurn<'_, Later>) {
        self.attend_link(link, Vec::new(), turn);
    }

    /// Does what an event of this link asks for, behind what was `unread` of it.
    fn attend_link(&mut self, link: usize, unread: Vec<u8>, turn: &mut LinkTurn<'_, Later>) {
        let Some(links) = self.links.as_deref_mut() else { return };
        let Links { peers, callers, cluster, messenger, buffers, .. } = links;
        if self.shared.accounts.is_enforced() {
            cluster.require_secret();
        }
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
                let (shared, random) = (&self.shared, &mut self.random);
                callers.ready(slot, unread, registry, &mut |reply, ask| {
                    serve(shared, cluster, messenger, random, turn, reply, &ask)
                });
                while let Some(node) = callers.next_met() {
                    peers.retry_soon(node);
                }
            }
        }
    }

    pub(crate) fn has_links_to_settle(&self) -> bool {
        self.links
            .as_deref()
            .is_some_and(|links| links.peers.is_dirty() || links.callers.is_dirty())
    }

    pub(crate) fn settle_links(&mut self, turn: &mut LinkTurn<'_, Later>) -> bool {
        let Some(links) = self.links.as_deref_mut() else { return false };
        if !links.ranges.is_empty() {
            links.ask_for_pages(turn);
        }
        let Links { peers, callers, buffers, .. } = links;
        let mut is_more = false;
        if peers.is_dirty() {
            let registry = turn.registry();
            peers.settle(registry, &mut |context, outcome| {
                is_more = true;
                bring(context, outcome, buffers, turn);
            });
        }
        if callers.is_dirty() {
            let recorder = turn.recorder();
            callers.settle(turn.registry(), &mut |record, written| {
                if let Some(mut record) = record {
                    recorder.record_sealed(&mut record, Some(written));
                }
            });
        }
        is_more
    }

    pub(crate) fn link_told(&mut self, message: Later, turn: &mut LinkTurn<'_, Later>) {
        if let (Some(links), Later::Served(served)) = (self.links.as_deref_mut(), message) {
            let served: Box<Served> = served;
            served.finish(&self.shared, &mut links.callers, turn);
        }
    }

    pub(crate) fn adopt_caller(
        &mut self,
        ticket: Ticket,
        socket: TcpStream,
        unread: Vec<u8>,
        turn: &mut LinkTurn<'_, Later>,
    ) {
        let Some(links) = self.links.as_deref_mut() else { return };
        let Some(at) = links.arriving.iter().position(|(known, _)| *known == ticket) else {
            return;
        };
        let (_, greeted) = links.arriving.swap_remove(at);
        if let Some(slot) = links.callers.adopt(socket, greeted, turn.registry()) {
            self.attend_link(CALLERS_AT + slot, unread, turn);
        }
    }
}
