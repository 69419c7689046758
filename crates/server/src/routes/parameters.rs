//! The parameters of routes, in queries and headers.

use pellucid_account::WINDOW_SECONDS_MAX;
use pellucid_profile::HERTZ_MAX;
use pellucid_store::KEY_LENGTH_MAX;
use serde_json::{Value, json};

use crate::admin::{TRACE_REQUESTS_MAX, TRACE_SECONDS_MAX};
use crate::entities::{LIFETIME_SECONDS_MAX, NAME_PATTERN};
use crate::names::NAMES;
use crate::openapi::schema::{at_least, between, flag, number, number_to, one_of, text};
use crate::profiles::{BYTES_MIN, FORMATS, ONE_IN_MAX, SECONDS_MAX};

/// A parameter in the query or in a header.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
    pub(crate) about: &'static str,
    pub(crate) is_required: bool,
    pub(crate) form: SchemaFunction,
}

/// A function that makes the schema of a parameter, for a store that keeps `copies` copies.
pub(crate) type SchemaFunction = fn(copies: u32) -> Value;

const fn query(name: &'static str, about: &'static str, form: SchemaFunction) -> Parameter {
    Parameter { name, place: "query", about, is_required: false, form }
}

const fn header(name: &'static str, about: &'static str, form: SchemaFunction) -> Parameter {
    Parameter { name, place: "header", about, is_required: false, form }
}

const fn required(parameter: Parameter) -> Parameter {
    Parameter { is_required: true, ..parameter }
}

pub(super) const KEY: Parameter =
    required(query("id", "The key, percent-encoded; 1 to 1,024 bytes.", |_| key()));
pub(crate) const TABLE: Parameter =
    query("table", "The table; `entities` unless it is given.", |_| table_name());
pub(super) const LIFETIME: Parameter =
    query("ttl", "Seconds after which the entity is gone.", |_| number_to(LIFETIME_SECONDS_MAX));
pub(super) const SYNC: Parameter = query(
    "sync",
    "An acknowledged write survives the process (`os`) or the machine (`disk`).",
    |_| one_of(&["memory", "os", "disk"]),
);
pub(super) const ACK: Parameter =
    query("ack", "So many copies have answered; with `from`.", |copies| between(1, copies));
pub(super) const FROM: Parameter =
    query("from", "Of so many copies; with `ack`.", |copies| between(1, copies));
pub(super) const READ_IF: [Parameter; 2] = [
    header("If-Match", "Only if it is one of these revisions.", |_| text()),
    header("If-None-Match", "Only if it is none of these revisions.", |_| text()),
];
pub(super) const WRITE_IF: [Parameter; 2] = [
    header("If-Match", "Only if the entity has this revision, or with `*` any.", |_| {
        let revision = r#"^(?:W/)?"[!#-+.-~-]*"$"#;
        json!({ "type": "string", "anyOf": [{ "enum": ["*"] }, { "pattern": revision }] })
    }),
    header("If-None-Match", "Only if there is no such entity; without `If-Match`.", |_| {
        one_of(&["*"])
    }),
];

pub(super) const RANGE: &[Parameter] = &[
    required(query("start", "The first key, percent-encoded.", |_| border())),
    query("end", "The key before which the range ends.", |_| border()),
    query("limit", "Most entities.", |_| at_least(0)),
    query("reverse", "From the last to the first.", |_| flag()),
    query("cluster", "The ranges of all nodes.", |_| flag()),
    TABLE,
    ACK,
    FROM,
];

pub(super) const CHANGES: &[Parameter] = &[
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
];

pub(super) const ACCOUNT: &[Parameter] =
    &[query("window", "Of so many last seconds.", |_| between(1, WINDOW_SECONDS_MAX))];

pub(super) const SLOW: &[Parameter] = &[
    query("limit", "Most requests in each list of an operation.", |_| at_least(0)),
    query("operation", "Of this operation alone.", |_| one_of(NAMES.operations)),
];

pub(super) const INTERFERENCE: &[Parameter] =
    &[query("since", "All since the start; else the last ten minutes.", |_| one_of(&["start"]))];

pub(super) const TRACE: &[Parameter] = &[
    query("seconds", "So far back.", |_| between(1, TRACE_SECONDS_MAX)),
    query("requests", "Most requests, the newest.", |_| between(1, TRACE_REQUESTS_MAX)),
];

pub(super) const RATES: &[Parameter] = &[
    query("hz", "Samples of processor time per second and thread, or none.", |_| {
        between(0, HERTZ_MAX)
    }),
    query(
        "bytes",
        "Bytes between two sampled allocations, or none sampled.",
        |_| json!({ "type": "integer", "anyOf": [{ "const": 0 }, at_least(BYTES_MIN)] }),
    ),
    query("wait_ns", "Nanoseconds from which on each wait is kept.", |_| between(1, ONE_IN_MAX)),
    query("holders", "Waits of which one has its holder's stack taken.", |_| {
        between(1, ONE_IN_MAX)
    }),
];

pub(super) const PROFILE: &[Parameter] = &[
    query("format", "`pb` unless it is given.", |_| one_of(&FORMATS)),
    query("seconds", "Seconds to record, without `from` and `to`.", |_| number_to(SECONDS_MAX)),
    query("from", "Of the past, from this many seconds ago, as -60.", |_| number()),
    query("to", "Until this many seconds ago.", |_| number()),
    query("base", "Show the difference to another stretch, as -120..-60.", |_| text()),
    query("op", "Of this operation alone.", |_| one_of(NAMES.operations)),
    query("phase", "Of this phase alone.", |_| text()),
    query("hz", "Samples per second while it is recorded.", |_| between(1, HERTZ_MAX)),
];

fn key() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": KEY_LENGTH_MAX })
}

fn border() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

fn table_name() -> Value {
    json!({ "type": "string", "pattern": NAME_PATTERN })
}
