//! Slow requests in the log, and traced ones at a collector.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{Client, Running, entity, start_with};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use pellucid_server::Export;
use serde_json::Value;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector that takes everything, and passes on what it got: head and document.
fn collector() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (posts, received) = channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut reader = BufReader::new(socket.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).unwrap();
            }
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            if posts.send((head, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    (url, received)
}

fn spans(document: &Value) -> &Vec<Value> {
    document["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap()
}

fn unix_ns(span: &Value, name: &str) -> u64 {
    span[name].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_request_of_a_trace_becomes_spans_below_the_callers() {
    let (url, received) = collector();
    let server = start_with(|options| {
        options.export = Some(Export::to(&url, Some("x-key: secret")).unwrap());
    });
    let mut client = server.client();
    client.put(&entity("secret-key"), "value");
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("traceparent", parent.as_str())];
    let answer = client.call("GET", &entity("secret-key"), &headers, b"");
    assert_eq!((answer.status, answer.text()), (200, "value"));
    let returned = answer.header("traceresponse").unwrap().to_owned();
    assert!(returned.starts_with(&format!("00-{TRACE}-")) && returned.ends_with("-01"));

    let (head, document) = received.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(head.starts_with("POST /v1/traces ") && head.contains("\r\nx-key: secret\r\n"));
    let spans = spans(&document);
    let own = &spans[0];
    assert_eq!((&own["name"], &own["kind"]), (&"entity_get".into(), &2.into()));
    assert_eq!((&own["traceId"], &own["parentSpanId"]), (&TRACE.into(), &PARENT.into()));
    assert!(returned.contains(own["spanId"].as_str().unwrap()));
    let (from, to) = (unix_ns(own, "startTimeUnixNano"), unix_ns(own, "endTimeUnixNano"));
    let phases: Vec<&str> = spans[1..].iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert!(phases.contains(&"execute") && phases.contains(&"write"), "{phases:?}");
    for span in &spans[1..] {
        assert_eq!(span["parentSpanId"], own["spanId"]);
        assert_ne!(span["spanId"], own["spanId"]);
        let within =
            unix_ns(span, "startTimeUnixNano") >= from && unix_ns(span, "endTimeUnixNano") <= to;
        assert!(within, "a phase lies within its request: {span}");
    }
    assert!(!document.to_string().contains("secret-key"), "keys are hashed");
}

/// The document as the protocol's own types read it. What they do not know they pass over, so that
/// all of it has to be there again when they write it.
fn decoded(document: &Value) -> ExportTraceServiceRequest {
    let request: ExportTraceServiceRequest = serde_json::from_value(document.clone()).unwrap();
    assert_within(document, &serde_json::to_value(&request).unwrap());
    request
}

fn assert_within(part: &Value, whole: &Value) {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            for (name, value) in part {
                assert_within(value, whole.get(name).unwrap_or_else(|| panic!("unknown: {name}")));
            }
        }
        (Value::Array(part), Value::Array(whole)) => {
            assert_eq!(part.len(), whole.len());
            part.iter().zip(whole).for_each(|(part, whole)| assert_within(part, whole));
        }
        _ => assert_eq!(part, whole),
    }
}

fn value_of<'a>(attributes: &'a [KeyValue], key: &str) -> &'a AnyValue {
    let found: Vec<_> = attributes.iter().filter(|attribute| attribute.key == key).collect();
    let [attribute] = found[..] else { panic!("{key} is not there once: {attributes:?}") };
    attribute.value.as_ref().unwrap().value.as_ref().unwrap()
}

