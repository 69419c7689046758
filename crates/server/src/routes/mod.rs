//! The table of routes. Each row belongs to one path and some methods. It has the operation under
//! which requests are accounted, the right that they need, the limit of their bodies, the thread
//! that they run on, and their handler.
//!
//! Only [`Target::of`] reads the path of a request. It finds a row, and all decisions about the
//! request come from this row. So body limits, authorisation, dispatch and accounting cannot
//! disagree about the path.

mod document_routes;
mod methods;
mod parameters;
mod path;
mod required_right;
mod route;
mod server_routes;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use document_routes::{DOCUMENT_ROUTES, DOCUMENTS_BYTES_MAX};
pub(crate) use methods::{Method, Methods};
pub(crate) use parameters::{Parameter, TABLE};
pub(crate) use path::{Path, decode};
pub(crate) use required_right::RequiredRight;
pub(crate) use route::{
    BodyLimit, CollectionCall, DatabaseCall, DocumentHandler, Handler, HandlerThread, MissingRoute,
    ParameterCondition, Route, ServerCall,
};
pub(crate) use server_routes::{ENTITY_ROUTES, SERVER_ROUTES};
pub(crate) use target::Target;

/// All rows. The first one that fits a request is taken.
pub(crate) fn all() -> impl Iterator<Item = &'static Route> {
    DOCUMENT_ROUTES.iter().chain(SERVER_ROUTES).chain(&ENTITY_ROUTES)
}

/// The rows that `/openapi.json` describes. A row that differs from the next one only by a
/// parameter is described together with it.
pub(crate) fn described() -> impl Iterator<Item = &'static Route> {
    let of_documents = DOCUMENT_ROUTES.iter().filter(|route| route.is_described);
    let others = ENTITY_ROUTES.iter().chain(SERVER_ROUTES);
    others.filter(|route| route.parameter.is_none()).chain(of_documents)
}
