//! The decoders of what clients send, for fuzzers: any bytes must be refused or decoded, without a
//! panic. It is no part of the interface and may change any day.

use std::borrow::Cow;

/// Parses the body of `POST /v0/batch` and returns the number of its entries.
///
/// # Errors
/// The refusal that the client would get.
pub fn parse_batch(body: &[u8]) -> Result<usize, String> {
    crate::entities::batch::parse(body).map(|entries| entries.len())
}

/// The value of parameter `name` in a query.
///
/// # Errors
/// The refusal that the client would get.
pub fn query_parameter(query: &str, name: &str) -> Result<Option<Vec<u8>>, String> {
    crate::query::parameter(Some(query), name).map(|value| value.map(Cow::into_owned))
}

/// A row of the table of routes.
#[derive(Clone, Debug)]
pub struct RouteView {
    /// The methods.
    pub methods: Vec<&'static str>,
    /// The path: `{name}` stands for any segment, `*` at the end for any number.
    pub path: String,
    /// The parameter that has to be given.
    pub parameter: Option<&'static str>,
    /// The right that is needed, such as `collection:read`.
    pub need: String,
    /// `/_db/NAME` may stand before the path.
    pub is_of_documents: bool,
}

/// The table of routes.
#[must_use]
pub fn routes() -> Vec<RouteView> {
    let view = |route: &crate::routes::Route| RouteView {
        methods: route.methods.iter().map(crate::routes::Method::name).collect(),
        path: format!("/{}", route.path.join("/")),
        parameter: route.parameter.map(crate::routes::Distinction::name),
        need: route.need.to_string(),
        is_of_documents: route.is_of_documents(),
    };
    crate::routes::all().map(view).collect()
}

/// The right that a request needs by its route, or what there is no route for.
#[must_use]
pub fn need_of(method: &str, path: &str, query: Option<&str>) -> String {
    crate::routes::Target::of(method, path, query).route.need.to_string()
}
