//! `/_admin/backup`: backups while the server runs.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Client, EndOnDrop, TestServer, entity, serve, start, start_on, wait_until};
use pellucid_engine::{EngineOptions, restore};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Makes a call of the backup API, and returns the status and the body of the answer.
fn ask(client: &mut Client, call: &str, body: &Value) -> (u16, Value) {
    let target = format!("/_admin/backup/{call}");
    let answer = client.call("POST", &target, &[], body.to_string());
    (answer.status, answer.json())
}

/// Restores a backup into a new folder, and starts a server on it.
fn restored(server: &TestServer, id: &str) -> TestServer {
    let (folder, files) = (TempDir::new().unwrap(), EngineOptions::default().file_system);
    let backup = server.folder().join("backups").join(id);
    restore(backup, folder.path(), &*files).unwrap();
    start_on(Arc::new(folder), |_| {})
}

#[test]
fn a_backup_while_writing_holds_all_that_was_acknowledged_before_it() {
    let server = start();
    let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let (id, before, after) = std::thread::scope(|scope| {
        let _ends = EndOnDrop(&is_over);
        scope.spawn(|| {
            let mut client = server.client();
            while !is_over.load(Ordering::Acquire) {
                let number = acknowledged.load(Ordering::Relaxed) + 1;
                let status = client.put(&entity(format!("k{number}")), number.to_string()).status;
                assert_eq!(status, 201);
                acknowledged.store(number, Ordering::Release);
            }
        });
        let mut client = server.client();
        let mut last = Value::Null;
        wait_until(|| acknowledged.load(Ordering::Acquire), |count| *count >= 100);
        for label in ["one", "two", "three"] {
            let before = acknowledged.load(Ordering::Acquire);
            let (status, body) = ask(&mut client, "create", &json!({"label": label}));
            assert_eq!((status, &body["error"]), (201, &json!(false)), "{body}");
            let after = acknowledged.load(Ordering::Acquire);
            last = json!([body["result"]["id"], before, after]);
        }
        let id = last[0].as_str().unwrap().to_owned();
        (id, last[1].as_u64().unwrap(), last[2].as_u64().unwrap())
    });
    assert!(id.ends_with("Z_three"), "{id}");
    let backup = restored(&server, &id);
    let mut client = backup.client();
    for number in 1..=before {
        assert_eq!(client.get(&entity(format!("k{number}"))).text(), number.to_string());
    }
    // One write may have been on its way.
    assert_eq!(client.get(&entity(format!("k{}", after + 2))).status, 404);
}

#[test]
fn backups_are_listed_and_removed() {
    let (server, mut client) = serve();
    let none = (200, json!({"error": false, "code": 200, "result": {"list": {}}}));
    assert_eq!(ask(&mut client, "list", &json!({})), none);
    client.put(&entity("a"), "1");
    let made = client.call("POST", "/_admin/backup", &[], "").json();
    let id = made["result"]["id"].as_str().unwrap().to_owned();
    assert_eq!(made["result"]["addedBytes"], made["result"]["sizeInBytes"], "{made}");
    let listed = client.get("/_admin/backup").json();
    assert_eq!(listed["result"]["list"], json!({ (id.clone()): made["result"] }));
    assert_eq!(ask(&mut client, "list", &json!({"id": id})).1["result"], listed["result"]);
    // The backup is still there after a restart, and the store is unchanged.
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(client.get("/_admin/backup").json(), listed);
    assert_eq!(client.get(&entity("a")).text(), "1");
    assert_eq!(ask(&mut client, "delete", &json!({"id": id})).0, 200);
    assert_eq!(ask(&mut client, "list", &json!({})), none);
}

