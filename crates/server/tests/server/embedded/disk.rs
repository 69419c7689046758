//! `sync=disk`: the acknowledgement waits for the medium, and waits that coincide share a sync.

use crate::common::{TestServer, entity, request, start, start_with, wait_until};
use pellucid_server::Acknowledgement;

fn figure(running: &TestServer, name: &str) -> u64 {
    running.client().figure(name) as u64
}

fn put_to_disk(running: &TestServer, threads: usize, each: usize, query: &str) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut client = running.client();
                for index in 0..each {
                    let target = entity(format!("{thread} {index}")) + query;
                    assert_eq!(client.put(&target, "v").status, 201);
                }
            });
        }
    });
}

#[test]
fn puts_that_wait_together_share_a_sync() {
    let running = start();
    let before = figure(&running, "pellucid_engine_syncs_total");
    put_to_disk(&running, 16, 12, "&sync=disk");
    let syncs = figure(&running, "pellucid_engine_syncs_total") - before;
    assert!((1..16 * 12).contains(&syncs), "{syncs} syncs for {} puts", 16 * 12);
    let published = figure(&running, "pellucid_engine_published_sequence");
    assert_eq!(figure(&running, "pellucid_engine_durable_sequence"), published);
}

#[test]
fn the_account_shows_the_wait_and_the_sync() {
    let running = start();
    put_to_disk(&running, 4, 10, "&sync=disk");
    let account = running.account();
    let puts = account.operations.iter().find(|account| account.operation == "entity_put").unwrap();
    assert_eq!(puts.count, 40);
    let mean = |name: &str| {
        let part = puts.parts.iter().find(|part| part.name == name);
        part.map_or(0.0, |p| p.distribution.mean_ns * p.distribution.count as f64 / 40.0)
    };
    assert!(mean("group_wait") > 0.0 && mean("sync") > 0.0, "{:?}", puts.parts);
    let phase = |name: &str| puts.phases.iter().find(|phase| phase.name == name).unwrap();
    let parts: f64 = puts.parts.iter().map(|part| mean(&part.name)).sum();
    assert!(parts <= phase("execute").distribution.mean_ns * 1.02, "parts are within execute");
}

/// Regression: the removals did not wait for the disk, whatever the server's default was.
#[test]
fn a_table_is_emptied_as_durably_as_entities_are_written() {
    let running = start_with(|options| options.acknowledgement = Acknowledgement::Disk);
    put_to_disk(&running, 1, 3, "");
    let emptied = running.client().call("DELETE", "/v0/tables/entities", &[], b"").having(200);
    assert_eq!(emptied.json()["removed"], 3);
    let published = figure(&running, "pellucid_engine_published_sequence");
    assert!(figure(&running, "pellucid_engine_durable_sequence") >= published);
}

#[test]
fn the_servers_default_applies_where_the_request_names_none() {
    let running = start_with(|options| options.acknowledgement = Acknowledgement::Disk);
    put_to_disk(&running, 1, 3, "");
    assert!(figure(&running, "pellucid_engine_syncs_total") >= 3);
    let syncs = figure(&running, "pellucid_engine_syncs_total");
    put_to_disk(&running, 1, 50, "&sync=os");
    let more = figure(&running, "pellucid_engine_syncs_total") - syncs;
    assert!(more < 50, "{more} syncs for 50 puts that did not ask for one");
}

/// The second request of a pipeline must not be answered or executed before the first is durable.
#[test]
fn pipelined_requests_are_answered_in_order_while_one_waits_for_the_disk() {
    let running = start();
    let disk = request("PUT", &(entity("k") + "&sync=disk"), &[], b"durable");
    let get = request("GET", &entity("k"), &[], b"");
    let os = request("PUT", &entity("k"), &[], b"later");
    let mut client = running.sent(&[disk, get.clone(), os, get].concat());
    assert_eq!(client.answer().status, 201);
    assert_eq!(client.answer().text(), "durable");
    assert_eq!(client.answer().status, 201);
    assert_eq!(client.answer().text(), "later");
}

#[test]
fn a_client_that_leaves_while_it_waits_does_no_harm() {
    let running = start();
    for index in 0..50 {
        let target = entity(format!("gone {index}")) + "&sync=disk";
        drop(running.sent(&request("PUT", &target, &[], b"v")));
    }
    put_to_disk(&running, 2, 5, "&sync=disk");
    // The request for the page may be counted, too.
    wait_until(|| figure(&running, "pellucid_requests_in_flight"), |count| *count <= 1);
}
