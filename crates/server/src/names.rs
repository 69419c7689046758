//! Names: of the kinds of requests in the account, and of the entity API's table.

use pellucid_account::{Names, Part};
use pellucid_cluster::FORWARD_PARTS;
use pellucid_http::{Ending, Refusal};
use pellucid_store::Store;

/// The name of the table behind the entity API.
pub(crate) const ENTITIES: &str = "entities";

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    EntityGet = 0,
    EntityHead = 1,
    EntityPut = 2,
    EntityDelete = 3,
    EntityRange = 4,
    EntityBatch = 5,
    Status = 6,
    Admin = 7,
    /// A path or method that the server does not have.
    Unknown = 8,
    /// A request that the transport refused before it was understood.
    Refused = 9,
    /// The server's version: `/_api/version`.
    Version = 10,
    DocumentRead = 11,
    DocumentWrite = 12,
    /// Several documents in an array.
    DocumentArray = 13,
    Import = 14,
    /// A query, or a question about one.
    Query = 15,
    /// A further batch of a query's result.
    Cursor = 16,
    /// Databases, collections and indexes.
    Catalogue = 17,
    /// Users and log-ins.
    Access = 18,
    /// The document API's pages about the server, and refusals of what it lacks.
    About = 19,
    /// Requests for keys of other nodes of a cluster, as their entry nodes see them.
    EntityGetForwarded = 20,
    EntityHeadForwarded = 21,
    EntityPutForwarded = 22,
    EntityDeleteForwarded = 23,
    EntityBatchForwarded = 24,
    /// Requests that other nodes forward, as the owner sees them.
    PeerGet = 25,
    PeerHead = 26,
    PeerPut = 27,
    PeerDelete = 28,
    PeerBatch = 29,
    PeerRange = 30,
    EntityMultiGet = 31,
    /// The writes of entities or of a collection in their order: as long as the client follows.
    Changes = 32,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Outcome {
    Ok = 0,
    Missing = 1,
    NotModified = 2,
    PreconditionFailed = 3,
    /// The client's fault: any other status from 400 on.
    Rejected = 4,
    /// Ours: a status from 500 on.
    Failed = 5,
    /// Refused because too much was under way.
    Overloaded = 6,
    /// The client was gone before it had its response.
    ClientGone = 7,
    /// The server has cut the connection, or the stream, before the response was out.
    Cut = 8,
    /// The request did not come in, or its response did not get out, within its time.
    TimedOut = 9,
}

/// Refuses an unknown name of an operation.
pub(crate) fn check_operation(name: &str) -> Result<(), String> {
    match NAMES.operations.contains(&name) {
        true => Ok(()),
        false => Err(format!("there is no operation `{name}`: `/_admin/account` names them all")),
    }
}

pub(crate) const NAMES: Names = Names {
    operations: &[
        "entity_get",
        "entity_head",
        "entity_put",
        "entity_delete",
        "entity_range",
        "entity_batch",
        "status",
        "admin",
        "unknown",
        "refused",
        "version",
        "document_read",
        "document_write",
        "document_array",
        "import",
        "query",
        "cursor",
        "catalogue",
        "access",
        "about",
        "entity_get_forwarded",
        "entity_head_forwarded",
        "entity_put_forwarded",
        "entity_delete_forwarded",
        "entity_batch_forwarded",
        "peer_get",
        "peer_head",
        "peer_put",
        "peer_delete",
        "peer_batch",
        "peer_range",
        "entity_multi_get",
        "changes",
    ],
    outcomes: &[
        "ok",
        "missing",
        "not_modified",
        "precondition_failed",
        "rejected",
        "failed",
        "overloaded",
        "client_gone",
        "cut",
        "timed_out",
    ],
    parts: &pellucid_embedded::parts::NAMES,
    other_parts: &[
        (Operation::Query as u8, &QUERY_PARTS),
        (Operation::Cursor as u8, &QUERY_PARTS),
        (Operation::EntityGetForwarded as u8, &FORWARD_PARTS),
        (Operation::EntityHeadForwarded as u8, &FORWARD_PARTS),
        (Operation::EntityPutForwarded as u8, &FORWARD_PARTS),
        (Operation::EntityDeleteForwarded as u8, &FORWARD_PARTS),
        (Operation::EntityBatchForwarded as u8, &FORWARD_PARTS),
    ],
};

/// The names of a server on this store.
pub(crate) fn names_for(store: &dyn Store) -> Names {
    Names { parts: store.properties().part_names, ..NAMES }
}

/// Reading the text of a query, or finding that it was read before.
pub(crate) const QUERY_PARSE: Part = Part::new(2);
/// Planning a query, or finding a plan that serves.
pub(crate) const QUERY_PLAN: Part = Part::new(3);
/// Running a query: reads and writes. The store's own parts of it are told with slow queries, and
/// with those that ask for their profile.
pub(crate) const QUERY_RUN: Part = Part::new(5);

/// The parts of `execute` of queries, in the slots of those of the store that they have not.
const QUERY_PARTS: [&str; 8] = [
    "stall",
    "writer_wait",
    "query_parse",
    "query_plan",
    "journal_append",
    "query_run",
    "group_wait",
    "sync",
];

impl Outcome {
    /// The outcome that a status stands for.
    pub(crate) fn of_status(status: u16) -> Outcome {
        match status {
            304 => Outcome::NotModified,
            404 => Outcome::Missing,
            412 => Outcome::PreconditionFailed,
            503 => Outcome::Overloaded,
            100..400 => Outcome::Ok,
            400..500 => Outcome::Rejected,
            _ => Outcome::Failed,
        }
    }

    pub(crate) fn of_refusal(refusal: &Refusal) -> Outcome {
        match refusal {
            Refusal::TooSlow => Outcome::TimedOut,
            _ => Outcome::of_status(refusal.status()),
        }
    }

    /// The outcome of a request whose response did not get out.
    pub(crate) fn of_ending(ending: Ending) -> Outcome {
        match ending {
            Ending::ClientGone => Outcome::ClientGone,
            Ending::Cut => Outcome::Cut,
            Ending::TimedOut => Outcome::TimedOut,
            Ending::Failed => Outcome::Failed,
        }
    }
}
