//! Raw requests, each with the section of RFC 9110 or RFC 9112 that it tests.

use std::io::Read;

use crate::common::{Answer, Client, TestServer, entity, start};

const CASES: &str = include_str!("http_cases.txt");

/// The bytes of a request of the table, in pieces that are sent one after another.
fn pieces(request: &str, etag: &str) -> Vec<Vec<u8>> {
    let request = repeated(&request.replace("{etag}", etag));
    let text = request.replace('@', " HTTP/1.1\\nHost: a\\n");
    text.split("\\w").map(unescaped).collect()
}

/// Expands each `{N*text}` of the text.
fn repeated(text: &str) -> String {
    let Some((before, rest)) = text.split_once('{') else { return text.to_owned() };
    let (inner, after) = rest.split_once('}').unwrap();
    let (count, unit) = inner.split_once('*').unwrap();
    format!("{before}{}{after}", unit.repeat(count.parse().unwrap()))
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        let (escape, rest) = part.split_at(1);
        let mut rest = rest;
        match escape {
            "n" => bytes.extend(b"\r\n"),
            "l" => bytes.push(b'\n'),
            "r" => bytes.push(b'\r'),
            "s" => bytes.push(b' '),
            "t" => bytes.push(b'\t'),
            "x" => {
                bytes.push(u8::from_str_radix(&rest[..2], 16).unwrap());
                rest = &rest[2..];
            }
            _ => panic!("{escape} is no escape: {text}"),
        }
        bytes.extend(rest.as_bytes());
    }
    bytes
}

/// Plays one case; returns an error that describes a failed expectation.
fn play(running: &TestServer, request: &str, expected: &str) -> Result<(), String> {
    let etag = running.client().put(&entity("k"), "guarded").etag();
    let etag = etag.trim_matches('"');
    let is_refused = begins_with_refusal(expected) && !request.contains("100-continue");
    let behind = if is_refused { r"DELETE /v0/entity?id=k@\n" } else { "" };
    let mut pieces = pieces(&format!("{request}{behind}"), etag).into_iter();
    let mut client = running.sent(&pieces.next().unwrap());
    let mut last = None;
    for word in expected.split(' ') {
        let value = |prefix| word.strip_prefix(prefix).map(|value: &str| value.replace('~', " "));
        let is_so = if word == "100" {
            client.expect_continue();
            client.send(&pieces.next().unwrap());
            true
        } else if let Ok(status) = word.parse::<u16>() {
            let answer = client.try_answer(request.starts_with("HEAD "));
            let answer = answer.map_err(|error| format!("{word}: {error}"))?;
            let is_so = answer.status == status;
            last = Some(answer);
            is_so
        } else if word == "open" {
            client.try_call("GET", "/v0/status", &[], b"").is_ok_and(|answer| answer.status == 200)
        } else if word == "close" {
            is_closed(&mut client)
        } else if let Some(stored) = value("stored:") {
            running.client().get(&entity("k")).text() == stored
        } else {
            let answer = last.as_ref().unwrap();
            let header = |name: &str| {
                let mut headers = answer.headers.iter();
                headers.find(|(other, _)| other == name).map(|(_, value)| value.as_str())
            };
            if let Some(body) = value("body:") {
                answer.text().trim_end() == body
            } else if let Some(name) = value("no:") {
                header(&name).is_none()
            } else {
                let wanted = value("has:").unwrap().replace("{etag}", etag);
                match wanted.split_once('=') {
                    Some((name, value)) => header(name) == Some(value),
                    None => header(&wanted).is_some(),
                }
            }
        };
        if !is_so {
            return Err(format!("not {word}: {last:?}"));
        }
    }
    let is_intact = || running.client().get(&entity("k")).text() == "guarded";
    if is_refused && !(last.as_ref().is_some_and(ends_connection) && is_intact()) {
        return Err(format!("the refusal: {last:?}"));
    }
    Ok(())
}

fn begins_with_refusal(expected: &str) -> bool {
    let mut words = expected.split(' ');
    words.next().is_some_and(|status| status >= "400") && words.next() == Some("close")
}

/// True if the answer says what is wrong, and that it is the last one.
fn ends_connection(answer: &Answer) -> bool {
    answer.header("Connection") == Some("close") && answer.text().trim().len() > 10
}

/// True if the server closes the connection without sending more.
fn is_closed(client: &mut Client) -> bool {
    client.has_read_all() && matches!(client.socket.read(&mut [0; 1]), Ok(0))
}

#[test]
fn the_cases_of_the_table_hold() {
    let running = start();
    let (mut count, mut wrong) = (0, Vec::new());
    for line in CASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let [section, request, expected] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("three columns: {line}");
        };
        count += 1;
        if let Err(what) = play(&running, request, expected) {
            wrong.push(format!("RFC {section}: {request}: {what}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 200, "{count}");
}
