//! Replies to reads and writes of entities, wherever the entities are.

use pellucid_store::{Head, Object, Written};
use serde_json::json;

use super::conditions::{ReadConditions, Verdict};
use crate::reply::{Body, Reply, Version};

const BYTES: &str = "application/octet-stream";

/// The reply to a GET.
pub(crate) fn object_reply(object: Option<Object>, conditions: &ReadConditions) -> Reply {
    let mut reply = read_reply(object.as_ref().map(|object| &object.head), conditions);
    if let (200, Some(object)) = (reply.status, object) {
        reply.body = Body::Value(object.value);
    }
    reply
}

/// The reply to a HEAD.
pub(crate) fn head_reply(head: Option<Head>, conditions: &ReadConditions) -> Reply {
    let mut reply = read_reply(head.as_ref(), conditions);
    if let (200, Some(head)) = (reply.status, head) {
        reply.body = Body::Length(head.value_length);
    }
    reply
}

/// The reply to a read, up to its body.
fn read_reply(head: Option<&Head>, conditions: &ReadConditions) -> Reply {
    let verdict = conditions.judge(head);
    let (status, content_type) = match (verdict, head) {
        (Verdict::PreconditionFailed, _) => (412, None),
        (Verdict::NotModified(_), _) => (304, None),
        (Verdict::Proceed, None) => (404, None),
        (Verdict::Proceed, Some(_)) => (200, Some(BYTES)),
    };
    let mut reply = Reply { content_type, version: head.map(Version::of), ..Reply::empty(status) };
    if let Verdict::NotModified(coding) = verdict {
        reply.body = Body::None;
        if let Some(version) = &mut reply.version {
            version.coding = coding;
        }
    }
    reply
}

/// A kind of write, by which it is replied to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteReply {
    Put,
    Delete,
    Batch { entries: usize },
}

impl WriteReply {
    /// The reply to a write that succeeded.
    pub(crate) fn of(self, Written { sequence }: Written) -> Reply {
        match self {
            WriteReply::Put => {
                let version = Some(Version { sequence, written_at_ms: None, coding: None });
                Reply { version, ..Reply::empty(201) }
            }
            WriteReply::Delete => Reply::empty(202),
            WriteReply::Batch { entries } => {
                Reply::value(200, &json!({ "entries": entries, "last_sequence": sequence }))
            }
        }
    }
}
