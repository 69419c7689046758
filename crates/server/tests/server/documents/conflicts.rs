//! Concurrent writes of the same documents on a store that reports conflicts only later: the
//! embedded one with `--hand-over always`, or the one that the environment names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Client, TestServer, number, start_on_store, start_with};
use pellucid_account::Timeline;
use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
use pellucid_io::pass_on;
use pellucid_server::HandOverPolicy;
use pellucid_store::{
    Acknowledgement, Answer, Head, LocalStore, Object, Operation, Properties, Range, Result, Scan,
    Snapshot, Store, Table, WriteOutcome,
};
use tempfile::TempDir;

/// Number of clients that change one document.
const CLIENTS: usize = 6;
/// Number of changes that each client makes.
const CHANGES: usize = 25;
/// Number of changes that are made while the document is read.
const READ_CHANGES: usize = 3_000;

fn start() -> TestServer {
    let server = start_with(|options| options.embedded.hand_over = HandOverPolicy::Always);
    server.client().call("POST", "/_api/collection", &[], br#"{"name":"c"}"#).having(200);
    server
}

fn change(client: &mut Client, attribute: usize, value: usize) -> u16 {
    let body = format!("{{\"a{attribute}\":{value}}}");
    client.call("PATCH", "/_api/document/c/k", &[], body).status
}

/// Regression: clients got conflicts, though they had not asked for a certain revision.
#[test]
fn changes_of_one_document_by_several_clients_are_all_made() {
    let server = start();
    let mut client = server.client();
    assert_eq!(client.call("POST", "/_api/document/c", &[], br#"{"_key":"k"}"#).status, 202);
    std::thread::scope(|scope| {
        for attribute in 0..CLIENTS {
            let mut client = server.client();
            scope.spawn(move || {
                for value in 0..=CHANGES {
                    assert_eq!(change(&mut client, attribute, value), 202, "{attribute}: {value}");
                }
            });
        }
    });
    let document = client.get("/_api/document/c/k").json();
    for attribute in 0..CLIENTS {
        assert_eq!(document[format!("a{attribute}")], CHANGES, "{document}");
    }
}

/// A store that hands over all writes. While it is fast, it counts as in memory until the next
/// write, before which another writer writes the same.
struct OvertakenStore {
    store: EmbeddedStore,
    is_fast: AtomicBool,
}

impl Store for OvertakenStore {
    fn write(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<WriteOutcome> {
        if self.is_fast.swap(false, Ordering::SeqCst) {
            self.store.write(table, operations, acknowledgement, timeline).wait().unwrap();
        }
        self.store.write(table, operations, acknowledgement, timeline)
    }

    fn local(&self) -> Option<&dyn LocalStore> {
        Some(self)
    }

    pass_on! { store:
        fn table(name: &str) -> Result<Table>;
        fn get(table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>>;
        fn head(table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>>;
        fn scan(table: Table, range: Range<'_>) -> Result<Box<dyn Scan>>;
        fn snapshot() -> Result<Arc<dyn Snapshot>>;
        fn properties() -> Properties;
        fn figures() -> Vec<(&'static str, u64)>;
        fn close() -> Result<()>;
    }
}

impl LocalStore for OvertakenStore {
    fn is_in_memory(&self) -> bool {
        self.is_fast.load(Ordering::SeqCst)
    }

    pass_on! { store:
        fn table_names() -> Result<Vec<String>>;
        fn compact() -> Result<()>;
        fn give_up(
            table: Table,
            operations: &[Operation<'_>],
            acknowledgement: Acknowledgement
        ) -> Result<WriteOutcome>;
    }
}

/// Regression: a client got a conflict if the store became slow while an event loop made the call.
#[test]
fn a_write_of_an_event_loop_that_conflicts_later_is_made_again() {
    let folder = Arc::new(TempDir::new().unwrap());
    let options =
        EmbeddedOptions { hand_over: HandOverPolicy::Always, ..EmbeddedOptions::default() };
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    let store = Arc::new(OvertakenStore { store, is_fast: AtomicBool::new(false) });
    let server = start_on_store(Arc::clone(&store) as Arc<dyn Store>, folder, |_| {});
    let mut client = server.client();
    client.call("POST", "/_api/collection", &[], br#"{"name":"c"}"#).having(200);
    client.call("POST", "/_api/document/c", &[], br#"{"_key":"k"}"#).having(202);
    store.is_fast.store(true, Ordering::SeqCst);
    assert_eq!(change(&mut client, 0, 7), 202);
    assert!(!store.is_fast.load(Ordering::SeqCst));
    assert_eq!(client.get("/_api/document/c/k").json()["a0"], 7);
}

/// Regression: the condition was checked by one read, and another one gave the body, which could be
/// of a later revision.
#[test]
fn a_read_under_a_condition_gives_the_revision_that_it_names() {
    const PATH: &str = "/_api/document/c/k";
    let server = start();
    let mut client = server.client();
    assert_eq!(client.call("POST", "/_api/document/c", &[], br#"{"_key":"k"}"#).status, 202);
    let mut writer = server.client();
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            (0..READ_CHANGES).for_each(|value| assert_eq!(change(&mut writer, 0, value), 202));
        });
        let mut last = client.get(PATH).etag();
        while !writing.is_finished() {
            let answer = client.call("GET", PATH, &[("If-Match", &*last)], b"");
            match answer.status {
                200 => assert_eq!(answer.etag(), last),
                status => assert_eq!(status, 412),
            }
            last = answer.etag();
        }
    });
}

/// Regression: an import first writes a batch as if all its documents were new, and failed if one
/// existed.
#[test]
fn an_import_over_documents_that_are_there_is_made() {
    let server = start();
    let mut client = server.client();
    assert_eq!(client.call("POST", "/_api/document/c", &[], br#"{"_key":"k"}"#).status, 202);
    let lines = "{\"_key\":\"j\"}\n{\"_key\":\"k\",\"n\":1}\n{\"_key\":\"l\"}\n";
    for (duplicate, counts) in [("update", [2, 1, 0, 0]), ("ignore", [0, 0, 3, 0])] {
        let target = format!("/_api/import?collection=c&type=documents&onDuplicate={duplicate}");
        let report = client.call("POST", &target, &[], lines).json();
        let names = ["created", "updated", "ignored", "errors"];
        assert_eq!(names.map(|name| report[name].as_u64().unwrap()), counts, "{report}");
    }
    let several = r#"[{"_key":"m"},{"_key":"k"}]"#;
    let answer = client.call("POST", "/_api/document/c", &[], several);
    assert_eq!((answer.status, answer.json()[1]["errorNum"].as_u64()), (202, Some(1210)));
    assert_eq!(client.get("/_api/document/c/k").json()["n"], 1);
}

/// Regression: what could not be written as new was reported as failed, without a look whether it
/// was there already, unless something else of the batch existed.
#[test]
fn documents_that_are_there_do_not_fail_as_new_ones() {
    let server = start();
    let mut client = server.client();
    client.call("POST", "/_api/collection", &[], br#"{"name":"e","type":3}"#).having(200);
    let index = br#"{"type":"persistent","fields":["x","y"],"unique":true}"#;
    client.call("POST", "/_api/index?collection=c", &[], index).having(201);
    let stored = r#"[{"_key":"a","x":0},{"_key":"b","x":1},{"_key":"k","y":[]}]"#;
    client.call("POST", "/_api/document/c", &[], stored).having(202);
    let edge = r#"{"_key":"e1","_from":"c/a","_to":"c/b"}"#;
    client.call("POST", "/_api/document/e", &[], edge).having(202);
    for (target, items) in [
        ("c?overwriteMode=update", r#"[{"_key":"n1","z":1},{"_key":"a","z":2}]"#),
        ("c?overwriteMode=ignore", r#"[{"_key":"n2","x":2},{"_key":"b","x":2}]"#),
        ("e?overwriteMode=update", r#"[{"_key":"e1","z":2}]"#),
    ] {
        let answer = client.call("POST", &format!("/_api/document/{target}"), &[], items);
        let answer = answer.having(202).json();
        let mut results = answer.as_array().unwrap().iter();
        assert!(results.all(|result| result["error"].is_null()), "{target}: {answer}");
    }
    for place in ["c/a", "e/e1"] {
        assert_eq!(client.get(&format!("/_api/document/{place}")).json()["z"], 2, "{place}");
    }
    client.call("DELETE", "/_api/document/c/n1", &[], b"").having(202);
    let target = "/_api/import?collection=c&type=list&onDuplicate=update&complete=true";
    let report = client.call("POST", target, &[], r#"[{"_key":"k","x":null},{"_key":"n3"}]"#);
    let report = report.having(201).json();
    assert_eq!((report["created"].as_u64(), report["updated"].as_u64()), (Some(1), Some(1)));
}

/// Regression: a document with a new key was reported as not found.
#[test]
fn an_import_over_documents_reports_a_violated_unique_index() {
    let server = start();
    let mut client = server.client();
    let index = br#"{"type":"persistent","fields":["u"],"unique":true}"#;
    client.call("POST", "/_api/index?collection=c", &[], index).having(201);
    client.call("POST", "/_api/document/c", &[], br#"{"_key":"a","u":1}"#).having(202);
    for duplicate in ["update", "replace"] {
        let target = format!("/_api/import?collection=c&type=documents&onDuplicate={duplicate}");
        let mut import = |option: &str| {
            let line = br#"{"_key":"b","u":1}"#;
            client.call("POST", &format!("{target}&{option}=true"), &[], line)
        };
        assert_eq!(number(&import("complete")), (409, 1210), "{duplicate}");
        let report = import("details").json();
        let detail = report["details"][0].as_str().unwrap();
        assert!(detail.contains("unique constraint violated"), "{detail}");
    }
}
