//! Files of a store that are truncated while a server has it open: requests that need the missing
//! part fail, and all others are answered. Regression: the first such request ended the server.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;
#[path = "../src/isolated_process.rs"]
mod isolated_process;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use common::nodes::{Node, Nodes, free_addresses, list_of, options, try_start};
use common::{Client, entity, start_with};
use pellucid_account::Timeline;
use pellucid_embedded::EmbeddedStore;
use pellucid_io::{FileBytes, FileSystem, MapMode, SystemFileSystem, pass_on};
use pellucid_server::{EmbeddedOptions, Log, start_on};
use pellucid_store::{
    Acknowledgement, Answer, Head, Object, Operation, Properties, Range, Result, Scan, Snapshot,
    Store, Table, Value, WriteOutcome,
};
use tempfile::TempDir;

const KEYS: u32 = 8_000;
const PAGE_BYTES: u64 = 4_096;

fn path_of(folder: &Path, kind: &str) -> PathBuf {
    let folders = [folder.join("journal"), folder.join("ledger")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == kind));
    files.sort();
    files.into_iter().max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap()
}

/// The oldest segment of the journal, which is sealed.
fn segment_of(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder.join("journal")).unwrap();
    files.map(|entry| entry.unwrap().path()).min().unwrap()
}

fn cut(path: &Path, length: u64) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// Requests all keys in `client`'s server, and returns how many were answered with 200 and how many
/// with 500. The text of each error must name one of `paths`.
fn ask(client: &mut Client, method: &str, paths: &[&Path]) -> (u32, u32) {
    let (mut there, mut refused) = (0, 0);
    for key in 0..KEYS {
        let answer = client.call(method, &entity(format!("key-{key}")), &[], b"");
        match answer.status {
            200 => there += 1,
            500 if method == "HEAD" => refused += 1,
            500 => {
                let text = answer.text();
                let is_named = paths.iter().any(|path| text.contains(path.to_str().unwrap()));
                assert!(is_named && text.contains("at offset"), "{text}");
                refused += 1;
            }
            status => panic!("{method} of {key}: {status} {}", answer.text()),
        }
    }
    (there, refused)
}

#[test]
fn a_missing_page_fails_its_request_and_names_file_and_offset() {
    const NAME: &str = "a_missing_page_fails_its_request_and_names_file_and_offset";
    isolated_process::run(NAME, || {
        let mut folder = PathBuf::new();
        let running = start_with(|options| {
            folder = options.data.clone();
            // Little memory, so that most of the keys are in tables.
            options.embedded.memory_bytes = 1 << 20;
        });
        let mut client = running.client();
        for key in 0..KEYS {
            let value = vec![key as u8; 100 + (key as usize * 7_919) % 251];
            assert!(client.put(&entity(format!("key-{key}")), value).status < 300);
        }
        assert_eq!(client.call("PUT", "/_admin/compact", &[], b"").status, 200);
        let table = path_of(&folder, "table");
        assert_eq!(ask(&mut client, "HEAD", &[&table]), (KEYS, 0));
        let length = std::fs::metadata(&table).unwrap().len();
        cut(&table, length / 2 / PAGE_BYTES * PAGE_BYTES);
        let (there, refused) = ask(&mut client, "HEAD", &[&table]);
        assert!(there > KEYS / 5 && refused > KEYS / 5, "{there} and {refused}");
        // Requests that need no block of the table are answered: a new write is accepted, and read.
        assert!(client.put(&entity("new"), b"value").status < 300);
        assert_eq!(client.get(&entity("new")).text(), "value");
        let journal = segment_of(&folder);
        cut(&journal, 50 * PAGE_BYTES);
        let (there, refused) = ask(&mut client, "GET", &[&table, &journal]);
        assert!(there > 100 && refused > 100, "{there} and {refused}");
        // Regression: such a stream of changes ended without a word.
        let changes = client.get("/v0/changes?since=0").text().to_owned();
        let last = changes.lines().last().unwrap_or_default();
        assert!(last.contains("\"error\":") && last.contains("at offset"), "{last}");
        assert_eq!(client.get("/_admin/status").status, 200);
    });
}

/// A store whose large values lose their last page after they were checked.
struct LossyStore(EmbeddedStore);
struct LossyScan(Box<dyn Scan>);

/// The length from which values are large.
const LARGE: usize = 1_000;

