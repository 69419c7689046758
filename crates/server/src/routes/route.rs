//! A row of the table of routes.

use pellucid_http::Request;

use super::methods::{Method, Methods};
use super::need::Need;
use super::path::Path;
use crate::access::Right;
use crate::admin::AdminApi;
use crate::answer::Handling;
use crate::names::Operation;
use crate::query::flag_of_word;

/// The last part of a path that may have more segments, or none.
const ANY_SEGMENTS: &str = "*";

/// Bytes that bodies of the document API may have, if they have neither documents nor queries.
pub(super) const OTHER_BODY_BYTES_MAX: usize = 1 << 20;

/// A parameter that tells routes of one path apart.
#[derive(Clone, Copy)]
pub(crate) enum Distinction {
    /// A parameter that is present, with or without a value.
    Given(&'static str),
    /// A flag that is present and not false; the handler refuses a word that is neither.
    Set(&'static str),
}

impl Distinction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Distinction::Given(name) | Distinction::Set(name) => name,
        }
    }

    pub(super) fn is_in(self, query: Option<&str>) -> bool {
        let pairs = query.into_iter().flat_map(|query| query.split('&'));
        let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let value = pairs.rfind(|(key, _)| *key == self.name()).map(|(_, value)| value);
        match self {
            Distinction::Given(_) => value.is_some(),
            Distinction::Set(_) => {
                value.is_some_and(|word| !matches!(flag_of_word(word), Ok(None | Some(false))))
            }
        }
    }
}

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) methods: Methods,
    /// The segments: a text, `{name}` for any one, and at the end `*` for any number.
    pub(crate) path: &'static [&'static str],
    /// The parameter that tells the route from the next one of the same path.
    pub(crate) parameter: Option<Distinction>,
    /// The parameters that it knows, where all others are refused.
    pub(crate) parameters: Option<&'static [&'static str]>,
    /// A line of description.
    pub(crate) about: &'static str,
    /// The operation that it is accounted for as.
    pub(crate) operation: Operation,
    pub(crate) need: Need,
    pub(crate) body: BodyLimit,
    pub(crate) runs: Runs,
    /// It needs the catalogue of documents, which a sharded cluster has not.
    pub(crate) needs_documents: bool,
    /// `/openapi.json` has it, though it is of the document API, which ArangoDB describes.
    pub(crate) is_described: bool,
    /// A slash may follow, as it may at all routes of the document API.
    takes_slash: bool,
    pub(crate) handler: Handler,
}

/// The longest body of a request.
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

/// A handler of one of the server's own pages.
pub(crate) type AdminHandler = fn(&AdminApi, &Request<'_>) -> Handling;

/// A handler of profiles, with the name of one and its parameters.
pub(crate) type ProfileHandler = fn(&AdminApi, &str, Option<&str>) -> Handling;

/// The handler of a route.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// One entity, the shortest way.
    Entity,
    /// A range of entities.
    Range,
    /// Several entities by their keys.
    MultiGet,
    /// A batch of writes of entities.
    Batch,
    /// The tables of entities.
    Tables,
    /// The writes of entities, or of a collection, in their order.
    Changes,
    /// Another node that connects.
    Peer,
    Admin(AdminHandler),
    Profile(ProfileHandler),
    /// The methods that browsers may use from pages of other origins.
    Preflight,
    /// The methods of the server (`OPTIONS *`).
    Methods,
    /// A token for a name and a password, which waits for its turn to be verified.
    LogIn,
    Documents(DocumentHandler),
    /// No route, for this reason.
    Missing(Missing),
}

/// A call of the document API, by the object that it is about. The API finds the object and
/// authorises the caller: a handler has no other way to it.
#[derive(Clone, Copy)]
pub(crate) enum DocumentHandler {
    /// About no database.
    Server(ServerCall),
    Database(DatabaseCall),
    Collection(CollectionCall),
}

/// A call about no database.
#[derive(Clone, Copy)]
pub(crate) enum ServerCall {
    Databases,
    Users,
    Version,
    Admin,
    Backups,
    /// Grants of users, which are refused.
    Grants,
    /// A path that lacks something, which is refused with the line of its row.
    Incomplete,
    /// A path that lacks an index.
    BadIndex,
}

