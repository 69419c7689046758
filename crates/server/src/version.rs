//! `GET /_api/version`: which server this is, in the form that drivers of ArangoDB expect.

use pellucid_account::Stamp;
use pellucid_http::{Handled, Request, Response};

use crate::names::Operation;
use crate::service::{Loop, method_not_allowed, route};
use crate::timing::add_server_timing;

/// The answer. Drivers choose by the number what they may ask for.
const BODY: &[u8] = br#"{"server":"arango","license":"community","version":"3.12.0"}"#;

pub(crate) fn version(
    request: &Request<'_>,
    response: &mut Response<'_>,
    exchange: &mut Loop<'_>,
) -> Handled {
    route(exchange, Operation::Version);
    if request.method != "GET" {
        return method_not_allowed(response, exchange, b"GET");
    }
    exchange.timeline.stamp(Stamp::Executed);
    response.status(200).header("Content-Type", b"application/json");
    add_server_timing(response, exchange.timeline);
    response.finish(BODY);
    Handled::Done
}
