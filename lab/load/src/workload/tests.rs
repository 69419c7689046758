//! Tests of descriptions of work: their meaning, and the reports of mistakes.

use std::io::Write;
use std::time::Duration;

use super::*;
use crate::schedule::Arrivals;
use pellucid_client::http::Target;

const WHOLE: &str = r#"
seed = 7

[load]
connections = 8
rate = 5_000
arrivals = "poisson"
duration = "20s"
warm_up = "1s"
keep_alive = false

[keys]
count = 1_000
distribution = "zipf"
skew = 1.1
missing = 0.1

[headers]
Accept = "application/json"

[[operation]]
name = "read"
weight = 3
path = "/v0/entity?id={key:6}"
expect = { status = [200, "4xx"] }

[[operation]]
name = "write"
method = "PUT"
path = "/v0/entity?id={key}"
headers = { Accept = "text/plain" }
value = { size = [10, 20] }

[[stage]]
duration = "5s"
rate = 100
ramp = true
"#;

fn options() -> LoadOptions {
    LoadOptions::new(Target::parse("http://h:1/").unwrap())
}

fn made(text: &str, requests: usize) -> Vec<(usize, String)> {
    made_with(options(), text, requests)
}

fn made_with(mut options: LoadOptions, text: &str, requests: usize) -> Vec<(usize, String)> {
    Workload::parse(text, Path::new("")).unwrap().use_in(&mut options);
    let share = ThreadShare { thread: 0, threads: 1, first_request: 0, requests: None };
    let mut source = options.sources.unwrap().source(share);
    let mut all = Vec::new();
    for _ in 0..requests {
        let mut out = Vec::new();
        source.next(&mut out);
        all.push((source.operation(), String::from_utf8(out).unwrap()));
    }
    all
}

#[test]
fn a_whole_file_is_understood() {
    let workload = Workload::parse(WHOLE, Path::new("")).unwrap();
    let mut options = options();
    workload.apply_settings(&mut options);
    workload.use_in(&mut options);
    assert_eq!((options.connections, options.rate_per_second), (8, Some(5_000)));
    assert_eq!((options.arrivals, options.keep_alive), (Arrivals::Poisson, false));
    assert_eq!(options.warm_up, Duration::from_secs(1));
    assert_eq!(options.stages.len(), 1);
    let sources = options.sources.unwrap();
    assert_eq!(sources.operations(), ["read", "write"]);
    assert!(!sources.wants_answers());
}

#[test]
fn requests_come_in_their_weights_and_are_whole() {
    let requests = made(WHOLE, 4_000);
    let reads = requests.iter().filter(|(operation, _)| *operation == 0).count();
    assert!(reads.abs_diff(3_000) < 150, "{reads}");
    for (operation, text) in &requests {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\nHost: h:1"), "{head}");
        if *operation == 0 {
            assert!(head.starts_with("GET /v0/entity?id=00"), "{head}");
            assert!(head.contains("\r\nAccept: application/json") && body.is_empty());
        } else {
            assert!(head.starts_with("PUT /v0/entity?id=") && !head.contains("json"), "{head}");
            assert!((10..=20).contains(&body.len()));
            assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
        }
    }
    assert_eq!(made(WHOLE, 50), made(WHOLE, 50), "the same seed gives the same requests");
}

/// Regression: a request with a `Host` of the file also had the usual one, so it was refused.
#[test]
fn a_request_has_one_host() {
    let operation = "[[operation]]\npath = '/'\n";
    for (text, host) in [
        (operation.to_owned(), "h:1"),
        (format!("{operation}headers = {{ host = 'a' }}\n"), "a"),
        (format!("[headers]\nHost = 'a'\n{operation}"), "a"),
    ] {
        let request = made(&text, 1)[0].1.to_ascii_lowercase();
        assert!(request.contains(&format!("\r\nhost: {host}\r\n")), "{request}");
        assert_eq!(request.matches("\r\nhost: ").count(), 1, "{request}");
    }
}

/// Regression: only `Host` was not sent twice.
#[test]
fn a_header_of_the_file_replaces_that_of_all_requests() {
    let mut options = options();
    options.keep_alive = false;
    options.headers =
        ["Authorization: of all", "X-Note: 1", "Host: a"].map(|h| Header::parse(h).unwrap()).into();
    let text = "[headers]\nauthorization = 'of the file'\n[[operation]]\npath = '/'\n";
    let request = &made_with(options, text, 1)[0].1;
    let expected = "GET / HTTP/1.1\r\nauthorization: of the file\r\nX-Note: 1\r\nHost: a\r\n\
                    Connection: close\r\n\r\n";
    assert_eq!(request, expected);
}

