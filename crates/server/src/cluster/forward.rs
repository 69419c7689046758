//! The entry node's side: requests for keys of others, and what their owners answer.

use pellucid_account::Stamp;
use pellucid_cluster::{
    AnswerStatus, Ask, AskKind, CONTENT_BYTES_MAX, Failure, Hello, PROTOCOL,
    PROTOCOL_OF_ANY_VERSION, TraceOfAsk,
};
use pellucid_http::{Handled, Request, Response};
use pellucid_store::{Acknowledgement, Condition, Head, Object, Value, Written};
use pellucid_thread::{HandedOver, WaitKind};

use super::links::{ARRIVING_MAX, Context};
use super::{Brought, Waiting};
use crate::batch;
use crate::conditions::{KeptConditions, ReadConditions, Verdict};
use crate::entity::{INLINE_VALUE_BYTES_MAX, begin_read};
use crate::follow::Trace;
use crate::names::Operation;
use crate::service::{Api, Loop, WriteReply, busy, respond_text, route};

/// One in so many waits for another node is in the profile of waits: all of them would cost each
/// forwarded request a stack and a lock. How long they took in all, the account knows.
const WAITS_ONE_IN: u32 = 64;

/// The part of a write that its request names beside key and value.
pub(crate) struct AskedWrite {
    pub(crate) condition: Condition,
    pub(crate) lifetime_ms: Option<u64>,
    pub(crate) acknowledgement: Acknowledgement,
}