fn lose(object: Object) -> Object {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let length = object.value.len();
    if length < LARGE {
        return object;
    }
    let name = format!("pellucid-lost-{}-", std::process::id());
    let path =
        std::env::temp_dir().join(name + &NUMBER.fetch_add(1, Ordering::Relaxed).to_string());
    let file = SystemFileSystem.create(&path).unwrap();
    file.write_all_at(&object.value, 0).unwrap();
    let map = file.map(length as u64, MapMode::Read).unwrap();
    // SAFETY: these are all bytes of the map, which nobody writes.
    let bytes = unsafe { FileBytes::mapped(&map, map.pointer(), length) };
    file.set_length((length as u64 - 1) / PAGE_BYTES * PAGE_BYTES).unwrap();
    std::fs::remove_file(path).unwrap();
    Object { value: Value::Mapped(bytes), ..object }
}

impl Scan for LossyScan {
    fn next(&mut self) -> Result<Option<(&[u8], Object)>> {
        Ok(self.0.next()?.map(|(key, object)| (key, lose(object))))
    }

    fn next_head(&mut self) -> Result<Option<(&[u8], Head)>> {
        self.0.next_head()
    }
}

impl Store for LossyStore {
    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>> {
        self.0.get(table, key, timeline).map(|found| found.map(lose))
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        Ok(Box::new(LossyScan(self.0.scan(table, range)?)))
    }

    pass_on! { 0:
        fn table(name: &str) -> Result<Table>;
        fn head(table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>>;
        fn write(
            table: Table,
            operations: &[Operation<'_>],
            acknowledgement: Acknowledgement,
            timeline: &mut Timeline
        ) -> Answer<WriteOutcome>;
        fn snapshot() -> Result<Arc<dyn Snapshot>>;
        fn properties() -> Properties;
        fn figures() -> Vec<(&'static str, u64)>;
        fn close() -> Result<()>;
    }
}

/// Two nodes, of which the second has a store that loses pages.
fn start_losing() -> Nodes {
    let addresses = free_addresses(2);
    let (list, folders) = (list_of(&addresses), [(); 2].map(|()| TempDir::new().unwrap()));
    let store = EmbeddedStore::open(folders[1].path(), EmbeddedOptions::default()).unwrap();
    let of_second = options(&folders[1], addresses[1], &list);
    let second = start_on(Arc::new(LossyStore(store)), of_second, Log::new(|_| {})).unwrap();
    let (first, log) = try_start(options(&folders[0], addresses[0], &list)).unwrap();
    let servers = [(first, log), (second, Arc::default())];
    let nodes = servers.into_iter().zip(addresses).zip(folders);
    let nodes = nodes.map(|(((server, log), address), folder)| {
        let server = Some(server);
        Node { server, address, folder, log }
    });
    let nodes = Nodes { nodes: nodes.collect(), list };
    (0..2).for_each(|node| nodes.wait_for_all(node));
    nodes
}

/// Regression: a page that was lost between the check of a value and its copy came to clients and
/// other nodes as zeros in a good answer.
#[test]
fn a_page_that_is_lost_before_the_copy_fails_its_request() {
    let nodes = start_losing();
    let mut keys = nodes.keys_of(1);
    // The second value is streamed, and its last piece is not there.
    let (small, large) = (keys.next().unwrap(), keys.next().unwrap());
    for (key, length) in [(&small, 5_000), (&large, 70_000)] {
        nodes.client(1).call("PUT", &entity(key), &[], "v".repeat(length)).having(201);
    }
    for coding in ["identity", "gzip"] {
        let headers = [("Accept-Encoding", coding)];
        for (node, key) in [(1, &small), (0, &small), (0, &large)] {
            let mut client = nodes.client(node);
            let answer = client.call("GET", &entity(key), &headers, b"").having(500);
            assert!(answer.text().contains("could not be read"), "{}", answer.text());
            assert!(answer.header("ETag").is_none() && answer.header("Vary").is_none());
            assert_eq!(client.get("/v0/status").status, 200, "the connection goes on");
        }
        let streamed = nodes.client(1).try_call("GET", &entity(&large), &headers, b"");
        assert!(streamed.is_err(), "{:?}", streamed.map(|answer| answer.status));
    }
    for (node, target) in [(1, "/v0/entities?start=k"), (0, "/v0/entities?start=k&cluster=true")] {
        for accept in ["*/*", "application/x-ndjson"] {
            let range = nodes.client(node).try_call("GET", target, &[("Accept", accept)], b"");
            let is_whole = range.is_ok_and(|answer| answer.status == 200);
            assert!(!is_whole, "{target}, {accept}");
        }
    }
}