#[test]
fn what_is_exported_is_what_the_protocol_says_and_has_the_callers_trace() {
    let (url, received) = collector();
    let server = start_with(|options| options.export = Some(Export::to(&url, None).unwrap()));
    let mut client = server.client();
    client.put(&entity("k"), "value");
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers =
        [("traceparent", parent.as_str()), ("tracestate", "rojo=00f067aa"), ("tracestate", "a=1")];
    let answer = client.call("GET", &entity("k"), &headers, b"");
    assert_eq!(answer.status, 200);
    let returned = answer.header("traceresponse").unwrap().to_owned();

    let (head, document) = received.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
    let request = decoded(&document);
    let [of_resource] = &request.resource_spans[..] else { panic!("one resource: {request:?}") };
    let resource = of_resource.resource.as_ref().unwrap();
    let service = value_of(&resource.attributes, "service.name");
    assert_eq!(*service, AnyValue::StringValue("pellucid".to_owned()));
    let [of_scope] = &of_resource.scope_spans[..] else { panic!("one scope: {request:?}") };
    let scope = of_scope.scope.as_ref().unwrap();
    assert!(!scope.name.is_empty() && !scope.version.is_empty());

    let spans = &of_scope.spans;
    let (own, phases) = spans.split_first().unwrap();
    let trace_id = u128::from_str_radix(TRACE, 16).unwrap().to_be_bytes();
    let parent_id = u64::from_str_radix(PARENT, 16).unwrap().to_be_bytes();
    let own_id = u64::from_be_bytes(own.span_id[..].try_into().unwrap());
    assert_eq!(returned, format!("00-{TRACE}-{own_id:016x}-01"));
    assert_eq!((&own.parent_span_id[..], own.kind()), (&parent_id[..], SpanKind::Server));
    assert!(phases.len() >= 3, "{phases:?}");
    for phase in phases {
        assert_eq!((&phase.parent_span_id, phase.kind()), (&own.span_id, SpanKind::Internal));
    }
    for span in spans {
        assert_eq!((&span.trace_id[..], &span.status), (&trace_id[..], &None));
        assert_eq!(span.trace_state, "rojo=00f067aa,a=1", "passed on as it came");
        let (from, to) = (span.start_time_unix_nano, span.end_time_unix_nano);
        assert!(from <= to && from > 1_600_000_000_000_000_000, "since 1970: {span:?}");
        assert!(!span.name.is_empty(), "{span:?}");
        for attribute in &span.attributes {
            value_of(&span.attributes, &attribute.key);
        }
    }
    let identifiers: BTreeSet<&[u8]> = spans.iter().map(|span| &span.span_id[..]).collect();
    assert_eq!(identifiers.len(), spans.len(), "each span has its own");
    assert!(identifiers.iter().all(|id| id.len() == 8 && id.iter().any(|byte| *byte != 0)));
    let status = value_of(&own.attributes, "http.response.status_code");
    assert_eq!(*status, AnyValue::IntValue(200));
}

#[test]
fn what_the_caller_does_not_trace_is_not_traced() {
    let (url, _received) = collector();
    let server = start_with(|options| options.export = Some(Export::to(&url, None).unwrap()));
    let mut client = server.client();
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
        options.export = Some(Export::to(&url, None).unwrap());
        options.trace_share = 1.0;
    });
    let mut client = server.client();
    let answer = client.put(&format!("{}&sync=disk", entity("a")), "value");
    assert!(answer.status == 201 && answer.header("traceresponse").is_some());
    let (_, document) = received.recv_timeout(Duration::from_secs(20)).unwrap();
    let own = &spans(&document)[0];
    assert_eq!((&own["name"], own.get("parentSpanId")), (&"entity_put".into(), None));
}

fn figure(client: &mut Client, name: &str) -> u64 {
    let page = client.get("/metrics");
    let value = page.text().lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    value.unwrap().parse().unwrap()
}

#[test]
fn a_collector_that_is_gone_costs_spans_and_nothing_else() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = start_with(|options| {
        options.export = Some(Export::to(&format!("http://{gone}"), None).unwrap());
        options.trace_share = 1.0;
    });
    let mut client = server.client();
    for _ in 0..10 {
        assert_eq!(client.get(&entity("a")).status, 404);
    }
    while figure(&mut client, "pellucid_trace_requests_lost_total") == 0 {
        std::thread::yield_now();
    }
    assert_eq!(figure(&mut client, "pellucid_trace_requests_exported_total"), 0);
    let said = || {
        let lines = server.log.lock().unwrap();
        lines.iter().filter(|line| line.contains("spans are lost")).count()
    };
    // What is lost is counted first, and said then.
    while said() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(said(), 1, "a lasting failure is one line");
}

fn slow_lines(running: &Running) -> Vec<String> {
    let lines = running.log.lock().unwrap();
    lines.iter().filter(|line| line.starts_with("slow request")).cloned().collect()
}

#[test]
fn a_slow_request_is_a_line_that_hides_the_key() {
    let server = start_with(|options| options.slow_request = Duration::from_nanos(1));
    let mut client = server.client();
    client.put(&entity("secret-key"), "value");
    while slow_lines(&server).is_empty() {
        std::thread::yield_now();
    }
    let line = slow_lines(&server).remove(0);
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
    while slow_lines(&server).is_empty() {
        std::thread::yield_now();
    }
    assert!(slow_lines(&server)[0].contains("key=\"plain-key\""));
}

/// Everything is slow here: the log must not become what the server does.
#[test]
fn slow_lines_are_bounded() {
    let server = start_with(|options| options.slow_request = Duration::from_nanos(1));
    let mut client = server.client();
    for _ in 0..500 {
        client.get(&entity("a"));
    }
    while !server.log.lock().unwrap().iter().any(|line| line.contains("further slow requests")) {
        std::thread::yield_now();
    }
    assert!(slow_lines(&server).len() < 500);
}
