//! Tests of the table of routes: each row can be reached, and each path finds its row.

use crate::names::Operation;

use super::methods::Method;
use super::route::{BodyLimit, Handler, MissingRoute, ParameterCondition};
use super::{Target, all};

/// A path that fits a row, with `tail` in place of `*`.
fn example(parts: &[&str], tail: &str) -> String {
    let part = |part: &&str| match *part {
        "*" => tail.to_owned(),
        part if part.starts_with('{') => "/x".to_owned(),
        part => format!("/{part}"),
    };
    parts.iter().map(part).collect()
}

#[test]
fn every_row_is_found_by_its_path() {
    for route in all() {
        for tail in ["", "/y", "/y/z"] {
            let path = example(route.path, tail);
            for method in route.methods.iter() {
                let found =
                    Target::of(method.name(), &path, route.parameter.map(ParameterCondition::name))
                        .route;
                assert!(
                    std::ptr::eq(found, route),
                    "{} {path} is of {}",
                    method.name(),
                    found.about
                );
            }
        }
    }
}

#[test]
fn a_head_is_accepted_wherever_a_get_is() {
    for route in all().filter(|route| route.methods.has(Method::Get)) {
        let path = example(route.path, "/y");
        let found = Target::of("HEAD", &path, route.parameter.map(ParameterCondition::name)).route;
        assert!(found.path == route.path && found.need.to_string() == route.need.to_string());
        assert!(found.methods.has(found.method_of(Method::Head)), "{path}");
    }
}

#[test]
fn every_row_is_complete() {
    for route in all() {
        let is_open = matches!(route.handler, Handler::Preflight);
        assert!(is_open || route.operation != Operation::Unknown, "{:?}", route.path);
        assert!(!matches!(route.handler, Handler::Missing(_)), "{:?}", route.path);
        assert!(route.about.len() > 10 && route.path.len() <= 6, "{:?}", route.path);
        // Requests without an account never need a large body.
        assert!(!route.need.is_open() || route.body == BodyLimit::Little, "{:?}", route.path);
    }
}

#[test]
fn every_path_needs_the_right_to_its_object() {
    for (method, path, need) in [
        ("GET", "/v0/status", "open"),
        ("GET", "/v0/cluster/peer", "peer"),
        ("GET", "/openapi.json", "account"),
        ("GET", "/v0/entity", "entities:read"),
        ("HEAD", "/v0/entity", "entities:read"),
        ("PUT", "/v0/entity", "entities:write"),
        ("DELETE", "/v0/entity", "entities:write"),
        ("DELETE", "/v0/%65ntity", "entities:write"),
        ("GET", "/v0/entities", "entities:read"),
        ("POST", "/v0/batch", "entities:write"),
        ("GET", "/metrics", "server:read"),
        ("GET", "/debug/pprof", "server:read"),
        ("GET", "/debug/pprof/", "server:read"),
        ("GET", "/debug/pprof/heap", "server:read"),
        ("PUT", "/debug/pprof/rates", "server:write"),
        ("GET", "/_admin/account", "server:read"),
        ("PUT", "/_admin/server/mode", "server:write"),
        ("PUT", "/_admin/compact", "server:write"),
        ("GET", "/_admin/server/role", "account"),
        ("GET", "/_db/x/_admin/server/availability/", "open"),
        ("POST", "/_db/x/_open/auth", "open"),
        ("OPTIONS", "/_api/document", "open"),
        ("GET", "/_api/version", "account"),
        ("GET", "/_db/a%2fb/%5fapi/document/c/k", "collection:read"),
        ("PUT", "/_api/document/c", "collection:write"),
        ("PUT", "/_api/document/c/k", "collection:write"),
        ("GET", "/_api/collection", "database:read"),
        ("POST", "/_api/collection", "database:write"),
        ("PATCH", "/_api/user/ada", "own account:write"),
    ] {
        let target = Target::of(method, path, None);
        assert_eq!(target.route.need.to_string(), need, "{method} {path}");
    }
}

