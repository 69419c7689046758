//! Loads of other shapes than a constant rate over lasting connections.

use std::time::Duration;

use crate::support::{Server, against, answer, load, ok, opened};
use pellucid_load::simulation::Reply;
use pellucid_load::{Arrivals, Limit, LoadOptions, OperationResult, Stage, Workload};

fn stage(ms: u64, rate: Option<u64>, ramp: bool, connections: Option<usize>) -> Stage {
    Stage { duration: Duration::from_millis(ms), rate_per_second: rate, ramp, connections }
}

#[test]
fn a_connection_for_each_request_is_opened_and_timed() {
    for rate in [None, Some(200)] {
        let options = LoadOptions {
            keep_alive: false,
            rate_per_second: rate,
            connections: 3,
            ..against(|request| {
                assert!(request.head.contains("Connection: close\r\n"), "{}", request.head);
                Reply::ok().after(Duration::from_millis(1))
            })
        };
        let result = load(&options);
        let expected = if rate.is_some() { 60 } else { 900 };
        assert_eq!(result.requests, expected);
        assert_eq!(result.errors.all(), 0, "{:?}", result.first_error);
        assert!(opened(&options) >= result.requests, "{} opened", opened(&options));
        assert!(result.times.connect.len() >= result.requests);
        assert!(result.times.response.mean() >= result.times.service.mean());
        assert_eq!(result.times.service.len(), result.requests);
    }
}

#[test]
fn stages_change_the_rate_and_the_connections() {
    let options = LoadOptions {
        stages: vec![
            stage(400, Some(100), false, Some(1)),
            stage(400, Some(500), true, Some(4)),
            stage(400, Some(500), false, None),
        ],
        connections: 4,
        ..against(|_| Reply::ok())
    };
    let result = load(&options);
    assert!(result.load.paced && result.load.rate_per_second.is_none());
    assert!(result.requests.abs_diff(40 + 120 + 200) <= 1, "{}", result.requests);
    let offered = result.load.offered_per_second.unwrap();
    assert!((offered - 300.0).abs() < 1.0, "{offered}");
    assert_eq!(opened(&options), 4);
    let answered: Vec<u64> =
        result.course.timeline.iter().map(|interval| interval.answered).collect();
    assert!(answered[..4].iter().sum::<u64>().abs_diff(40) <= 1, "{answered:?}");
}

#[test]
fn stages_without_rates_are_a_closed_loop_over_changing_connections() {
    let stages = vec![stage(500, None, false, Some(1)), stage(500, None, false, Some(6))];
    let options = LoadOptions {
        stages,
        connections: 6,
        ..against(|_| Reply::ok().after(Duration::from_millis(10)))
    };
    let result = load(&options);
    let half = result.course.timeline.len() / 2;
    let first: u64 = result.course.timeline[..half].iter().map(|interval| interval.answered).sum();
    let second: u64 = result.course.timeline[half..].iter().map(|interval| interval.answered).sum();
    assert!(first.abs_diff(50) <= 2, "{first} with one connection");
    // Connections are added at the tick after the stage's beginning, 100 ms at most.
    assert!((235..=302).contains(&second), "{second} with six");
}

#[test]
fn poisson_arrivals_keep_the_rate() {
    let options = LoadOptions {
        rate_per_second: Some(1_000),
        arrivals: Arrivals::Poisson,
        connections: 8,
        limit: Limit::Duration(Duration::from_secs(10)),
        ..against(|_| Reply::ok())
    };
    let result = load(&options);
    assert!(result.requests.abs_diff(10_000) < 400, "{}", result.requests);
}

#[test]
fn operations_of_a_description_are_sent_checked_and_counted_separately() {
    let server = Server::start(|request| match request.line().split(' ').next().unwrap() {
        "GET" => answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        "PUT" => answer(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        _ => ok(),
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("work.toml");
    let text = "[keys]\ncount = 9\n\
        [[operation]]\nname = 'good'\npath = '/{key}'\nexpect = { contains = 'ell', size = 5 }\n\
        [[operation]]\nname = 'bad'\npath = '/{key}'\nexpect = { contains = 'bye' }\n\
        [[operation]]\nname = 'absent'\nmethod = 'PUT'\npath = '/{key}'\n\
        value = { size = 10 }\nexpect = { status = [404] }\n";
    std::fs::write(&file, text).unwrap();
    let mut options = server.options();
    options.limit = Limit::Requests(600);
    Workload::read(&file).unwrap().use_in(&mut options);
    let result = load(&options);
    assert_eq!((result.requests, result.errors.status), (600, 0));
    let names: Vec<&str> = result.operations.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(names, ["good", "bad", "absent"]);
    assert_eq!(result.operations.iter().map(|o| o.requests).sum::<u64>(), 600);
    let bad = &result.operations[1];
    assert_eq!((bad.errors, result.errors.check), (bad.requests, bad.requests));
    assert_eq!(result.operations[0].errors + result.operations[2].errors, 0);
    assert_eq!(bad.response_time.len(), bad.requests);
    assert!(result.first_error.unwrap().contains("check failed"));
    let mut rejoined = result.operations[0].response_time.clone();
    rejoined.add(&result.operations[1].response_time).unwrap();
    rejoined.add(&result.operations[2].response_time).unwrap();
    assert_eq!(rejoined, result.times.response);
}

/// Regression: the operations left out the answers of the warm-up, so that their numbers did not
/// add up to those of the run.
#[test]
fn operations_of_a_run_with_a_warm_up_add_up_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("work.toml");
    let text = "[[operation]]\nname = 'a'\npath = '/'\n[[operation]]\nname = 'b'\npath = '/'\n";
    std::fs::write(&file, text).unwrap();
    let mut options = LoadOptions {
        rate_per_second: Some(1_000),
        warm_up: Duration::from_millis(100),
        ..against(|request| match request.number % 10 {
            0 => Reply::new(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
            _ => Reply::ok(),
        })
    };
    Workload::read(&file).unwrap().use_in(&mut options);
    let result = load(&options);
    let sum = |of: fn(&OperationResult) -> u64| result.operations.iter().map(of).sum::<u64>();
    assert_eq!(sum(|operation| operation.requests), result.requests);
    assert_eq!(sum(|operation| operation.errors), result.errors.all());
    assert_eq!(sum(|operation| operation.response_time.len()), result.times.response.len());
    assert!(result.times.response.len() + 100 <= result.requests, "{}", result.requests);
}

/// The schedule goes on after the last request of the limit; requests that are due then do not
/// count.
#[test]
fn a_number_of_requests_at_a_rate_leaves_nothing_unanswered() {
    let server = Server::start(|_| ok());
    let options = LoadOptions {
        rate_per_second: Some(2_000),
        limit: Limit::Requests(300),
        connections: 2,
        ..server.options()
    };
    let result = load(&options);
    assert_eq!((result.requests, result.unanswered), (300, 0));
}
