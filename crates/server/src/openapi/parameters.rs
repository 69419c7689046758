//! The parameters of operations, in paths, queries and headers.

use pellucid_account::WINDOW_SECONDS_MAX;
use pellucid_profile::HERTZ_MAX;
use pellucid_store::KEY_LENGTH_MAX;
use serde_json::{Value, json};

use super::schema::{at_least, between, flag, number, number_to, one_of, text};
use crate::admin::{TRACE_REQUESTS_MAX, TRACE_SECONDS_MAX};
use crate::entities::{LIFETIME_SECONDS_MAX, NAME_PATTERN};
use crate::names::NAMES;
use crate::profiles::{BYTES_MIN, FORMATS, ONE_IN_MAX, PROFILES, SECONDS_MAX};
use crate::routes::{Method, Route};

/// A parameter in the query or in a header.
struct Parameter {
    name: &'static str,
    place: &'static str,
    about: &'static str,
    is_required: bool,
    form: SchemaFunction,
}

/// A function that makes the schema of a parameter, for a store that keeps `copies` copies.
type SchemaFunction = fn(copies: u32) -> Value;

const fn query(name: &'static str, about: &'static str, form: SchemaFunction) -> Parameter {
    Parameter { name, place: "query", about, is_required: false, form }
}

const fn header(name: &'static str, about: &'static str, form: SchemaFunction) -> Parameter {
    Parameter { name, place: "header", about, is_required: false, form }
}

const fn required(parameter: Parameter) -> Parameter {
    Parameter { is_required: true, ..parameter }
}

const KEY: Parameter =
    required(query("id", "The key, percent-encoded; 1 to 1,024 bytes.", |_| key()));
const TABLE: Parameter =
    query("table", "The table; `entities` unless it is given.", |_| table_name());
const SYNC: Parameter = query(
    "sync",
    "An acknowledged write survives the process (`os`) or the machine (`disk`).",
    |_| one_of(&["memory", "os", "disk"]),
);
const ACK: Parameter =
    query("ack", "So many copies have answered; with `from`.", |copies| between(1, copies));
const FROM: Parameter =
    query("from", "Of so many copies; with `ack`.", |copies| between(1, copies));
const READ_IF: [Parameter; 2] = [
    header("If-Match", "Only if it is one of these revisions.", |_| text()),
    header("If-None-Match", "Only if it is none of these revisions.", |_| text()),
];
const WRITE_IF: [Parameter; 2] = [
    header("If-Match", "Only if the entity has this revision, or with `*` any.", |_| {
        let revision = r#"^(?:W/)?"[!#-+.-~-]*"$"#;
        json!({ "type": "string", "anyOf": [{ "enum": ["*"] }, { "pattern": revision }] })
    }),
    header("If-None-Match", "Only if there is no such entity; without `If-Match`.", |_| {
        one_of(&["*"])
    }),
];

/// The method and path of an operation, and groups of its parameters.
type Row = (Method, &'static [&'static str], &'static [&'static [Parameter]]);

