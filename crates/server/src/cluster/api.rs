//! The cluster's side of one event loop: forwards requests to peers, and serves requests of peers.

use std::io;
use std::sync::Arc;

use mio::net::TcpStream;
use pellucid_cluster::{Ask, AskKind, AskTrace, CONTENT_BYTES_MAX, Cluster};
use pellucid_http::{LinkContext, LinkEvent, Request, Ticket};
use pellucid_store::Table;

use super::links::Links;
use super::owner_reply::ForwardedRequest;
use super::range::merged_range;
use super::serve::Owner;
use crate::access::Accounts;
use crate::answer::{Answer, HandlerResult, LoopExchange, LoopMessage};
use crate::entities::ranges::{Query, form_of};
use crate::entities::{ReadConditions, WriteParameters, batch};
use crate::names::Operation;
use crate::reply::{Failure, Reply, WriteReply};
use crate::reporter::Trace;
use crate::timing::route;

/// The connections of one event loop with peers, and the state to serve them; without links if the
/// server is no node of a cluster.
pub(crate) struct PeerApi {
    cluster: Option<Arc<Cluster>>,
    accounts: Arc<Accounts>,
    owner: Owner,
    /// The links of this event loop; `None` without a cluster.
    links: Option<Box<Links>>,
}

impl PeerApi {
    pub(crate) fn new(
        cluster: Option<Arc<Cluster>>,
        accounts: Arc<Accounts>,
        owner: Owner,
    ) -> PeerApi {
        PeerApi { cluster, accounts, owner, links: None }
    }

    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_deref()
    }

    /// The index of the node that owns the key; `None` if it is this one, or there is no cluster.
    #[inline]
    pub(crate) fn elsewhere(&self, key: &[u8]) -> Option<usize> {
        let cluster = self.cluster.as_deref()?;
        let owner = cluster.owner(key);
        (owner != cluster.own()).then_some(owner)
    }

    /// Forwards a request for one key to its owner.
    pub(crate) fn forward(
        &mut self,
        operation: Operation,
        owner: usize,
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
            AskKind::Get => ForwardedRequest::Get(ReadConditions::of(request)),
            AskKind::Head => ForwardedRequest::Head(ReadConditions::of(request)),
            AskKind::Put => ForwardedRequest::Write(WriteReply::Put),
            _ => ForwardedRequest::Write(WriteReply::Delete),
        };
        self.ask(owner, ask, forwarded, exchange)
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
        let Some(cluster) = self.cluster.as_deref() else { return Ok(None) };
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

    /// Sends an ask, with the trace of its request, to the node with the index `owner`. The reply
    /// comes later.
    fn ask(
        &mut self,
        owner: usize,
        ask: Ask<'_>,
        forwarded: ForwardedRequest,
        exchange: &LoopExchange<'_>,
    ) -> HandlerResult {
        if ask.key.len() + ask.value.len() > CONTENT_BYTES_MAX {
            let line = format!("what is forwarded may have up to {CONTENT_BYTES_MAX} bytes");
            return Err(Failure::Refused(413, line.into()));
        }
        let traced = self.owner.observer().traced.whole_of(exchange.facts.request);
        let trace = traced.as_ref().map(|Trace { context, state, .. }| AskTrace {
            trace: context.trace,
            span: context.span,
            state: state.as_deref().unwrap_or_default(),
        });
        let Some(links) = &mut self.links else {
            let line = "this event loop has no links to peers";
            return Err(Failure::Refused(500, line.into()));
        };
        links.forward(owner, Ask { trace, ..ask }, forwarded, exchange.ticket())?;
        Ok(Answer::Away)
    }

    /// Takes the buffer of a reply's body back, to reuse it for the payload of another one.
    pub(crate) fn give_back(&mut self, payload: Vec<u8>) {
        if let Some(links) = &mut self.links {
            links.give_back(payload);
        }
    }

    /// Answers with a range over all nodes.
    pub(crate) fn range(
        &mut self,
        query: Query<'_>,
        table: Table,
        request: &Request<'_>,
        exchange: &LoopExchange<'_>,
    ) -> HandlerResult {
        let (Some(cluster), Some(links)) = (&self.cluster, &mut self.links) else {
            return Err("this node is part of no cluster".to_owned().into());
        };
        let (entities, form) = (self.owner.entities(), form_of(request));
        let walk = (query, table, form);
        merged_range(entities, links, walk, cluster.own(), exchange).map(Reply::into)
    }

    /// Answers the handshake of a peer that wants to connect.
    pub(crate) fn welcome(
        &mut self,
        request: &Request<'_>,
        exchange: &LoopExchange<'_>,
    ) -> HandlerResult {
        let Some(links) = &mut self.links else {
            let line = "this node is part of no cluster: start it with --cluster and --advertise";
            return Err(line.to_owned().into());
        };
        require_secret(&self.accounts, self.cluster.as_deref());
        links.welcome(request, exchange.ticket(), exchange.may_upgrade())
    }

    /// Opens the links, when the event loop starts.
    pub(crate) fn begin(&mut self, turn: &LinkContext<'_, LoopMessage>) -> io::Result<()> {
        if let Some(cluster) = &self.cluster {
            self.links = Some(Box::new(Links::start(cluster, &self.owner, turn)?));
        }
        Ok(())
    }

    /// Handles an event of a link.
    pub(crate) fn ready(&mut self, event: LinkEvent, turn: &mut LinkContext<'_, LoopMessage>) {
        require_secret(&self.accounts, self.cluster.as_deref());
        if let Some(links) = &mut self.links {
            links.attend(event, Vec::new(), &mut self.owner, turn);
        }
    }

    /// Takes over the connection of a peer that has completed the handshake.
    pub(crate) fn adopt(
        &mut self,
        ticket: Ticket,
        socket: TcpStream,
        unread: Vec<u8>,
        turn: &mut LinkContext<'_, LoopMessage>,
    ) {
        require_secret(&self.accounts, self.cluster.as_deref());
        if let Some(links) = &mut self.links {
            links.adopt(ticket, socket, unread, &mut self.owner, turn);
        }
    }

    pub(crate) fn has_to_settle(&self) -> bool {
        self.links.as_ref().is_some_and(|links| links.has_to_settle())
    }

    /// Sends all asks and answers that this wake-up has made. Returns true if that completed
    /// requests.
    pub(crate) fn settle(&mut self, turn: &mut LinkContext<'_, LoopMessage>) -> bool {
        self.links.as_mut().is_some_and(|links| links.settle(turn))
    }

    /// Takes the result of a peer's request from another thread, and answers the peer.
    pub(crate) fn told(&mut self, message: LoopMessage, turn: &LinkContext<'_, LoopMessage>) {
        if let (Some(links), LoopMessage::Served(served)) = (&mut self.links, message) {
            links.finish(*served, &self.owner, turn);
        }
    }
}

/// Makes the cluster require its secret from peers, if clients need credentials.
fn require_secret(accounts: &Accounts, cluster: Option<&Cluster>) {
    if let Some(cluster) = cluster
        && accounts.is_enforced()
    {
        cluster.require_secret();
    }
}
