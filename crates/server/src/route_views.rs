//! The table of routes, for tests. This module is no part of the public interface and may change at
//! any time.

/// A row of the table of routes.
#[derive(Clone, Debug)]
pub struct RouteView {
    /// The methods of the row.
    pub methods: Vec<&'static str>,
    /// The path: `{name}` stands for any segment, `*` at the end for any number of segments.
    pub path: String,
    /// The parameter that a request must have for this row.
    pub parameter: Option<&'static str>,
    /// The right that is needed, such as `collection:read`.
    pub need: String,
    /// True for rows of the document API, whose path may follow `/_db/NAME`.
    pub is_of_documents: bool,
}

/// All rows of the table of routes, in their order.
#[must_use]
pub fn routes() -> Vec<RouteView> {
    let view = |route: &crate::routes::Route| RouteView {
        methods: route.methods.iter().map(crate::routes::Method::name).collect(),
        path: format!("/{}", route.path.join("/")),
        parameter: route.parameter.map(crate::routes::ParameterCondition::name),
        need: route.need.to_string(),
        is_of_documents: route.is_of_documents(),
    };
    crate::routes::all().map(view).collect()
}

/// The right that a request needs; for a request without a route it is `account`.
#[must_use]
pub fn need_of(method: &str, path: &str, query: Option<&str>) -> String {
    crate::routes::Target::of(method, path, query).route.need.to_string()
}