/// A call about a database.
#[derive(Clone, Copy)]
pub(crate) enum DatabaseCall {
    Cursors,
    Explain,
    Queries,
    ListCollections,
    CreateCollection,
    Current,
    Unimplemented,
}

/// A call about a collection.
#[derive(Clone, Copy)]
pub(crate) enum CollectionCall {
    /// One document, or an array to insert.
    Document,
    /// An array of documents.
    Array,
    Import,
    Indexes,
    Index,
    Show,
    Change,
    Rename,
    Drop,
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
            parameters: None,
            about,
            operation: Operation::Unknown,
            need: Need::Account,
            body: BodyLimit::Little,
            runs: Runs::AtOnce,
            needs_documents: false,
            is_described: false,
            takes_slash: false,
            handler: Handler::Missing(Missing::Path),
        }
    }

    /// The row of what has no route.
    pub(super) const fn missing(why: Missing) -> Route {
        Route { handler: Handler::Missing(why), ..Route::on(&[], &[], "No route.") }
    }

    pub(super) const fn to(self, need: Need, handler: Handler) -> Route {
        Route { need, handler, ..self }
    }

    pub(super) const fn to_admin(self, need: Need, handler: AdminHandler) -> Route {
        self.to(need, Handler::Admin(handler))
    }

    /// A row of a page that the helper thread makes.
    pub(super) const fn to_page(self, page: AdminHandler) -> Route {
        let route = self.counts_as(Operation::Admin).runs(Runs::OnWorker);
        route.to_admin(Need::Server(Right::Read), page)
    }

    pub(super) const fn to_entity(self, right: Right) -> Route {
        self.to(Need::Entities(right), Handler::Entity)
    }

    pub(super) const fn to_preflight(self) -> Route {
        self.to(Need::Open, Handler::Preflight)
    }

    pub(super) const fn to_log_in(self) -> Route {
        self.with_body(BodyLimit::Little).to(Need::Open, Handler::LogIn)
    }

    /// A row of the document API about no database.
    pub(super) const fn of_server(self, need: Need, call: ServerCall) -> Route {
        self.to(need, Handler::Documents(DocumentHandler::Server(call)))
    }

    /// A row about a database.
    pub(super) const fn of_database(self, right: Right, call: DatabaseCall) -> Route {
        let handler = Handler::Documents(DocumentHandler::Database(call));
        self.for_documents().to(Need::Database(right), handler)
    }

    /// A row about a collection.
    pub(super) const fn of_collection(self, right: Right, call: CollectionCall) -> Route {
        let handler = Handler::Documents(DocumentHandler::Collection(call));
        self.for_documents().to(Need::Collection(right), handler)
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

    pub(super) const fn described(self) -> Route {
        Route { is_described: true, ..self }
    }

    /// A row that refuses all parameters but these.
    pub(super) const fn knows(self, parameters: &'static [&'static str]) -> Route {
        Route { parameters: Some(parameters), ..self }
    }

    /// The method that a handler has to look at: a HEAD is answered as a GET where there is no row
    /// for it.
    pub(crate) fn method_of(&self, asked: Method) -> Method {
        let is_get = asked == Method::Head && !self.methods.has(Method::Head);
        if is_get { Method::Get } else { asked }
    }

    /// A row for requests that have this parameter.
    pub(super) const fn if_given(self, parameter: &'static str) -> Route {
        Route { parameter: Some(Distinction::Given(parameter)), ..self }
    }

    /// A row for requests in which this flag is not off.
    pub(super) const fn if_set(self, flag: &'static str) -> Route {
        Route { parameter: Some(Distinction::Set(flag)), ..self }
    }

    /// It only reads a database or a collection, as its need says.
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

    /// Its path is this one.
    pub(super) fn fits(&self, path: &Path<'_>) -> bool {
        let (parts, is_open_ended) = self.parts();
        let length = path.len();
        (length == parts.len() || is_open_ended && length > parts.len())
            && (self.is_of_documents() || !path.is_in_database())
            && (self.takes_slash || self.is_of_documents() || !path.has_slash())
            && begins_with(path, parts)
    }

    /// Its path is the beginning of this one.
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
