"""Hooks for Schemathesis, beside /openapi.json: writing and reading NDJSON, rules between parameters
that OpenAPI cannot express, and limits that keep requests from waiting.
"""

import itertools
import json

import schemathesis

LINES = "application/x-ndjson"
FORMATS = itertools.cycle(["pb", "folded", "svg", "html", "shares"])
RECORDING_SECONDS = 0.05


@schemathesis.serializer(LINES)
def write_lines(_context, value):
    lines = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(line) for line in lines).encode()


@schemathesis.deserializer(LINES)
def read_lines(_context, response):
    return [json.loads(line) for line in response.content.splitlines()]


@schemathesis.hook
def before_call(_context, case, _kwargs):
    RULES.get(case.operation.label, lambda case: None)(case)
    if is_valid(case) and ("ack" in case.query or "from" in case.query):
        case.query |= {"ack": 1, "from": 1}


def is_valid(case):
    return case.meta is None or case.meta.generation.mode.is_positive


def write(case):
    if is_valid(case) and "If-Match" in case.headers:
        case.headers.pop("If-None-Match", None)


def entities(case):
    # Try both forms of a range. OpenAPI cannot describe the header `Accept`.
    case.headers["Accept"] = LINES if len(repr(case.query)) % 2 else "*/*"


def changes(case):
    # A stream that follows does not end.
    if str(case.query.get("follow", False)).strip("[]'").lower() in ("", "1", "true"):
        case.query["follow"] = "false"
    if is_valid(case):
        case.query.setdefault("since", 0)
        case.query.pop("table" if "collection" in case.query else "database", None)


def profile(case):
    query = case.query
    if is_valid(case):
        query.setdefault("format", next(FORMATS))
        if "from" in query or "to" in query:
            query.pop("seconds", None)
            query |= {"from": -60, "to": -30}
            if "base" in query:
                query["base"] = "-120..-90"
            return
        query.pop("base", None)
    # Without `seconds`, a valid request would record processor time for 30 seconds.
    seconds = str(query.get("seconds", 1)).strip("[]'")
    if seconds.replace(".", "", 1).isdecimal() and float(seconds) <= 300:
        query["seconds"] = min(float(seconds), RECORDING_SECONDS)


def rates(case):
    if is_valid(case):
        case.query.setdefault("hz", 19)


RULES = {
    "PUT /v0/entity": write,
    "DELETE /v0/entity": write,
    "GET /v0/entities": entities,
    "GET /v0/changes": changes,
    "GET /debug/pprof/{profile}": profile,
    "PUT /debug/pprof/rates": rates,
}
