//! Whole scripts, as services keep them for their load tests, which use everything that wrk and
//! wrk2 offer. They run unchanged (the files in `lua/`).

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{Request, Server, answer, ok};
use pellucid_load::{Header, Limit, LoadOptions, LoadResult, ScriptOptions, Target, run};

/// Runs a script against the server, including its `done`. `change` changes the options.
fn run_script(
    server: &Server,
    name: &str,
    arguments: &[&str],
    change: impl FnOnce(&mut LoadOptions),
) -> LoadResult {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lua").join(name);
    let mut options = server.options();
    options.target = Target::parse(&format!("http://{}/v0/entity", server.address)).unwrap();
    let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
    options.script = Some(ScriptOptions { path, arguments });
    (options.threads, options.connections) = (2, 4);
    options.limit = Limit::Requests(200);
    change(&mut options);
    let mut result = run(&options, &mut |_| {}).unwrap();
    result.call_done().unwrap();
    result
}

fn created(_: &Request) -> Vec<u8> {
    answer(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
}

/// The ids of the requests, in the order of arrival.
fn ids(server: &Server) -> Vec<u64> {
    let of = |line: &String| {
        let (_, rest) = line.split_once("?id=").unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    server.lines().iter().map(of).collect()
}

#[test]
fn puts_by_id_have_a_range_of_their_own_in_each_thread() {
    for rate in [None, Some(2_000)] {
        let server = Server::start(created);
        let result = run_script(&server, "put_by_id.lua", &[], |options| {
            options.rate_per_second = rate;
            options.headers = vec![Header::parse("X-Token: abc").unwrap()];
        });
        assert_eq!((result.requests, result.errors.all()), (200, 0), "{:?}", result.first_error);
        let host = server.address.to_string();
        let seen: BTreeSet<u64> = ids(&server).into_iter().collect();
        assert_eq!(seen.len(), 200, "no id is written twice");
        // As in wrk, the first thread makes one request before the run, which is not sent.
        let (first, second) = seen.into_iter().partition::<Vec<u64>, _>(|id| *id < 1_000_000);
        assert_eq!(first, (1..=100).collect::<Vec<u64>>());
        assert_eq!(second, (1_000_000..1_000_100).collect::<Vec<u64>>());
        for request in server.requests.lock().unwrap().iter() {
            assert!(request.line().starts_with("PUT /v0/entity?id="), "{}", request.head);
            let id = request.line().split(['=', ' ']).nth(2).unwrap();
            assert_eq!(request.body, format!("value {id}").as_bytes());
            let headers = ["Host", "Content-Type", "X-Token"].map(|name| request.header(name));
            assert_eq!(headers, [host.as_str(), "application/octet-stream", "abc"].map(Some));
            let length = request.body.len().to_string();
            assert_eq!(request.header("Content-Length"), Some(length.as_str()));
        }
    }
}

#[test]
fn gets_by_id_take_their_range_from_the_arguments() {
    let server = Server::start(|request| match request.number % 10 {
        0 => answer(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        _ => ok(),
    });
    let result = run_script(&server, "get_by_id.lua", &["100", "199", "secret"], |_| {});
    assert_eq!((result.requests, result.errors.status), (200, 20));
    let ids = ids(&server);
    assert!(ids.iter().all(|id| (100..200).contains(id)), "{ids:?}");
    assert!(ids.iter().collect::<BTreeSet<_>>().len() > 20, "they are random: {ids:?}");
    let requests = server.requests.lock().unwrap();
    assert!(requests.iter().all(|request| request.line().starts_with("GET /v0/entity?id=")));
    assert!(requests.iter().all(|request| request.header("Content-Length").is_none()));
    assert!(requests.iter().all(|request| request.header("X-Api-Key") == Some("secret")));
    let threads: BTreeSet<_> = requests.iter().map(|r| r.header("X-Thread").unwrap()).collect();
    assert_eq!(threads, BTreeSet::from(["1", "2"]));
}

#[test]
fn rounds_of_requests_depend_on_the_answers() {
    let server = Server::start(|request| match request.line() {
        "POST /login HTTP/1.1" => {
            assert_eq!(request.body, br#"{"name":"ada"}"#);
            answer(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                c\r\n{\"token\":\"t0\r\n5\r\n123\"}\r\n0\r\n\r\n",
            )
        }
        _ => ok(),
    });
    let result = run_script(&server, "mixed_rounds.lua", &[], |options| {
        (options.threads, options.connections) = (1, 1);
        options.limit = Limit::Requests(1_000);
    });
    assert!(result.stopped_early, "the script ends its thread");
    assert_eq!((result.requests, result.errors.all()), (16, 0), "{:?}", result.first_error);
    let expected = (0..5).flat_map(|round| {
        ["PUT", "GET", "DELETE"].map(|step| format!("{step} /v0/entity?id={round} HTTP/1.1"))
    });
    assert_eq!(server.lines()[1..], expected.collect::<Vec<_>>());
    let requests = server.requests.lock().unwrap();
    assert!(requests[1..].iter().all(|r| r.header("Authorization") == Some("Bearer t0123")));
    assert!(requests[1..].iter().all(|r| (r.body.len() == 100) == r.line().starts_with("PUT")));
}

/// Regression: a public script of this kind ended its run, because `wrk.body` was a number.
#[test]
fn numbers_are_accepted_as_bodies() {
    let server = Server::start(created);
    let result = run_script(&server, "number_bodies.lua", &[], |options| {
        (options.threads, options.connections) = (1, 1);
    });
    assert!(result.failure.is_none(), "{:?}", result.failure);
    assert_eq!((result.requests, result.errors.all()), (200, 0), "{:?}", result.first_error);
    let requests = server.requests.lock().unwrap();
    for request in requests.iter() {
        let id = request.line().split(['=', ' ']).nth(2).unwrap();
        assert_eq!(String::from_utf8_lossy(&request.body), id, "{}", request.head);
        assert_eq!(request.head.matches("Content-Length").count(), 1, "{}", request.head);
    }
    assert!(requests.iter().any(|request| request.header("X-Share").is_some()));
    assert!(requests.iter().any(|request| request.header("Host") == Some("")));
    assert!(requests.iter().any(|r| r.header("1") == Some("Content-Type: text/plain")));
}

#[test]
fn a_pool_is_shared_among_threads_and_ends_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let words: Vec<String> = (1..=41).map(|number| format!("w{number}")).collect();
    file("pool.txt", &(words.join("\n") + "\n"));
    file("names.lua", "return { threads = 2, cookie = 'session' }");
    file(
        "share.lua",
        "return function(place, threads, words)
           local each = math.ceil(words / threads)
           return place * each + 1, math.min((place + 1) * each, words)
         end",
    );
    let lua = include_str!("../lua/pool_by_thread.lua");
    let named = format!("POOL = [[{}]]\n", folder.path().display());
    let lua = named + &lua.replace("os.getenv(\"POOL_FOLDER\")", "(os.getenv('NONE') or POOL)");
    file("script.lua", &lua);
    let server = Server::start(|request| {
        let id = request.header("X-Request-Id").unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nX-Echo: {id}\r\nContent-Length: 0\r\n\r\n");
        answer(head.as_bytes())
    });
    let script = folder.path().join("script.lua");
    let result = run_script(&server, script.to_str().unwrap(), &[], |options| {
        (options.threads, options.connections) = (2, 2);
        options.limit = Limit::Duration(std::time::Duration::from_secs(600));
    });
    assert!(result.stopped_early && result.failure.is_none(), "{:?}", result.failure);
    // The first word went into the request that is not sent.
    assert_eq!((result.requests, result.errors.all()), (40, 0), "{:?}", result.first_error);
    let mut seen: Vec<String> =
        server.lines().iter().map(|l| l.split(['=', ' ']).nth(2).unwrap().to_owned()).collect();
    seen.sort_unstable();
    let mut expected = words[1..].to_vec();
    expected.sort_unstable();
    assert_eq!(seen, expected);
    let report = std::fs::read_to_string(folder.path().join("report.csv")).unwrap();
    assert!(report.starts_with("40,8000,40,0,"), "{report}");
    let requests = server.requests.lock().unwrap();
    let cookies: BTreeSet<_> = requests.iter().map(|r| r.header("Cookie").unwrap()).collect();
    assert_eq!(cookies, BTreeSet::from(["session=0", "session=1"]));
}

#[test]
fn a_script_can_send_the_whole_url() {
    let server = Server::start(|_| ok());
    let result = run_script(&server, "whole_url.lua", &["25"], |options| {
        (options.threads, options.connections) = (1, 1);
        options.limit = Limit::Requests(1_000);
    });
    assert_eq!((result.requests, result.errors.all()), (25, 0), "{:?}", result.first_error);
    let whole = format!("GET http://{}/v0/entity HTTP/1.1", server.address);
    // The first request is not sent, so the default is sent first.
    let expected = (0..25).map(|n| if n % 2 == 1 { &whole[..] } else { "GET /v0/entity HTTP/1.1" });
    assert_eq!(server.lines()[..25], expected.collect::<Vec<_>>());
}
