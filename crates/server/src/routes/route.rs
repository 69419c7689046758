//! A row of the table of routes.

use pellucid_http::Request;

use super::methods::{Method, Methods};
use super::parameters::Parameter;
use super::path::Path;
use super::required_right::RequiredRight;
use crate::access::Right;
use crate::admin::AdminApi;
use crate::answer::HandlerResult;
use crate::names::Operation;
use crate::query::{check_parameters, flag_of_word};

/// The last part of a route's path that stands for any number of segments, also none.
const ANY_SEGMENTS: &str = "*";

/// The longest body of the document API that has neither documents nor queries, in bytes.
pub(super) const OTHER_BODY_BYTES_MAX: usize = 1 << 20;

/// A parameter that distinguishes routes of the same path.
#[derive(Clone, Copy)]
pub(crate) enum ParameterCondition {
    /// The parameter is present, with or without a value.
    Given(&'static str),
    /// The flag is present and not false. The handler refuses a value that is neither true nor
    /// false.
    Set(&'static str),
}

impl ParameterCondition {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ParameterCondition::Given(name) | ParameterCondition::Set(name) => name,
        }
    }

    /// Returns true if `query` selects the route of this parameter.
    pub(super) fn is_in(self, query: Option<&str>) -> bool {
        let pairs = query.into_iter().flat_map(|query| query.split('&'));
        let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let value = pairs.rfind(|(key, _)| *key == self.name()).map(|(_, value)| value);
        match self {
            ParameterCondition::Given(_) => value.is_some(),
            ParameterCondition::Set(_) => {
                value.is_some_and(|word| !matches!(flag_of_word(word), Ok(None | Some(false))))
            }
        }
    }
}

/// A row of the table of routes.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) methods: Methods,
    /// The segments: literal text, `{name}` for any one segment, and at the end `*` for any number
    /// of segments.
    pub(crate) path: &'static [&'static str],
    /// The parameter that distinguishes the route from a later one of the same path.
    pub(crate) parameter: Option<ParameterCondition>,
    /// Groups of the parameters that `/openapi.json` describes.
    pub(crate) parameters: &'static [&'static [Parameter]],
    /// True if other parameters in the query are refused.
    refuses_others: bool,
    /// A description in one line.
    pub(crate) about: &'static str,
    /// The operation under which requests are accounted.
    pub(crate) operation: Operation,
    pub(crate) need: RequiredRight,
    pub(crate) body: BodyLimit,
    pub(crate) runs: HandlerThread,
    /// True if the route needs the documents' catalogue, which a sharded cluster does not have.
    pub(crate) needs_documents: bool,
    /// True for routes of the document API that `/openapi.json` describes. The others are described
    /// by ArangoDB's documentation.
    pub(crate) is_described: bool,
    /// True if the path may end with a slash. Paths of the document API always may.
    takes_slash: bool,
    pub(crate) handler: Handler,
}

/// The longest body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLimit {
    /// The limit for requests that need no body: `OTHER_BODY_BYTES_MAX` of the service.
    Little,
    /// The limit of a value in the store.
    Value,
    /// The limit of batches, an option of the server.
    Batch,
    /// This number of bytes.
    Bytes(usize),
}

/// The thread that a handler runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerThread {
    /// The event loop: the handler never blocks, or hands the blocking work to another thread
    /// itself.
    AtOnce,
    /// The event loop if the body is one small document and the data to read is in memory; a worker
    /// otherwise.
    IfSmall,
    /// The event loop if the query has a cached plan and reads little; a worker otherwise.
    IfPlanned,
    /// A worker, which may block.
    OnWorker,
}

/// A handler of one of the server's own pages.
pub(crate) type AdminHandler = fn(&AdminApi, &Request<'_>) -> HandlerResult;

/// A handler of profiles. It takes the profile's name and the query with the parameters.
pub(crate) type ProfileHandler = fn(&AdminApi, &str, Option<&str>) -> HandlerResult;

/// The handler of a route.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// One entity. The service calls it directly, because it is the most frequent request.
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
    /// A connection of another node.
    Peer,
    Admin(AdminHandler),
    Profile(ProfileHandler),
    /// The methods that browsers may use from pages of other origins.
    Preflight,
    /// The methods of the server (`OPTIONS *`).
    Methods,
    /// A log-in with name and password, which returns a token. Verifying the password takes time,
    /// so it is queued.
    LogIn,
    Documents(DocumentHandler),
    /// There is no route, for this reason.
    Missing(MissingRoute),
}

/// A call of the document API, by the kind of object that it is about. The API finds the object and
/// authorises the caller first; a handler cannot get at the object in another way.
#[derive(Clone, Copy)]
pub(crate) enum DocumentHandler {
    /// A call that is about no database.
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
    /// An incomplete path, which is refused with the description of its row.
    Incomplete,
    /// A path without the name of an index.
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
    ListIndexes,
    CreateIndex,
    ShowIndex,
    DropIndex,
    Show,
    Change,
    Rename,
    Drop,
}

/// The reason why there is no route for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingRoute {
    /// The path's percent-encoding is malformed.
    Encoding,
    /// The path is unknown.
    Path,
    /// The path exists, but not with this method.
    Method {
        /// True if the path belongs to the document API.
        is_of_documents: bool,
    },
    /// The path begins with a known path and has more segments.
    Superfluous,
}

