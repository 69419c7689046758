//! A row of the table of routes.

use std::sync::Arc;

use pellucid_document::{Collection, Database};
use pellucid_http::{Handled, Request, Response};

use super::methods::{Method, Methods};
use super::need::Need;
use super::path::Path;
use super::target::Target;
use crate::access::Right;
use crate::documents::{Answer, Calling, DocumentApi};
use crate::names::Operation;
use crate::service::{Api, Loop};

/// The last part of a path that may have more segments, or none.
const ANY_SEGMENTS: &str = "*";

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) methods: Methods,
    /// The segments: a text, `{name}` for any one, and at the end `*` for any number.
    pub(crate) path: &'static [&'static str],
    /// The parameter whose presence tells the route from the next one of the same path.
    pub(crate) parameter: Option<&'static str>,
    /// A line of description.
    pub(crate) about: &'static str,
    /// The operation that it is accounted for as.
    pub(crate) operation: Operation,
    pub(crate) need: Need,
    pub(crate) body: BodyLimit,
    pub(crate) runs: Runs,
    /// Whether there has to be a catalogue of documents, which a sharded cluster has not.
    pub(crate) needs_documents: bool,
    /// Whether a slash may follow, as it may at all routes of the document API.
    takes_slash: bool,
    pub(crate) handler: Handler,
}

/// How long the body of a request may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLimit {
    /// As long as one that is not needed: `OTHER_BODY_BYTES_MAX` of the service.
    Little,
    /// As long as a value of the store.
    Value,
    /// As long as the server's option says of batches.
    Batch,
    /// So many bytes.
    Bytes(usize),
}

/// The thread that a handler runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// The event loop: it waits for nothing, or has another thread wait.
    AtOnce,
    /// The event loop if the body is small, one document, and what it reads in memory; otherwise a
    /// worker.
    IfSmall,
    /// The event loop if it is a query that was planned before and reads little; otherwise a
    /// worker.
    IfPlanned,
    /// A worker, which may block.
    OnWorker,
}

/// A handler of a page that the server shows of itself.
pub(crate) type MakePage = fn(&Api, &Request<'_>, &mut Response<'_>, &mut Loop<'_>) -> Handled;

/// A handler of the entity API and of what else is about the whole server.
pub(crate) type ServerHandler =
    fn(&mut Api, &Target<'_>, &Request<'_>, &mut Response<'_>, &mut Loop<'_>) -> Handled;

/// What answers.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// One entity, the shortest way.
    Entity,
    Server(ServerHandler),
    /// What the server shows of itself.
    Page(MakePage),
    /// The methods that browsers may use from pages of other origins.
    Preflight,
    /// A token for a name and a password, which waits for its turn to be verified.
    LogIn,
    Documents(DocumentHandler),
    /// No route, for this reason.
    Missing(Missing),
}

