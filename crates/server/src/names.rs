//! Names of operations, outcomes and parts in the account, and of the entity API's table.

use pellucid_account::{Names, Part};
use pellucid_cluster::FORWARD_PARTS;
use pellucid_http::{AbortReason, Refusal};
use pellucid_store::Store;

/// The name of the table behind the entity API.
pub(crate) const ENTITIES: &str = "entities";

/// Defines an enum, numbered from zero, and the list of its variants' names.
macro_rules! named {
    ($(#[$about:meta])* $kind:ident, $names:ident {
        $($(#[$each_about:meta])* $each:ident = $name:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum $kind { $($(#[$each_about])* $each,)* }

        const $names: &[&str] = &[$($name),*];
    };
}

named! {
    /// A kind of request.
    Operation, OPERATIONS {
        EntityGet = "entity_get",
        EntityHead = "entity_head",
        EntityPut = "entity_put",
        EntityDelete = "entity_delete",
        EntityRange = "entity_range",
        EntityBatch = "entity_batch",
        Status = "status",
        Admin = "admin",
        /// A path or method that the server does not have.
        Unknown = "unknown",
        /// A request that the transport refused before it was understood.
        Refused = "refused",
        /// The server's version: `/_api/version`.
        Version = "version",
        DocumentRead = "document_read",
        DocumentWrite = "document_write",
        /// Several documents in an array.
        DocumentArray = "document_array",
        Import = "import",
        /// A query, or a question about one.
        Query = "query",
        /// A request for a further batch of a query's result.
        Cursor = "cursor",
        /// Databases, collections and indexes.
        Catalogue = "catalogue",
        /// Users and log-ins.
        Access = "access",
        /// The document API's pages about the server, and refusals of what it lacks.
        About = "about",
        /// Requests for keys that another node owns, as the entry node accounts for them.
        EntityGetForwarded = "entity_get_forwarded",
        EntityHeadForwarded = "entity_head_forwarded",
        EntityPutForwarded = "entity_put_forwarded",
        EntityDeleteForwarded = "entity_delete_forwarded",
        EntityBatchForwarded = "entity_batch_forwarded",
        /// Requests that an entry node has forwarded, as the owner accounts for them.
        PeerGet = "peer_get",
        PeerHead = "peer_head",
        PeerPut = "peer_put",
        PeerDelete = "peer_delete",
        PeerBatch = "peer_batch",
        PeerRange = "peer_range",
        EntityMultiGet = "entity_multi_get",
        /// A stream of the writes of entities or of a collection; it lasts as long as the client
        /// follows.
        Changes = "changes",
    }
}

named! {
    /// The end of a request.
    Outcome, OUTCOMES {
        Ok = "ok",
        Missing = "missing",
        NotModified = "not_modified",
        PreconditionFailed = "precondition_failed",
        /// A fault of the client: any other status from 400 to 499.
        Rejected = "rejected",
        /// A fault of the server: any other status from 500 on.
        Failed = "failed",
        /// Refused because too much work was in progress.
        Overloaded = "overloaded",
        /// The client was gone before it had its response.
        ClientGone = "client_gone",
        /// The server closed the connection, or reset the stream, before the response was sent.
        Cut = "cut",
        /// The request was not received, or its response not sent, within its time limit.
        TimedOut = "timed_out",
    }
}

/// Refuses an unknown name of an operation.
pub(crate) fn check_operation(name: &str) -> Result<(), String> {
    match NAMES.operations.contains(&name) {
        true => Ok(()),
        false => Err(format!("there is no operation `{name}`: use {}", OPERATIONS.join(", "))),
    }
}

pub(crate) const NAMES: Names = Names {
    operations: OPERATIONS,
    outcomes: OUTCOMES,
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

/// The names of the account of a server on this store.
pub(crate) fn names_for(store: &dyn Store) -> Names {
    Names { parts: store.properties().part_names, ..NAMES }
}

/// Parsing a query, or finding its earlier parse.
pub(crate) const QUERY_PARSE: Part = Part::new(2);
/// Planning a query, or finding a cached plan that fits.
pub(crate) const QUERY_PLAN: Part = Part::new(3);
/// Running a query, with its reads and writes. The store's parts of that time are shown only for
/// slow queries and for queries that ask for their profile.
pub(crate) const QUERY_RUN: Part = Part::new(5);

/// The parts of the phase `execute` of queries. Their own parts take the slots of store parts that
/// queries do not have.
const QUERY_PARTS: [&str; 8] = [
    "stall", "writer_wait", "query_parse", "query_plan", "journal_append", "query_run",
    "group_wait", "sync",
];

impl Outcome {
    /// The outcome of a request that was answered with `status`.
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

    /// The outcome of a request whose response was not sent completely.
    pub(crate) fn of_ending(ending: AbortReason) -> Outcome {
        match ending {
            AbortReason::ClientGone => Outcome::ClientGone,
            AbortReason::Cut => Outcome::Cut,
            AbortReason::TimedOut => Outcome::TimedOut,
            AbortReason::Failed => Outcome::Failed,
        }
    }
}