impl Route {
    /// Creates a row with default settings; [`Route::to`] and the methods below change them.
    pub(super) const fn on(
        methods: &[Method],
        path: &'static [&'static str],
        about: &'static str,
    ) -> Route {
        Route {
            methods: Methods::of(methods),
            path,
            parameter: None,
            parameters: &[],
            refuses_others: false,
            about,
            operation: Operation::Unknown,
            need: RequiredRight::Account,
            body: BodyLimit::Little,
            runs: HandlerThread::AtOnce,
            needs_documents: false,
            is_described: false,
            takes_slash: false,
            handler: Handler::Missing(MissingRoute::Path),
        }
    }

    /// A row for requests that have no route, for the reason `why`.
    pub(super) const fn missing(why: MissingRoute) -> Route {
        Route { handler: Handler::Missing(why), ..Route::on(&[], &[], "No route.") }
    }

    pub(super) const fn to(self, need: RequiredRight, handler: Handler) -> Route {
        Route { need, handler, ..self }
    }

    pub(super) const fn to_admin(self, need: RequiredRight, handler: AdminHandler) -> Route {
        self.to(need, Handler::Admin(handler))
    }

    /// Sets a page that a new thread makes.
    pub(super) const fn to_page(self, page: AdminHandler) -> Route {
        self.counts_as(Operation::Admin).to_admin(RequiredRight::Server(Right::Read), page)
    }

    pub(super) const fn to_entity(self, right: Right) -> Route {
        self.to(RequiredRight::Entities(right), Handler::Entity)
    }

    pub(super) const fn to_preflight(self) -> Route {
        self.to(RequiredRight::Open, Handler::Preflight)
    }

    pub(super) const fn to_log_in(self) -> Route {
        self.with_body(BodyLimit::Little).to(RequiredRight::Open, Handler::LogIn)
    }

    /// Sets a call of the document API that is about no database.
    pub(super) const fn of_server(self, need: RequiredRight, call: ServerCall) -> Route {
        self.to(need, Handler::Documents(DocumentHandler::Server(call)))
    }

    /// Sets a call of the document API about a database.
    pub(super) const fn of_database(self, right: Right, call: DatabaseCall) -> Route {
        let handler = Handler::Documents(DocumentHandler::Database(call));
        self.for_documents().to(RequiredRight::Database(right), handler)
    }

    /// Sets a call of the document API about a collection.
    pub(super) const fn of_collection(self, right: Right, call: CollectionCall) -> Route {
        let handler = Handler::Documents(DocumentHandler::Collection(call));
        self.for_documents().to(RequiredRight::Collection(right), handler)
    }

    pub(super) const fn counts_as(self, operation: Operation) -> Route {
        Route { operation, ..self }
    }

    pub(super) const fn with_body(self, body: BodyLimit) -> Route {
        Route { body, ..self }
    }

    pub(super) const fn runs(self, runs: HandlerThread) -> Route {
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

    /// Describes parameters; others are ignored.
    pub(super) const fn takes(self, parameters: &'static [&'static [Parameter]]) -> Route {
        Route { parameters, ..self }
    }

    /// Makes the row refuse all other parameters than these.
    pub(super) const fn knows(self, parameters: &'static [&'static [Parameter]]) -> Route {
        Route { refuses_others: true, ..self.takes(parameters) }
    }

    /// Checks that the row knows all parameters of a query.
    ///
    /// # Errors
    /// If it refuses one; the text names it.
    pub(crate) fn check_query(&self, query: Option<&str>) -> Result<(), String> {
        let known = self.parameters.iter().copied().flatten();
        let known = known.filter(|known| known.place == "query").map(|known| known.name);
        if self.refuses_others { check_parameters(query, known) } else { Ok(()) }
    }

    /// The method that the handler should act on: HEAD counts as GET if the row has no HEAD.
    pub(crate) fn method_of(&self, asked: Method) -> Method {
        let is_get = asked == Method::Head && !self.methods.has(Method::Head);
        if is_get { Method::Get } else { asked }
    }

    /// Restricts the row to requests that have this parameter.
    pub(super) const fn if_given(self, parameter: &'static str) -> Route {
        Route { parameter: Some(ParameterCondition::Given(parameter)), ..self }
    }

    /// Restricts the row to requests in which this flag is present and not false.
    pub(super) const fn if_set(self, flag: &'static str) -> Route {
        Route { parameter: Some(ParameterCondition::Set(flag)), ..self }
    }

    /// Returns true if the row needs only the right to read a database or a collection.
    pub(crate) fn reads(&self) -> bool {
        matches!(
            self.need,
            RequiredRight::Collection(Right::Read) | RequiredRight::Database(Right::Read)
        )
    }

    pub(crate) fn is_of_documents(&self) -> bool {
        matches!(self.handler, Handler::Documents(_) | Handler::Preflight | Handler::LogIn)
    }

    pub(super) fn is_preflight(&self) -> bool {
        matches!(self.handler, Handler::Preflight)
    }

    /// The index of the segment `name`, such as `{collection}`, in the path.
    pub(crate) fn place_of(&self, name: &str) -> Option<usize> {
        self.path.iter().position(|part| *part == name)
    }

    /// Returns true if the row's path matches the whole of `path`.
    pub(super) fn fits(&self, path: &Path<'_>) -> bool {
        let (parts, is_open_ended) = self.parts();
        let length = path.len();
        (length == parts.len() || is_open_ended && length > parts.len())
            && (self.is_of_documents() || !path.is_in_database())
            && (self.takes_slash || self.is_of_documents() || !path.has_slash())
            && begins_with(path, parts)
    }

    /// Returns true if the row's path matches only the beginning of `path`.
    pub(super) fn fits_beginning(&self, path: &Path<'_>) -> bool {
        let (parts, is_open_ended) = self.parts();
        !is_open_ended && path.len() > parts.len() && begins_with(path, parts)
    }

    /// The parts of the path without a `*` at the end, and whether there was one.
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