#[test]
fn values_come_from_files_and_texts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::File::create(folder.path().join("v")).unwrap().write_all(b"from the file").unwrap();
    let text = "[[operation]]\nmethod = 'PUT'\npath = '/'\nvalue = { file = 'v' }\n";
    let file = folder.path().join("w.toml");
    std::fs::write(&file, text).unwrap();
    let mut options = options();
    Workload::read(&file).unwrap().use_in(&mut options);
    let share = ThreadShare { thread: 0, threads: 1, first_request: 0, requests: None };
    let mut out = Vec::new();
    options.sources.unwrap().source(share).next(&mut out);
    assert!(out.ends_with(b"Content-Length: 13\r\n\r\nfrom the file"));
    let text = "[keys]\ncount = 1\n[[operation]]\nmethod = 'POST'\npath = '/'\n\
                value = { text = '{{\"id\":{key}}}' }\n";
    assert!(made(text, 1)[0].1.ends_with("Content-Length: 8\r\n\r\n{\"id\":1}"));
    let bare = "[[operation]]\nmethod = 'POST'\npath = '/'\n";
    assert!(made(bare, 1)[0].1.ends_with("\r\nContent-Length: 0\r\n\r\n"));
}

/// Regression: only the path was checked for keys that no set of keys gives, and that check refused
/// braces that stand for themselves. Braces in a header were reported at the line of the path.
#[test]
fn keys_need_a_set_wherever_they_stand() {
    let operation = "[[operation]]\npath = '/'\n";
    let put = format!("{operation}method = 'PUT'\n");
    for (text, line, word) in [
        (format!("{put}value = {{ text = 'a{{key}}' }}\n"), 4, "no [keys]"),
        (format!("{put}headers = {{ A = '{{key:3}}' }}\n"), 4, "no [keys]"),
        (format!("[headers]\nA = 'b'\nC = '{{key}}'\n{operation}"), 3, "no [keys]"),
        (format!("{put}headers = {{ A = '{{x}}' }}\n"), 4, "{key:10}"),
        (format!("[headers]\nA = 'b'\nC = '}}'\n{operation}"), 3, "{key:10}"),
    ] {
        let (found, told) = Workload::parse(&text, Path::new("")).unwrap_err();
        assert_eq!(found, line, "{text:?}: {told}");
        assert!(told.contains(word), "{text:?}: {told}");
    }
    let escaped = "[[operation]]\npath = '/{{key}}'\nheaders = { A = '{{key' }\n";
    let request = &made(escaped, 1)[0].1;
    assert!(request.starts_with("GET /{key} HTTP/1.1\r\nA: {key\r\n"), "{request}");
    let own = "[headers]\nA = '{key:2}'\n[[operation]]\npath = '/'\nkeys = { count = 1 }\n";
    assert!(made(own, 1)[0].1.contains("\r\nA: 01\r\n"));
}

#[test]
fn mistakes_are_reported_with_their_line_and_what_is_allowed() {
    let head = "[keys]\ncount = 10\n";
    let operation = "[[operation]]\npath = '/{key}'\n";
    for (text, line, word) in [
        ("".to_owned(), 1, "[[operation]]"),
        ("[load]\nspeed = 3\n".to_owned(), 2, "connections"),
        ("[load]\narrivals = 'random'\n".to_owned(), 2, "poisson"),
        (format!("[load]\nduration = 'long'\n{operation}{head}"), 2, "20s"),
        (format!("[keys]\ncount = 0\n{operation}"), 2, "1 to"),
        (format!("{head}distribution = 'normal'\n{operation}"), 3, "zipf"),
        (format!("{head}skew = 2.0\n{operation}"), 3, "zipf"),
        (format!("{head}missing = 2.0\n{operation}"), 3, "between 0 and 1"),
        (operation.to_owned(), 2, "[keys]"),
        (format!("{head}{operation}method = 'FETCH'\n"), 5, "PATCH"),
        (format!("{head}{operation}weight = 0\n"), 5, "from 1"),
        (format!("{head}{operation}value = {{ size = 1, text = 'x' }}\n"), 5, "exactly one"),
        (format!("{head}{operation}value = {{ size = 'x' }}\n"), 5, "[least, greatest]"),
        (format!("{head}{operation}value = {{ size = [2, 1] }}\n"), 5, "least first"),
        (format!("{head}{operation}value = {{ file = '/nowhere' }}\n"), 5, "/nowhere"),
        (format!("{head}{operation}expect = {{ status = ['9xx'] }}\n"), 5, "\"5xx\""),
        (format!("{head}{operation}expect = {{ status = [42] }}\n"), 5, "599"),
        (format!("{head}{operation}headers = {{ Content-Length = 3 }}\n"), 5, "leave it out"),
        (format!("{head}[headers]\nA = 'b'\nC = true\n{operation}"), 5, "neither a text"),
        ("[[operation]]\npath = 'x'\n".to_owned(), 2, "begins with /"),
        (format!("{head}[[operation]]\npath = '/{{id}}'\n"), 4, "{key}"),
        (format!("{head}{operation}{operation}"), 5, "different names"),
        ("[[operation]]\nname = 'x'\n".to_owned(), 1, "path"),
        ("nonsense".to_owned(), 1, ""),
    ] {
        let (found, told) = Workload::parse(&text, Path::new("")).unwrap_err();
        assert_eq!(found, line, "{text:?}: {told}");
        assert!(told.contains(word), "{text:?}: {told}");
    }
    let error = Workload::read(Path::new("/nowhere.toml")).unwrap_err().to_string();
    assert!(error.contains("/nowhere.toml"), "{error}");
}