/// Regression: `onlyget` alone made any call count as reading. Only a `PUT` of several documents
/// is.
#[test]
fn a_parameter_distinguishes_reading_from_writing() {
    for (method, path, query, need) in [
        ("PUT", "/_api/document/c", "onlyget=true", "collection:read"),
        ("PUT", "/_api/document/c", "a=1&onlyget", "collection:read"),
        ("PUT", "/_api/document", "collection=c&onlyget=", "collection:read"),
        ("PUT", "/_api/document/c", "", "collection:write"),
        ("PUT", "/_api/document/c", "onlygets=true&a=onlyget", "collection:write"),
        ("PUT", "/_api/document/c", "xonlyget=true&%6fnlyget=true", "collection:write"),
        ("PUT", "/_api/document/c/k", "onlyget=true", "collection:write"),
        ("POST", "/_api/document/c", "onlyget=true", "collection:write"),
        ("PATCH", "/_api/document/c", "onlyget=true", "collection:write"),
    ] {
        let target = Target::of(method, path, Some(query));
        assert_eq!(target.route.need.to_string(), need, "{method} {path} {query}");
    }
}

/// Regression: `/_api/version/x` was answered like `/_api/version`, and `/_open/auth/x` gave a
/// token.
#[test]
fn paths_of_documents_with_more_behind_them_are_refused() {
    let routes = all().filter(|route| route.is_of_documents() && !route.is_preflight());
    // Grants of a user have paths of any length.
    let ends = |path: &[&str]| path.last() != Some(&"*") && path.get(1) != Some(&"user");
    for route in routes.filter(|route| ends(route.path)) {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let path = example(route.path, "") + "/x/y/z/1/2/3";
            let found = Target::of(method, &path, None).route;
            assert!(matches!(found.handler, Handler::Missing(MissingRoute::Superfluous)), "{path}");
        }
    }
}

#[test]
fn a_request_without_a_route_has_a_reason() {
    use MissingRoute::{Encoding, Method, Path, Superfluous};
    let (page, call) = (Method { is_of_documents: false }, Method { is_of_documents: true });
    for (method, path, why, allowed) in [
        ("POST", "/v0/entity", page, "GET, HEAD, PUT, DELETE"),
        ("get", "/v0/entity", page, "GET, HEAD, PUT, DELETE"),
        ("POST", "/v0/status", page, "GET, HEAD"),
        ("DELETE", "/_admin/account", page, "GET, HEAD"),
        ("OPTIONS", "/_admin/account", page, "GET, HEAD"),
        ("POST", "/_admin/slow", page, "GET, HEAD"),
        ("POST", "/_admin/requests", page, "GET, HEAD"),
        ("POST", "/_admin/interference", page, "GET, HEAD"),
        ("POST", "/_admin/trace", page, "GET, HEAD"),
        ("POST", "/_admin/engine", page, "GET, HEAD"),
        ("GET", "/_admin/compact", page, "PUT"),
        ("PUT", "/_api/version", call, "GET, HEAD"),
        ("TRACE", "/_open/auth", call, "POST"),
        ("PUT", "/_api/database", call, "GET, HEAD, POST"),
        ("GET", "/v0/entity/", Path, ""),
        ("GET", "/v0", Path, ""),
        ("GET", "/V0/entity", Path, ""),
        ("GET", "/v0/entity/x", Path, ""),
        ("GET", "/_db/x/v0/entity", Path, ""),
        ("GET", "/_db/x/_admin/account", Path, ""),
        ("GET", "/_db/x/_db/y/_api/version", Path, ""),
        ("GET", "//_db/x//_admin/log", Path, ""),
        ("GET", "/_db/x%2F_open%2Fy", Path, ""),
        ("GET", "/_open/../_api/version", Path, ""),
        ("GET", "/_api", Path, ""),
        ("GET", "*", Path, ""),
        ("GET", "/_api/version/x", Superfluous, ""),
        ("POST", "/_db/x/_open/auth/x", Superfluous, ""),
        ("GET", "/_api/document/c/k/x/y/z/1/2/3", Superfluous, ""),
        ("GET", "/_api/%zz", Encoding, ""),
        ("GET", "/_api/document/c/%C0%AF", Encoding, ""),
    ] {
        let target = Target::of(method, path, None);
        let found = match target.route.handler {
            Handler::Missing(why) => Some(why),
            _ => None,
        };
        assert_eq!(found, Some(why), "{method} {path}");
        assert_eq!(target.allowed.to_string(), allowed, "{method} {path}");
        assert_eq!(target.route.need.to_string(), "account", "{method} {path}");
    }
}
