//! Completions of calls, which handlers return: a reply now, or one after the commit of a write.

use pellucid_document::DocumentError;
use pellucid_store::{DeferredAnswer, Result as StoreResult, WriteOutcome};

use crate::reply::Reply;

/// The result of a handler that only replies.
pub(super) type ReplyResult = Result<Reply, DocumentError>;

/// The completion of a call.
pub(super) enum Completion {
    Reply(Reply),
    /// The reply is made from the store's answer to a write.
    OnCommit(DeferredAnswer<WriteOutcome>, CommitCallback),
}

/// A function that makes the reply from the store's answer.
pub(super) type CommitCallback = Box<dyn FnOnce(StoreResult<WriteOutcome>) -> CommitReply + Send>;

/// The reply to a write that the store has committed or refused.
pub(super) struct CommitReply {
    pub(super) reply: Reply,
    /// True if another writer was faster, so that the call can be retried.
    pub(super) is_conflict: bool,
}

impl From<Reply> for Completion {
    fn from(reply: Reply) -> Completion {
        Completion::Reply(reply)
    }
}
