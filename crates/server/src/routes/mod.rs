//! The table of routes: of each method and path the operation that it is accounted for as, the
//! right that it needs, how long its body may be, the thread that it runs on, and its handler.
//!
//! A request's path is looked at in one place, [`Target::of`]. All decisions about a request are
//! read from the row that is found there: limits of bodies, authorisation, dispatch and accounting
//! cannot disagree about which path it was.

mod document_routes;
mod methods;
mod need;
mod path;
mod route;
mod server_routes;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use document_routes::{DOCUMENT_ROUTES, DOCUMENTS_BYTES_MAX};
pub(crate) use methods::{Method, Methods};
pub(crate) use need::Need;
pub(crate) use path::{Path, decode};
pub(crate) use route::{
    BodyLimit, CollectionCall, DatabaseCall, Distinction, DocumentHandler, Handler, Missing, Route,
    Runs, ServerCall,
};
pub(crate) use server_routes::{ENTITY_ROUTES, SERVER_ROUTES};
pub(crate) use target::Target;

/// All rows, in the order in which the first that fits is taken.
pub(crate) fn all() -> impl Iterator<Item = &'static Route> {
    DOCUMENT_ROUTES.iter().chain(SERVER_ROUTES).chain(&ENTITY_ROUTES)
}

/// The rows that `/openapi.json` describes. Those that a parameter tells from the next row are one
/// with it.
pub(crate) fn described() -> impl Iterator<Item = &'static Route> {
    let of_documents = DOCUMENT_ROUTES.iter().filter(|route| route.is_described);
    let others = ENTITY_ROUTES.iter().chain(SERVER_ROUTES);
    others.filter(|route| route.parameter.is_none()).chain(of_documents)
}
