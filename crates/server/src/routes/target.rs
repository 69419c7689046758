//! The route of a request, together with the names in its path.

use super::methods::{Method, Methods};
use super::path::Path;
use super::required_right::RequiredRight;
use super::route::{BodyLimit, Handler, MissingRoute, OTHER_BODY_BYTES_MAX, Route};
use super::{DOCUMENT_ROUTES, ENTITY_ROUTES, SERVER_ROUTES, all};
use crate::names::Operation;

/// The path of entities. It is compared first, because most requests have it.
const ENTITY_PATH: &str = "/v0/entity";

static OPTIONS: Route = Route::on(&[Method::Options], &[], "Tells the methods of the server.")
    .counts_as(Operation::Status)
    .to(RequiredRight::Open, Handler::Methods);
static NO_PATH: Route = Route::missing(MissingRoute::Path);
static NO_ENCODING: Route = Route::missing(MissingRoute::Encoding);
static NO_END: Route = Route::missing(MissingRoute::Superfluous);
/// A wrong method gets the refusal of a wrong method even if the body is as long as a right one's
/// may be.
static NO_METHOD: Route =
    Route::missing(MissingRoute::Method { is_of_documents: false }).with_body(BodyLimit::Value);
static NO_DOCUMENT_METHOD: Route = Route::missing(MissingRoute::Method { is_of_documents: true })
    .with_body(BodyLimit::Bytes(OTHER_BODY_BYTES_MAX));

/// The row that was found for a request, and the segments of the path.
#[derive(Clone)]
pub(crate) struct Target<'a> {
    pub(crate) route: &'static Route,
    /// The methods that the path has, if the request's method is not one of them.
    pub(crate) allowed: Methods,
    /// The path in segments; `None` if the route does not need them.
    pub(crate) path: Option<Path<'a>>,
}

impl<'a> Target<'a> {
    /// Finds the route of a request. No other code reads the path to choose a handler.
    #[inline]
    pub(crate) fn of(method: &str, path: &'a str, query: Option<&str>) -> Target<'a> {
        if path != ENTITY_PATH {
            if path == "*" && method == "OPTIONS" {
                return Target::at(&OPTIONS);
            }
            return Target::elsewhere(Method::of(method), path, query);
        }
        let route = match method {
            "GET" => &ENTITY_ROUTES[0],
            "HEAD" => &ENTITY_ROUTES[1],
            "PUT" => &ENTITY_ROUTES[2],
            "DELETE" => &ENTITY_ROUTES[3],
            _ => return Target::elsewhere(Method::of(method), path, query),
        };
        Target::at(route)
    }

    fn at(route: &'static Route) -> Target<'a> {
        Target { route, allowed: Methods::NONE, path: None }
    }

    #[inline(never)]
    fn elsewhere(method: Method, text: &'a str, query: Option<&str>) -> Target<'a> {
        let Some(path) = Path::of(text) else { return Target::at(&NO_ENCODING) };
        // Most of what comes here is for documents.
        let find = |method| {
            let mut routes = DOCUMENT_ROUTES.iter().chain(SERVER_ROUTES).chain(&ENTITY_ROUTES);
            routes.find(|route: &&Route| {
                route.methods.has(method)
                    && route.fits(&path)
                    && route.parameter.is_none_or(|parameter| parameter.is_in(query))
            })
        };
        let found = find(method);
        match found.or_else(|| (method == Method::Head).then(|| find(Method::Get)).flatten()) {
            Some(route) => Target { path: Some(path), ..Target::at(route) },
            None => Target::missing(&path),
        }
    }

    fn missing(path: &Path<'_>) -> Target<'a> {
        let others = || all().filter(|route| route.fits(path) && !route.is_preflight());
        let allowed = others().fold(Methods::NONE, |all, route| all.with(route.methods));
        let allowed = match allowed.has(Method::Get) {
            true => allowed.with(Methods::of(&[Method::Head])),
            false => allowed,
        };
        if allowed != Methods::NONE {
            let is_of_documents = others().all(Route::is_of_documents);
            let route = if is_of_documents { &NO_DOCUMENT_METHOD } else { &NO_METHOD };
            return Target { allowed, ..Target::at(route) };
        }
        let is_longer = |route: &Route| {
            route.is_of_documents() && !route.is_preflight() && route.fits_beginning(path)
        };
        Target::at(if all().any(is_longer) { &NO_END } else { &NO_PATH })
    }

    /// The decoded segment with index `place`, counted from the first one behind the database.
    pub(crate) fn segment(&self, place: usize) -> Option<&str> {
        self.path.as_ref()?.segment(place)
    }
}
