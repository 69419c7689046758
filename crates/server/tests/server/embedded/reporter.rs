//! Slow requests in the log, and traced ones at a collector.

use std::net::TcpListener;
use std::time::Duration;

use crate::common::collector::{collector, spans};
use crate::common::{TestServer, entity, request, serve_with, start_with, wait_for, wait_until};
use pellucid_account::OperationAccount;
use pellucid_server::TraceCollector;
use serde_json::Value;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn unix_ns(span: &Value, name: &str) -> u64 {
    span[name].as_str().unwrap().parse().unwrap()
}

/// The document as the protocol defines it (`opentelemetry/proto/trace/v1/trace.proto` in its JSON
/// form): an unknown member, or one of another type, is an error.
mod otlp {
    use serde::Deserialize;

    macro_rules! messages {
        ($($name:ident { $($(#[$default:meta])? $member:ident: $kind:ty,)* })*) => { $(
            #[derive(Debug, Default, Deserialize)]
            #[serde(rename_all = "camelCase", deny_unknown_fields)]
            pub(super) struct $name { $($(#[$default])? pub(super) $member: $kind,)* }
        )* };
    }

    messages! {
        ExportTraceServiceRequest { resource_spans: Vec<ResourceSpans>, }
        ResourceSpans { resource: Resource, scope_spans: Vec<ScopeSpans>, }
        Resource { attributes: Vec<KeyValue>, }
        ScopeSpans { scope: InstrumentationScope, spans: Vec<Span>, }
        InstrumentationScope { name: String, version: String, }
        Span {
            trace_id: String,
            span_id: String,
            #[serde(default)] trace_state: String,
            #[serde(default)] parent_span_id: String,
            name: String,
            kind: u32,
            start_time_unix_nano: String,
            end_time_unix_nano: String,
            #[serde(default)] attributes: Vec<KeyValue>,
            #[serde(default)] status: Status,
        }
        Status { #[serde(default)] code: u32, }
    }

    impl Span {
        /// The beginning and the end, in nanoseconds since 1970.
        pub(super) fn times(&self) -> (u64, u64) {
            let ns = |text: &String| text.parse().unwrap();
            (ns(&self.start_time_unix_nano), ns(&self.end_time_unix_nano))
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub(super) struct KeyValue {
        pub(super) key: String,
        pub(super) value: AnyValue,
    }

    /// The value of an attribute. 64-bit integers are strings, as everywhere in this form.
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) enum AnyValue {
        StringValue(String),
        IntValue(String),
    }
}

/// Checks the protocol's rules for every span: identifiers are hexadecimal, of 16 and 8 bytes and
/// not zero, times are strings, kinds are numbers.
fn check_span(span: &otlp::Span) {
    let is_identifier = |text: &str, digits: usize| {
        text.len() == digits
            && text.bytes().all(|byte| byte.is_ascii_hexdigit())
            && text.bytes().any(|byte| byte != b'0')
    };
    assert!(is_identifier(&span.trace_id, 32) && is_identifier(&span.span_id, 16), "{span:?}");
    assert!(is_identifier(&span.parent_span_id, 16), "{span:?}");
    let (from, to) = span.times();
    assert!(from <= to && from > 1_600_000_000_000_000_000, "nanoseconds since 1970: {span:?}");
    assert!(!span.name.is_empty() && (1..=5).contains(&span.kind), "{span:?}");
    let keys: std::collections::BTreeSet<&str> =
        span.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    assert_eq!(keys.len(), span.attributes.len(), "no key comes twice: {span:?}");
    for attribute in &span.attributes {
        if let otlp::AnyValue::IntValue(number) = &attribute.value {
            number.parse::<i64>().unwrap_or_else(|_| panic!("{attribute:?}"));
        }
    }
}

#[test]
fn exported_spans_follow_the_protocol_and_have_the_callers_trace() {
    let (url, received) = collector();
    let (_server, mut client) = serve_with(|options| {
        options.export = Some(TraceCollector::to(&url, Some("x-key: secret")).unwrap());
    });
    client.put(&entity("secret-key"), "value");
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers =
        [("traceparent", parent.as_str()), ("tracestate", "rojo=00f067aa"), ("tracestate", "a=1")];
    let answer = client.call("GET", &entity("secret-key"), &headers, b"").having(200);
    assert_eq!(answer.text(), "value");
    let returned = answer.header("traceresponse").unwrap().to_owned();

    let (head, document) = received.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(head.starts_with("POST /v1/traces ") && head.contains("\r\nx-key: secret\r\n"));
    assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
    assert!(!document.to_string().contains("secret-key"), "keys are hashed");
    let request: otlp::ExportTraceServiceRequest = serde_json::from_value(document).unwrap();
    let [of_resource] = &request.resource_spans[..] else { panic!("one resource: {request:?}") };
    let service = of_resource.resource.attributes.iter().find(|found| found.key == "service.name");
    assert_eq!(service.unwrap().value, otlp::AnyValue::StringValue("pellucid".to_owned()));
    let [of_scope] = &of_resource.scope_spans[..] else { panic!("one scope: {request:?}") };
    assert!(!of_scope.scope.name.is_empty() && !of_scope.scope.version.is_empty());
    let spans = &of_scope.spans;
    spans.iter().for_each(check_span);
    let (own, phases) = spans.split_first().unwrap();
    assert_eq!((own.parent_span_id.as_str(), own.kind), (PARENT, 2), "a server's span");
    assert_eq!(own.name, "entity_get");
    assert_eq!(returned, format!("00-{TRACE}-{}-01", own.span_id));
    assert!(phases.len() >= 3, "{phases:?}");
    for name in ["execute", "write"] {
        assert!(phases.iter().any(|phase| phase.name == name), "{name}: {phases:?}");
    }
    let (from, to) = own.times();
    for phase in phases {
        assert_eq!((&phase.parent_span_id, phase.kind), (&own.span_id, 1), "an internal span");
        let (begin, end) = phase.times();
        assert!(from <= begin && end <= to, "a phase lies within its request: {phase:?}");
    }
    for span in spans {
        assert_eq!((span.trace_id.as_str(), span.status.code), (TRACE, 0));
        assert_eq!(span.trace_state, "rojo=00f067aa,a=1", "passed on as it came");
    }
    let mut identifiers: Vec<&str> = spans.iter().map(|span| span.span_id.as_str()).collect();
    identifiers.sort_unstable();
    identifiers.dedup();
    assert_eq!(identifiers.len(), spans.len(), "each span has its own");
    for (key, value) in [
        ("http.request.method", otlp::AnyValue::StringValue("GET".to_owned())),
        ("http.response.status_code", otlp::AnyValue::IntValue("200".to_owned())),
    ] {
        let attribute = own.attributes.iter().find(|found| found.key == key);
        assert_eq!(attribute.unwrap().value, value);
    }
}

#[test]
fn a_request_without_a_sampled_trace_is_not_traced() {
    let (url, _received) = collector();
    let (_server, mut client) =
        serve_with(|options| options.export = Some(TraceCollector::to(&url, None).unwrap()));
    let unsampled = format!("00-{TRACE}-{PARENT}-00");
    for header in [unsampled.as_str(), "nonsense", ""] {
        let answer = client.call("GET", &entity("a"), &[("traceparent", header)], b"");
        assert_eq!((answer.status, answer.header("traceresponse")), (404, None), "{header}");
    }
    assert_eq!(client.get(&entity("a")).header("traceresponse"), None);
}

#[test]
fn a_share_of_the_others_is_traced_also_where_they_leave_the_event_loop() {
    let (url, received) = collector();
    let server = start_with(|options| {
        options.export = Some(TraceCollector::to(&url, None).unwrap());
        options.trace_share = 1.0;
    });
    let mut client = server.client();
    let answer = client.put(&format!("{}&sync=disk", entity("a")), "value");
    assert!(answer.status == 201 && answer.header("traceresponse").is_some());
    let (_, document) = received.recv_timeout(Duration::from_secs(20)).unwrap();
    let own = &spans(&document)[0];
    assert_eq!((&own["name"], own.get("parentSpanId")), (&"entity_put".into(), None));
}

/// Regression: the wait behind earlier requests of the connection was a part of the span `parse`.
#[test]
fn the_wait_behind_earlier_requests_is_a_span_of_the_queue() {
    let (url, received) = collector();
    let server = start_with(|options| {
        options.export = Some(TraceCollector::to(&url, None).unwrap());
        options.trace_share = 1.0;
    });
    let mut client = server.sent(&request("PUT", &entity("k"), &[], b"v").repeat(100));
    (0..100).for_each(|_| drop(client.answer()));
    let (mut requests, mut phases) = (0, Vec::new());
    while requests < 100 {
        let (_, document) = received.recv_timeout(Duration::from_secs(20)).unwrap();
        let spans = spans(&document);
        requests += spans.iter().filter(|span| span["name"] == "entity_put").count();
        phases.extend(spans.iter().filter(|span| span["kind"] == 1).cloned());
    }
    let sum_ns = |name: &str| -> u64 {
        let named = phases.iter().filter(|span| span["name"] == name);
        named
            .map(|span| unix_ns(span, "endTimeUnixNano") - unix_ns(span, "startTimeUnixNano"))
            .sum()
    };
    let account = server.account();
    let puts = account.operations.iter().find(|of| of.operation == "entity_put").unwrap();
    for name in ["parse", "queue"] {
        let of = &puts.phases.iter().find(|phase| phase.name == name).unwrap().distribution;
        let accounted_ns = (of.mean_ns * of.count as f64) as u64;
        let exported_ns = sum_ns(name);
        let rounding_ns = 1_000 + accounted_ns / 100;
        assert!(
            exported_ns.abs_diff(accounted_ns) <= rounding_ns,
            "{name}: {exported_ns} ns exported, {accounted_ns} ns in the account"
        );
    }
    let mut identifiers: Vec<_> = phases.iter().map(|span| span["spanId"].to_string()).collect();
    identifiers.sort_unstable();
    identifiers.dedup();
    assert_eq!(identifiers.len(), phases.len(), "each span has its own");
}

#[test]
fn a_collector_that_is_gone_costs_spans_and_nothing_else() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = start_with(|options| {
        options.export = Some(TraceCollector::to(&format!("http://{gone}"), None).unwrap());
        options.trace_share = 1.0;
    });
    let mut client = server.client();
    for _ in 0..10 {
        assert_eq!(client.get(&entity("a")).status, 404);
    }
    wait_until(|| client.figure("pellucid_trace_requests_lost_total"), |lost| *lost > 0.0);
    assert_eq!(client.figure("pellucid_trace_requests_exported_total"), 0.0);
    let said = || {
        let lines = server.log.lock().unwrap();
        lines.iter().filter(|line| line.contains("spans are lost")).count()
    };
    // A loss is first counted, and then logged.
    wait_until(said, |said| *said > 0);
    assert_eq!(said(), 1, "a lasting failure is one line");
}

fn slow_lines(running: &TestServer) -> Vec<String> {
    let lines = running.log.lock().unwrap();
    lines.iter().filter(|line| line.starts_with("slow request")).cloned().collect()
}

#[test]
fn a_slow_request_is_a_line_that_hides_the_key() {
    let (server, mut client) = serve_with(|options| options.slow_request = Duration::from_nanos(1));
    client.put(&entity("secret-key"), "value");
    let line = wait_until(|| slow_lines(&server), |lines| !lines.is_empty()).remove(0);
    for part in ["operation=\"entity_put\"", "status=201", "execute=", "key=\"#"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!line.contains("secret-key"), "{line}");
}

#[test]
fn a_slow_requests_key_is_shown_where_it_is_asked_for() {
    let server = start_with(|options| {
        options.slow_request = Duration::from_nanos(1);
        options.show_keys = true;
    });
    server.client().put(&entity("plain-key"), "value");
    let lines = wait_until(|| slow_lines(&server), |lines| !lines.is_empty());
    assert!(lines[0].contains("key=\"plain-key\""));
}

/// Regression: the account of such requests ended with their heads, so they seemed the fastest of
/// all.
#[test]
fn requests_that_their_clients_gave_up_are_slow_in_every_view() {
    let (url, received) = collector();
    let server = start_with(|options| {
        options.slow_request = Duration::from_millis(300);
        options.export = Some(TraceCollector::to(&url, None).unwrap());
    });
    let mut client = server.client();
    client.put(&entity("large"), "v".repeat(32 << 20));
    let trace = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n");
    let target = entity("large");
    let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{trace}\r\n");
    let mut gone = server.sent(text.as_bytes());
    gone.try_head().unwrap();
    // The query runs on for a while, as a closed sending side may belong to a client that waits.
    let query = r#"{"query":"RETURN SLEEP(600)"}"#;
    let asking = server.sent(&request("POST", "/_api/cursor", &[], query.as_bytes()));
    std::thread::sleep(Duration::from_millis(400));
    drop((gone, asking));
    let is_told = |operation: &str| {
        let operation = format!("operation=\"{operation}\"");
        let outcome = "outcome=\"client_gone\"";
        slow_lines(&server).iter().any(|line| line.contains(&operation) && line.contains(outcome))
    };
    wait_for(|| match is_told("entity_get") && is_told("query") {
        true => Ok(()),
        false => Err(slow_lines(&server)),
    });
    let account = server.account();
    for operation in ["entity_get", "query"] {
        let is_it = |of: &&OperationAccount| of.operation == operation;
        let of: Vec<_> = account.operations.iter().filter(is_it).collect();
        assert_eq!((of.len(), of[0].outcome.as_str(), of[0].count), (1, "client_gone", 1));
    }
    let metrics = client.get("/metrics").text().to_owned();
    let line = "pellucid_requests_total{operation=\"entity_get\",outcome=\"client_gone\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
    let (_, document) = received.recv_timeout(Duration::from_secs(20)).unwrap();
    let own = &spans(&document)[0];
    let outcome = serde_json::json!({
        "key": "pellucid.outcome", "value": { "stringValue": "client_gone" },
    });
    assert!(own["attributes"].as_array().unwrap().contains(&outcome), "{own}");
    let took_ns = unix_ns(own, "endTimeUnixNano") - unix_ns(own, "startTimeUnixNano");
    assert!(took_ns >= 300_000_000, "{own}");
}

/// All requests are slow here: logging them must not become the server's main work.
#[test]
fn slow_lines_are_bounded() {
    let (server, mut client) = serve_with(|options| options.slow_request = Duration::from_nanos(1));
    for _ in 0..500 {
        client.get(&entity("a"));
    }
    let is_told = |lines: &Vec<String>| lines.iter().any(|line| line.contains("further slow"));
    wait_until(|| server.log.lock().unwrap().clone(), is_told);
    assert!(slow_lines(&server).len() < 500);
}
