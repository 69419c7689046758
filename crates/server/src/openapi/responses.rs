//! The responses of operations: those of each operation, and refusals that several share.

use serde_json::{Map, Value, json};

use super::schema::{named, text};
use crate::access::Right;
use crate::routes::{Method, RequiredRight, Route};

const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
const BYTES: &str = "application/octet-stream";

/// A refusal that several operations share: its status, name and description.
type Refusal = (u16, &'static str, &'static str);

/// The refusals of the transport, which any request may get.
const OF_ALL: [Refusal; 12] = [
    (400, "Malformed", "The request or a parameter is wrong; the line says which and how."),
    (403, "Forbidden", "The account has no right to it, or a page of another site asks."),
    (408, "TooSlow", "The request was not sent in time."),
    (413, "TooLarge", "The body is larger than it may be."),
    (414, "TargetTooLong", "The request line is too long."),
    (417, "Expectation", "The only expectation known is `100-continue`."),
    (421, "Misdirected", "A server without accounts does not know itself by the name in `Host`."),
    (431, "HeadTooLarge", "The head is too large."),
    (500, "Failed", "A mistake in the server, or damage of its store; the log says more."),
    (501, "Lacking", "This server, or its kind of store, does not have it."),
    (503, "Busy", "Too much is under way, or the store takes no writes now."),
    (505, "Version", "The versions known are HTTP/1.0, HTTP/1.1 and HTTP/2."),
];
/// The refusals of requests that need an account.
const OF_ACCOUNTS: [Refusal; 2] = [
    (401, "Unauthorized", "Credentials are missing or wrong."),
    (429, "TooManyAttempts", "Too many passwords wait to be verified, or were wrong."),
];
/// The refusal of bodies with a content coding.
const OF_BODIES: [Refusal; 1] =
    [(415, "Coded", "The body has a `Content-Encoding` other than `identity`.")];
/// The refusal of operations that read or write the store.
const OF_STORE: [Refusal; 1] = [(504, "Unreachable", "A node that has to answer does not.")];
/// The refusal of writes.
const OF_WRITES: [Refusal; 1] = [(507, "Full", "The disk is full.")];

/// All refusals as components of the document.
pub(super) fn refusals() -> Value {
    let each: [&[Refusal]; 5] = [&OF_ALL, &OF_ACCOUNTS, &OF_BODIES, &OF_STORE, &OF_WRITES];
    let each = each.into_iter().flatten();
    each.map(|(status, name, about)| ((*name).to_owned(), refusal(*status, about)))
        .collect::<Map<_, _>>()
        .into()
}

fn refusal(status: u16, about: &str) -> Value {
    let mut content = content(TEXT, text());
    if matches!(status, 401 | 403 | 421 | 501) {
        // For paths below `/_`, and for collections, it has the document API's form.
        content[JSON] = json!({ "schema": named("Error") });
    }
    let mut response = json!({ "description": about, "content": content });
    match status {
        401 => response["headers"] = headers(&[("WWW-Authenticate", false)]),
        429 | 503 => response["headers"] = headers(&[("Retry-After", false)]),
        415 => response["headers"] = headers(&[("Accept-Encoding", true)]),
        _ => {}
    }
    response
}

/// All responses of an operation.
pub(super) fn of(route: &Route, method: Method) -> Value {
    let is_of_table = route.path == ["v0", "tables", "{table}"];
    let is_of_store = is_of_table || matches!(route.need, RequiredRight::Entities(_));
    let is_write = is_of_table
        || matches!(route.need, RequiredRight::Entities(Right::Write))
        || route.path == ["_admin", "compact"];
    let is_of_backups = matches!(route.path, ["_admin", "backup", ..]);
    let mut responses = Map::new();
    let mut add = |refusals: &[Refusal]| {
        for (status, name, _) in refusals {
            let reference = json!({ "$ref": format!("#/components/responses/{name}") });
            responses.insert(status.to_string(), reference);
        }
    };
    add(&OF_ALL);
    if !route.need.is_open() {
        add(&OF_ACCOUNTS);
    }
    if super::bodies::of(route).is_some() {
        add(&OF_BODIES);
    }
    if is_of_store {
        add(&OF_STORE);
    }
    if is_write {
        add(&OF_WRITES);
    }
    let own = if is_of_backups { of_backups(route, method) } else { own(route, method) };
    for (status, response) in own {
        responses.insert(status.to_string(), response);
    }
    responses.into()
}