impl Api {
    /// The place of the node that the key belongs to, unless it is this one.
    #[inline]
    pub(crate) fn elsewhere(&self, key: &[u8]) -> Option<usize> {
        let cluster = self.shared.cluster.as_deref()?;
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
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let (kind, accounted) = match operation {
            Operation::EntityGet => (AskKind::Get, Operation::EntityGetForwarded),
            Operation::EntityHead => (AskKind::Head, Operation::EntityHeadForwarded),
            Operation::EntityPut => (AskKind::Put, Operation::EntityPutForwarded),
            _ => (AskKind::Delete, Operation::EntityDeleteForwarded),
        };
        route(exchange, accounted);
        let is_write = matches!(kind, AskKind::Put | AskKind::Delete);
        let asked = if is_write {
            match self.asked_write(request, kind == AskKind::Put) {
                Ok(asked) => asked,
                Err(what) => return respond_text(response, exchange, 400, &what),
            }
        } else {
            let (condition, acknowledgement) = (Condition::None, Acknowledgement::Memory);
            AskedWrite { condition, lifetime_ms: None, acknowledgement }
        };
        let kept = || {
            let conditions = ReadConditions::of(request);
            (!conditions.are_none()).then(|| Box::new(conditions.kept()))
        };
        let waiting = match kind {
            AskKind::Get => Waiting::Get(kept()),
            AskKind::Head => Waiting::Head(kept()),
            AskKind::Put => Waiting::Write(WriteReply::Put),
            _ => Waiting::Write(WriteReply::Delete),
        };
        let value = if kind == AskKind::Put { request.body } else { b"" };
        self.ask(owner, kind, key, value, asked, waiting, response, exchange)
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one request, borrowed apart")]
    fn ask(
        &mut self,
        owner: usize,
        kind: AskKind,
        key: &[u8],
        value: &[u8],
        asked: AskedWrite,
        waiting: Waiting,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        if key.len() + value.len() > CONTENT_BYTES_MAX {
            let what = format!("what is forwarded may have up to {CONTENT_BYTES_MAX} bytes");
            return respond_text(response, exchange, 413, &what);
        }
        let traced = self.shared.traced.whole_of(exchange.facts.request);
        let trace = traced.as_ref().map(|Trace { context, state }| TraceOfAsk {
            trace: context.trace,
            span: context.span,
            state: state.as_deref().unwrap_or_default(),
        });
        let AskedWrite { condition, lifetime_ms, acknowledgement } = asked;
        let ask = Ask {
            id: 0,
            kind,
            acknowledgement,
            condition,
            lifetime_ms,
            wait_ms: 0,
            trace,
            table: None,
            key,
            value,
        };
        let Some(links) = &mut self.links else {
            return respond_text(response, exchange, 500, "this event loop has no links to peers");
        };
        let put_down = HandedOver::put_down(WaitKind::Node);
        match links.peers.ask(owner, ask, Context::Request(exchange.ticket(), waiting, put_down)) {
            Ok(()) => Handled::Later,
            Err(failure) => failed(&failure, response, exchange),
        }
    }

    /// Forwards a batch whose keys are all one other node's; nothing if they are this one's.
    pub(crate) fn forward_batch(
        &mut self,
        entries: &[batch::Entry],
        acknowledgement: Acknowledgement,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Option<Handled> {
        let cluster = self.shared.cluster.as_deref()?;
        let owner = cluster.owner(entries.first()?.key());
        let other = entries.iter().map(|entry| cluster.owner(entry.key())).find(|o| *o != owner);
        if let Some(other) = other {
            let what = format!(
                "the keys of a batch belong to one node, so that all of it or nothing is written: \
                 these are of {} and {}",
                cluster.url(owner),
                cluster.url(other)
            );
            return Some(respond_text(response, exchange, 400, &what));
        }
        if owner == cluster.own() {
            return None;
        }
        exchange.facts.operation = Operation::EntityBatchForwarded as u8;
        exchange.timeline.set_operation(Operation::EntityBatchForwarded as u8);
        let waiting = Waiting::Write(WriteReply::Batch { entries: entries.len() });
        let asked = AskedWrite { condition: Condition::None, lifetime_ms: None, acknowledgement };
        let (kind, body) = (AskKind::Batch, request.body);
        Some(self.ask(owner, kind, b"", body, asked, waiting, response, exchange))
    }

    /// Answers a request that was forwarded.
    pub(crate) fn brought(
        &mut self,
        brought: Brought,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let Brought { waiting, put_down, result, payload } = brought;
        put_down.end_by_chance(WAITS_ONE_IN);
        let answer = match result {
            Ok(answer) => answer,
            Err(failure) => return failed(&failure, response, exchange),
        };
        if exchange.timeline.is_on() {
            let parts = answer.parts(exchange.timeline.clock());
            parts.iter().for_each(|part| part.add_to(exchange.timeline));
        }
        exchange.timeline.stamp(Stamp::Executed);
        if answer.status == AnswerStatus::NotOwner {
            let what = String::from_utf8_lossy(&payload).into_owned();
            self.shared.log.error(&format!("a forwarded request was not taken: {what}"));
            return respond_text(response, exchange, 500, &what);
        }
        if let Some(error) = answer.error(&payload) {
            return self.store_error(&error, response, exchange);
        }
        let head = answer.head();
        match waiting {
            Waiting::Write(reply) => {
                let written = Written { sequence: answer.sequence };
                self.written(Ok(written), reply, response, exchange);
                Handled::Done
            }
            Waiting::Head(conditions) => {
                let verdict = verdict_of(conditions, head.as_ref());
                self.found_head(Ok(head), verdict, response, exchange)
            }
            Waiting::Get(conditions) => {
                let verdict = verdict_of(conditions, head.as_ref());
                if payload.len() > INLINE_VALUE_BYTES_MAX {
                    let value = Value::Owned(payload);
                    let object = head.map(|head| Object { head, value });
                    return self.found(Ok(object), verdict, response, exchange);
                }
                if begin_read(verdict, head.as_ref(), response, exchange) {
                    response.finish(&payload);
                }
                if let Some(links) = &mut self.links {
                    links.give_back(payload);
                }
                Handled::Done
            }
        }
    }

    /// Takes a peer's connection, or says why not.
    pub(crate) fn welcome_peer(
        &mut self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let Some(links) = &mut self.links else {
            let what = "this node is part of no cluster: start it with --cluster and --advertise";
            return respond_text(response, exchange, 400, what);
        };
        let field = |name: &str| {
            request.header(name).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or("")
        };
        let protocol =
            if request.header_has("upgrade", PROTOCOL) { PROTOCOL } else { field("upgrade") };
        let asks = request.method == "GET" && protocol.starts_with(PROTOCOL_OF_ANY_VERSION);
        if !asks || !exchange.may_upgrade() {
            let what =
                format!("nodes of a cluster meet here by `Upgrade: {PROTOCOL}`, without TLS");
            return respond_text(response, exchange, 400, &what);
        }
        let hello = Hello {
            protocol,
            from: field("pellucid-from"),
            to: field("pellucid-to"),
            key: field("pellucid-key"),
        };
        if self.shared.accounts.is_enforced() {
            links.cluster.require_secret();
        }
        match links.cluster.greet(hello) {
            Err(refused) => respond_text(response, exchange, refused.status, &refused.what),
            Ok((key, greeted)) => {
                if links.arriving.len() >= ARRIVING_MAX {
                    links.arriving.remove(0);
                }
                links.arriving.push((exchange.ticket(), greeted));
                exchange.timeline.stamp(Stamp::Executed);
                response.status(101).header("Connection", b"Upgrade");
                response.header("Upgrade", PROTOCOL.as_bytes());
                response.header("Pellucid-Key", key.as_bytes());
                response.finish_without_body();
                Handled::Upgrade
            }
        }
    }
}

fn verdict_of(conditions: Option<Box<KeptConditions>>, head: Option<&Head>) -> Verdict {
    conditions.map_or(Verdict::Proceed, |conditions| conditions.judge(head))
}

/// Answers that the owner has not.
fn failed(failure: &Failure, response: &mut Response<'_>, exchange: &mut Loop<'_>) -> Handled {
    match failure {
        Failure::Full { .. } => busy(response, exchange, &failure.to_string()),
        _ => respond_text(response, exchange, 504, &failure.to_string()),
    }
}