/// The parameters of all operations that have parameters.
static PARAMETERS: &[Row] = &[
    (Method::Get, &["v0", "entity"], &[&[KEY, TABLE, ACK, FROM], &READ_IF]),
    (Method::Head, &["v0", "entity"], &[&[KEY, TABLE, ACK, FROM], &READ_IF]),
    (
        Method::Put,
        &["v0", "entity"],
        &[
            &[
                KEY,
                TABLE,
                query("ttl", "Seconds after which the entity is gone.", |_| {
                    number_to(LIFETIME_SECONDS_MAX)
                }),
                SYNC,
                ACK,
                FROM,
            ],
            &WRITE_IF,
        ],
    ),
    (Method::Delete, &["v0", "entity"], &[&[KEY, TABLE, SYNC, ACK, FROM], &WRITE_IF]),
    (
        Method::Get,
        &["v0", "entities"],
        &[&[
            required(query("start", "The first key, percent-encoded.", |_| border())),
            query("end", "The key before which the range ends.", |_| border()),
            query("limit", "Most entities.", |_| at_least(0)),
            query("reverse", "From the last to the first.", |_| flag()),
            query("cluster", "The ranges of all nodes.", |_| flag()),
            TABLE,
            ACK,
            FROM,
        ]],
    ),
    (Method::Post, &["v0", "entities", "get"], &[&[TABLE, ACK, FROM]]),
    (Method::Post, &["v0", "batch"], &[&[TABLE, SYNC, ACK, FROM]]),
    (
        Method::Get,
        &["v0", "changes"],
        &[&[
            query(
                "since",
                "The last sequence number that is known, 0 for all changes; left out with \
                 `follow` alone, for those from now on.",
                |_| at_least(0),
            ),
            query("follow", "The stream goes on with what is written later.", |_| flag()),
            query(
                "prefix",
                "Of keys that begin so, percent-encoded.",
                |_| json!({ "type": "string", "maxLength": KEY_LENGTH_MAX }),
            ),
            query("sync", "With `disk`, told once they survive the loss of power.", |_| {
                one_of(&["memory", "os", "disk"])
            }),
            TABLE,
            query(
                "collection",
                "Of the documents of this collection, without `table`.",
                |_| json!({ "type": "string", "minLength": 1 }),
            ),
            query("database", "The database of `collection`; `_system` unless given.", |_| text()),
            header("Last-Event-ID", "As `since`, before which it goes.", |_| at_least(0)),
        ]],
    ),
    (
        Method::Get,
        &["_admin", "account"],
        &[&[query("window", "Of so many last seconds.", |_| between(1, WINDOW_SECONDS_MAX))]],
    ),
    (
        Method::Get,
        &["_admin", "slow"],
        &[&[
            query("limit", "Most requests of an operation.", |_| at_least(0)),
            query("operation", "Of this operation alone.", |_| one_of(NAMES.operations)),
        ]],
    ),
    (
        Method::Get,
        &["_admin", "interference"],
        &[&[query("since", "All since the start; else the last ten minutes.", |_| {
            one_of(&["start"])
        })]],
    ),
    (
        Method::Get,
        &["_admin", "trace"],
        &[&[
            query("seconds", "So far back.", |_| between(1, TRACE_SECONDS_MAX)),
            query("requests", "Most requests, the newest.", |_| between(1, TRACE_REQUESTS_MAX)),
        ]],
    ),
    (
        Method::Put,
        &["debug", "pprof", "rates"],
        &[&[
            query("hz", "Samples of processor time per second and thread, or none.", |_| {
                between(0, HERTZ_MAX)
            }),
            query(
                "bytes",
                "Bytes between two sampled allocations, or none sampled.",
                |_| json!({ "type": "integer", "anyOf": [{ "const": 0 }, at_least(BYTES_MIN)] }),
            ),
            query("wait_ns", "Nanoseconds from which on each wait is kept.", |_| {
                between(1, ONE_IN_MAX)
            }),
            query("holders", "Waits of which one has its holder's stack taken.", |_| {
                between(1, ONE_IN_MAX)
            }),
        ]],
    ),
    (
        Method::Get,
        &["debug", "pprof", "{profile}"],
        &[&[
            query("format", "`pb` unless it is given.", |_| one_of(&FORMATS)),
            query("seconds", "Seconds to record, without `from` and `to`.", |_| {
                number_to(SECONDS_MAX)
            }),
            query("from", "Of the past, from this many seconds ago, as -60.", |_| number()),
            query("to", "Until this many seconds ago.", |_| number()),
            query("base", "Show the difference to another stretch, as -120..-60.", |_| text()),
            query("op", "Of this operation alone.", |_| one_of(NAMES.operations)),
            query("phase", "Of this phase alone.", |_| text()),
            query("hz", "Samples per second while it is recorded.", |_| between(1, HERTZ_MAX)),
        ]],
    ),
];

/// The parameters of an operation.
pub(super) fn of(route: &Route, method: Method, copies: u32) -> Vec<Value> {
    let in_path = route.path.iter().filter(|part| part.starts_with('{')).map(|part| {
        let name = part.trim_matches(['{', '}']);
        let schema = if name == "profile" { one_of(&PROFILES) } else { table_name() };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let others = rows(route, method).map(|parameter| described(parameter, copies));
    in_path.chain(others).collect()
}

fn described(parameter: &Parameter, copies: u32) -> Value {
    let schema = (parameter.form)(copies);
    let mut described = json!({
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.is_required,
        "description": parameter.about,
    });
    if schema == flag() {
        // A flag without a value is true.
        described["allowEmptyValue"] = true.into();
    }
    described["schema"] = schema;
    described
}

fn rows(route: &Route, method: Method) -> impl Iterator<Item = &'static Parameter> {
    let rows = PARAMETERS.iter().filter(move |(of, path, _)| *of == method && *path == route.path);
    rows.flat_map(|(_, _, parameters)| parameters.iter().copied().flatten())
}

fn key() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": KEY_LENGTH_MAX })
}

fn border() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

fn table_name() -> Value {
    json!({ "type": "string", "pattern": NAME_PATTERN })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes;

    #[test]
    fn every_row_of_parameters_has_a_route() {
        for (method, path, _) in PARAMETERS {
            let is_it = |route: &Route| route.path == *path && route.methods.has(*method);
            assert!(routes::described().any(is_it), "{path:?}");
        }
    }

    /// For a route that refuses unknown parameters, exactly the known ones are described.
    #[test]
    fn every_known_parameter_is_described() {
        for route in routes::described() {
            let Some(known) = route.parameters else { continue };
            let mut known = known.to_vec();
            known.sort_unstable();
            for method in route.methods.iter() {
                let described = rows(route, method).filter(|row| row.place == "query");
                let mut described: Vec<_> = described.map(|row| row.name).collect();
                described.sort_unstable();
                assert_eq!(described, known, "{} {:?}", method.name(), route.path);
            }
        }
    }
}