/// The responses that only this operation has.
fn own(route: &Route, method: Method) -> Vec<(u16, Value)> {
    match (route.path, method) {
        (["v0", "entity"], Method::Put | Method::Delete) => vec![
            match method {
                Method::Put => (201, with_version(json!({ "description": "Written." }))),
                _ => (202, json!({ "description": "Removed, or not there before." })),
            },
            no_table(),
            (412, answer("A condition does not hold; nothing was changed.", TEXT, text())),
        ],
        (["v0", "entity"], _) => vec![
            (200, with_version(answer("The entity.", BYTES, json!({})))),
            (304, with_version(json!({ "description": "The client has this revision." }))),
            (404, json!({ "description": "There is no such entity, or no such table." })),
            (412, json!({ "description": "A condition does not hold." })),
        ],
        (["v0", "entities"], _) => vec![
            (200, {
                let mut range = answer("The entities.", LINES, named("Entities"));
                range["content"][BYTES] = json!({});
                range
            }),
            no_table(),
        ],
        (["v0", "entities", "get"], _) => {
            vec![(200, answer("A line for each key.", LINES, named("Found"))), no_table()]
        }
        (["v0", "batch"], _) => vec![
            (200, answer("All of it is written.", JSON, named("BatchWritten"))),
            no_table(),
            (412, answer("A condition does not hold; nothing was changed.", TEXT, text())),
        ],
        (["v0", "changes"], _) => changes(),
        (["v0", "tables"], _) => {
            vec![(200, answer("The tables that the caller may read.", JSON, named("Tables")))]
        }
        (["v0", "tables", _], Method::Put) => {
            vec![(200, line("There already.")), (201, line("Made."))]
        }
        (["v0", "tables", _], _) => {
            vec![(200, answer("Emptied.", JSON, named("Emptied"))), no_table()]
        }
        (["v0", "cluster", "peer"], _) => {
            vec![(101, json!({ "description": "The peer protocol begins." }))]
        }
        _ => of_page(route, method),
    }
}

/// The responses of backup calls, whose refusals have the document API's form.
fn of_backups(route: &Route, method: Method) -> Vec<(u16, Value)> {
    let refused = |about: &str| answer(about, JSON, named("Error"));
    // The transport has refusals of its own.
    let or_line = |about: &str| {
        let mut refused = refused(about);
        refused["content"][TEXT] = json!({ "schema": text() });
        refused
    };
    let mut all = vec![
        (400, or_line("The request or the body is wrong; the message says which and how.")),
        (500, or_line("The backups cannot be read or written; the message says why.")),
        (503, or_line("Another backup is made or removed, or too much is under way.")),
    ];
    let done = |schema: &str| answer(route.about, JSON, named(schema));
    match (route.path, method) {
        (["_admin", "backup"], Method::Get) => all.push((200, done("BackupList"))),
        ([.., "list"], _) => {
            all.extend([(200, done("BackupList")), (404, refused("There is no such backup."))]);
        }
        ([.., "delete"], _) => {
            all.extend([(200, done("BackupRemoved")), (404, refused("There is no such backup."))]);
        }
        _ => all.extend([
            (201, done("BackupMade")),
            (409, refused("There is a backup of this name.")),
            (410, refused("It was removed, or the server stopped, while it was made.")),
            (507, refused("The disk is full, or there are as many backups as there may be.")),
        ]),
    }
    all
}

fn changes() -> Vec<(u16, Value)> {
    let mut stream = answer("The writes, in their order.", LINES, named("Changes"));
    stream["content"]["text/event-stream"] = json!({ "schema": text() });
    let (_, mut missing) = no_table();
    missing["content"][JSON] = json!({ "schema": named("Error") });
    let lost = "Not all of them are there any more; the body says which are.";
    vec![(200, stream), (404, missing), (410, answer(lost, JSON, named("ChangesLost")))]
}

/// The responses of the server's own pages.
fn of_page(route: &Route, method: Method) -> Vec<(u16, Value)> {
    let page = |schema: &str| vec![(200, answer(route.about, JSON, named(schema)))];
    match (route.path, method) {
        (["openapi.json"], _) => {
            vec![(200, answer(route.about, JSON, json!({ "type": "object" })))]
        }
        (["v0", "cluster"], _) => page("Cluster"),
        (["_admin", "account"], _) => page("Account"),
        (["_admin", "slow"], _) => page("Slow"),
        (["_admin", "requests"], _) => page("Requests"),
        (["_admin", "interference"], _) => page("Interference"),
        (["_admin", "trace"], _) => page("Trace"),
        (["_admin", "engine"], _) => page("Engine"),
        (["_admin", "compact"], _) => {
            let taken = (409, line("A full merge is under way already."));
            [page("Compacted"), vec![taken]].concat()
        }
        (["debug", "pprof", "rates"], Method::Put) => {
            let lacking = (409, line("Nothing samples processor time here."));
            vec![(200, line(route.about)), lacking]
        }
        (["debug", "pprof", "{profile}"], _) => {
            let mut profile = line(route.about);
            for media_type in [BYTES, "image/svg+xml", "text/html"] {
                profile["content"][media_type] = json!({});
            }
            vec![(200, profile), (404, line("There is no such profile."))]
        }
        _ => vec![(200, line(route.about))],
    }
}

fn no_table() -> (u16, Value) {
    (404, line("There is no such table."))
}

fn line(about: &str) -> Value {
    answer(about, TEXT, text())
}

fn answer(about: &str, media_type: &str, schema: Value) -> Value {
    json!({ "description": about, "content": content(media_type, schema) })
}

fn content(media_type: &str, schema: Value) -> Value {
    json!({ media_type: { "schema": schema } })
}

/// Adds the headers with the revision of the entity to a response.
fn with_version(mut answer: Value) -> Value {
    answer["headers"] = headers(&[("ETag", true), ("Last-Modified", false)]);
    answer
}

fn headers(names: &[(&str, bool)]) -> Value {
    let each = names.iter().map(|(name, is_required)| {
        ((*name).to_owned(), json!({ "required": is_required, "schema": text() }))
    });
    each.collect::<Map<_, _>>().into()
}