pub(super) type ServerCallHandler = fn(&Arc<DocumentApi>, Calling<'_>) -> Answer;
pub(super) type DatabaseHandler = fn(&Arc<DocumentApi>, Calling<'_>, &Arc<Database>) -> Answer;
pub(super) type CollectionHandler =
    fn(&Arc<DocumentApi>, Calling<'_>, &Arc<Database>, &Arc<Collection>) -> Answer;

/// A handler of the document API. What it is about comes from [`DocumentApi::answer`], which finds
/// it and judges the caller: a handler has no other way to it.
#[derive(Clone, Copy)]
pub(crate) enum DocumentHandler {
    /// About no database.
    Server(ServerCallHandler),
    Database(DatabaseHandler),
    Collection(CollectionHandler),
}

/// Why there is no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The path is not encoded as it must be.
    Encoding,
    Path,
    /// The path has other methods; it is one of the document API or not.
    Method {
        is_of_documents: bool,
    },
    /// There is a path that this one begins with.
    Superfluous,
}

impl Route {
    /// A row; [`Route::to`] and its like say the rest.
    pub(super) const fn on(
        methods: &[Method],
        path: &'static [&'static str],
        about: &'static str,
    ) -> Route {
        Route {
            methods: Methods::of(methods),
            path,
            parameter: None,
            about,
            operation: Operation::Unknown,
            need: Need::Account,
            body: BodyLimit::Little,
            runs: Runs::AtOnce,
            needs_documents: false,
            takes_slash: false,
            handler: Handler::Missing(Missing::Path),
        }
    }

    /// The row of what has no route.
    pub(super) const fn missing(why: Missing) -> Route {
        Route { handler: Handler::Missing(why), ..Route::on(&[], &[], "No route.") }
    }

    pub(super) const fn to(self, need: Need, handler: ServerHandler) -> Route {
        Route { need, handler: Handler::Server(handler), ..self }
    }

    pub(super) const fn to_page(self, page: MakePage) -> Route {
        let (operation, need) = (Operation::Admin, Need::Server(Right::Read));
        Route { operation, need, runs: Runs::OnWorker, handler: Handler::Page(page), ..self }
    }

    pub(super) const fn to_entity(self, right: Right) -> Route {
        Route { need: Need::Entities(right), handler: Handler::Entity, ..self }
    }

    pub(super) const fn to_preflight(self) -> Route {
        Route { need: Need::Open, handler: Handler::Preflight, ..self }
    }

    pub(super) const fn to_log_in(self) -> Route {
        Route { need: Need::Open, body: BodyLimit::Little, handler: Handler::LogIn, ..self }
    }

    /// A row of the document API about no database.
    pub(super) const fn of_server(self, need: Need, handler: ServerCallHandler) -> Route {
        Route { need, handler: Handler::Documents(DocumentHandler::Server(handler)), ..self }
    }

    /// A row about a database.
    pub(super) const fn of_database(self, right: Right, handler: DatabaseHandler) -> Route {
        let handler = Handler::Documents(DocumentHandler::Database(handler));
        Route { need: Need::Database(right), handler, needs_documents: true, ..self }
    }

    /// A row about a collection.
    pub(super) const fn of_collection(self, right: Right, handler: CollectionHandler) -> Route {
        let handler = Handler::Documents(DocumentHandler::Collection(handler));
        Route { need: Need::Collection(right), handler, needs_documents: true, ..self }
    }

    pub(super) const fn counts_as(self, operation: Operation) -> Route {
        Route { operation, ..self }
    }

    pub(super) const fn with_body(self, body: BodyLimit) -> Route {
        Route { body, ..self }
    }

    pub(super) const fn runs(self, runs: Runs) -> Route {
        Route { runs, ..self }
    }

    pub(super) const fn with_slash(self) -> Route {
        Route { takes_slash: true, ..self }
    }

    pub(super) const fn for_documents(self) -> Route {
        Route { needs_documents: true, ..self }
    }

    pub(super) const fn if_given(self, parameter: &'static str) -> Route {
        Route { parameter: Some(parameter), ..self }
    }

    /// Whether it only reads a database or a collection, as its need says.
    pub(crate) fn reads(&self) -> bool {
        matches!(self.need, Need::Collection(Right::Read) | Need::Database(Right::Read))
    }

    pub(crate) fn is_of_documents(&self) -> bool {
        matches!(self.handler, Handler::Documents(_) | Handler::Preflight | Handler::LogIn)
    }

    pub(super) fn is_preflight(&self) -> bool {
        matches!(self.handler, Handler::Preflight)
    }

    /// The place of the segment that `name` stands for.
    pub(crate) fn place_of(&self, name: &str) -> Option<usize> {
        self.path.iter().position(|part| *part == name)
    }

    /// Whether its path is this one.
    pub(super) fn fits(&self, path: &Path<'_>) -> bool {
        let (parts, is_open_ended) = self.parts();
        let length = path.len();
        (length == parts.len() || is_open_ended && length > parts.len())
            && (self.is_of_documents() || !path.is_in_database())
            && (self.takes_slash || self.is_of_documents() || !path.has_slash())
            && begins_with(path, parts)
    }

    /// Whether its path is the beginning of this one.
    pub(super) fn fits_beginning(&self, path: &Path<'_>) -> bool {
        let (parts, is_open_ended) = self.parts();
        !is_open_ended && path.len() > parts.len() && begins_with(path, parts)
    }

    fn parts(&self) -> (&'static [&'static str], bool) {
        match self.path.split_last() {
            Some((&ANY_SEGMENTS, parts)) => (parts, true),
            _ => (self.path, false),
        }
    }
}

fn begins_with(path: &Path<'_>, parts: &[&str]) -> bool {
    let is_any = |part: &str| part.starts_with('{');
    let mut numbered = parts.iter().enumerate();
    numbered.all(|(place, part)| is_any(part) || path.segment(place) == Some(part))
}