/// A server with 1.8 MB of entries, whose backups are on another file system, so files are copied.
fn start_with_backups_elsewhere() -> (TestServer, TempDir) {
    let (server, other) = (start(), tempfile::tempdir_in("/dev/shm").unwrap());
    let device = |path: &Path| std::fs::metadata(path).unwrap().dev();
    assert_ne!(device(server.folder()), device(other.path()), "set TMPDIR to another file system");
    std::os::unix::fs::symlink(other.path(), server.folder().join("backups")).unwrap();
    let mut client = server.client();
    for number in 0..3 {
        assert_eq!(client.put(&entity(format!("k{number}")), vec![7; 600_000]).status, 201);
    }
    (server, other)
}

/// Makes a backup with this label, slowly, and calls `watch` with each progress that `GET` shows.
fn make_slowly(server: &TestServer, label: &str, mut watch: impl FnMut(&Value)) -> (u16, Value) {
    let mut client = server.client();
    std::thread::scope(|scope| {
        let making = scope.spawn(|| {
            let call = json!({"label": label, "bytesPerSecond": 1 << 20});
            ask(&mut server.client(), "create", &call)
        });
        while !making.is_finished() {
            let result = client.get("/_admin/backup").json()["result"].take();
            if let Some(id) = result["progress"]["id"].as_str() {
                assert!(id.ends_with(label), "{result}");
                watch(&result["progress"]);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        making.join().unwrap()
    })
}

#[test]
fn a_backup_elsewhere_is_copied_at_a_bounded_speed_and_shows_its_progress() {
    let (server, _other) = start_with_backups_elsewhere();
    let mut seen = Vec::new();
    let (status, made) = make_slowly(&server, "slow", |progress| {
        let number = |name: &str| progress[name].as_u64().unwrap();
        seen.push((number("doneBytes"), number("totalBytes")));
    });
    assert_eq!(status, 201, "{made}");
    assert!(
        seen.is_sorted() && seen.iter().any(|(done, all)| (1..*all).contains(done)),
        "{seen:?}"
    );
    let listed = server.client().get("/_admin/backup").json();
    assert_eq!(listed["result"]["progress"], Value::Null);
    let backup = restored(&server, made["result"]["id"].as_str().unwrap());
    assert_eq!(backup.client().get(&entity("k2")).body.len(), 600_000);
}

#[test]
fn a_backup_that_is_removed_while_it_is_made_leaves_nothing() {
    let (server, _other) = start_with_backups_elsewhere();
    let mut client = server.client();
    let (status, answer) = make_slowly(&server, "removed", |progress| {
        let removed = ask(&mut client, "delete", &json!({"id": progress["id"]}));
        // The backup may be gone since the last look.
        assert!([200, 404, 503].contains(&removed.0), "{}", removed.1);
    });
    assert_eq!((status, &answer["errorNum"]), (410, &json!(1500)), "{answer}");
    let listed = server.client().get("/_admin/backup").json();
    assert_eq!(listed["result"], json!({"list": {}}));
}

#[test]
fn bad_calls_are_refused_and_make_nothing() {
    let (server, mut client) = serve();
    for (call, body, status, number) in [
        ("create", json!({"label": "../x"}), 400, 10),
        ("create", json!({"label": "x".repeat(200)}), 400, 10),
        ("create", json!({"label": 7}), 400, 400),
        ("create", json!({"label": "x".repeat(104)}), 400, 10),
        ("create", json!({"bytesPerSecond": 1000}), 400, 400),
        ("create", json!({"speed": 1}), 400, 400),
        ("create", json!([]), 400, 400),
        ("create", json!({"bytesPerSecond": -1}), 400, 400),
        ("list", json!({"id": "none"}), 404, 404),
        ("delete", json!({"id": "none"}), 404, 404),
        ("delete", json!({"id": ".."}), 400, 10),
        ("delete", json!({}), 400, 400),
    ] {
        let (found, answer) = ask(&mut client, call, &body);
        assert_eq!((found, &answer["errorNum"]), (status, &json!(number)), "{call} {answer}");
    }
    let refused = client.call("GET", "/_admin/backup/create", &[], "");
    assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")));
    assert_eq!(client.call("POST", "/_admin/backup/create", &[], "{").status, 400);
    assert!(!server.folder().join("backups").exists());
}
