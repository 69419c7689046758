//! Requests that would wait for the disk leave their event loop, which continues to serve others.

use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::common::{
    Client, PATIENCE, TestServer, entity, request, start_on_store, start_with, start_with_store,
    wait_until,
};
use pellucid_account::Timeline;
use pellucid_clock::{Clock, SimulatedClock};
use pellucid_embedded::EmbeddedStore;
use pellucid_engine::EngineOptions;
use pellucid_io::{File, FileSystem, LockGuard, Map, MapMode, SystemFileSystem, pass_on};
use pellucid_server::{EmbeddedOptions, HandOverPolicy, ServerError};
use pellucid_store::{Acknowledgement, Answer, Condition, Operation, Store};
use tempfile::TempDir;

/// A disk on which reads block while it is held.
#[derive(Default)]
struct Disk {
    is_cold: AtomicBool,
    is_held: Mutex<bool>,
    released: Condvar,
}

impl Disk {
    /// From now on, no page counts as in memory, and reads block.
    fn hold(&self) {
        self.is_cold.store(true, Ordering::SeqCst);
        *self.is_held.lock().unwrap() = true;
    }

    fn release(&self) {
        *self.is_held.lock().unwrap() = false;
        self.released.notify_all();
    }

    fn wait(&self) {
        let held = self.is_held.lock().unwrap();
        drop(self.released.wait_while(held, |held| *held).unwrap());
    }
}

/// Files of which those in one folder of the store are on the disk.
struct SlowFileSystem(SystemFileSystem, Arc<Disk>, &'static str);
struct SlowFile(Arc<dyn File>, Arc<Disk>);
struct SlowMap(Arc<dyn Map>, Arc<Disk>);

impl SlowFileSystem {
    fn slow(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        let is_slow = path.parent().is_some_and(|folder| folder.ends_with(self.2));
        if is_slow { Arc::new(SlowFile(file, Arc::clone(&self.1))) } else { file }
    }
}

impl FileSystem for SlowFileSystem {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(self.slow(path, self.0.create(path)?))
    }

    fn open(&self, path: &Path, writable: bool) -> io::Result<Arc<dyn File>> {
        Ok(self.slow(path, self.0.open(path, writable)?))
    }

    pass_on! { 0:
        fn rename(from: &Path, to: &Path) -> io::Result<()>;
        fn remove(path: &Path) -> io::Result<()>;
        fn list(directory: &Path) -> io::Result<Vec<String>>;
        fn create_directory(directory: &Path) -> io::Result<()>;
        fn sync_directory(directory: &Path) -> io::Result<()>;
        fn exists(path: &Path) -> bool;
        fn hard_link(from: &Path, to: &Path) -> io::Result<()>;
        fn lock(path: &Path) -> io::Result<LockGuard>;
        fn free_bytes(directory: &Path) -> io::Result<u64>;
        fn mount_identity(directory: &Path) -> [u8; 16];
    }
}

impl File for SlowFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.wait();
        self.0.read_exact_at(buffer, offset)
    }

    fn map(&self, length: u64, mode: MapMode) -> io::Result<Arc<dyn Map>> {
        Ok(Arc::new(SlowMap(self.0.map(length, mode)?, Arc::clone(&self.1))))
    }

    pass_on! { 0:
        fn write_all_at(bytes: &[u8], offset: u64) -> io::Result<()>;
        fn length() -> io::Result<u64>;
        fn set_length(length: u64) -> io::Result<()>;
        fn allocate(length: u64) -> io::Result<()>;
        fn sync() -> io::Result<()>;
    }
}

impl Map for SlowMap {
    fn is_resident(&self, _offset: usize, _length: usize) -> bool {
        !self.1.is_cold.load(Ordering::SeqCst)
    }

    pass_on! { 0:
        fn pointer() -> *mut u8;
        fn length() -> usize;
    }
}

/// Opens a store of which `slow_folder` is on a disk that the test holds and releases. Its reads
/// always count as slow, as its clock advances by 10 µs with each reading, and its writers seal
/// full segments themselves.
fn open(
    slow_folder: &'static str,
    embedded: EmbeddedOptions,
) -> (Arc<Disk>, Arc<TempDir>, EmbeddedStore) {
    let (disk, folder) = (Arc::new(Disk::default()), Arc::new(TempDir::new().unwrap()));
    let file_system = SlowFileSystem(SystemFileSystem, Arc::clone(&disk), slow_folder);
    let clock = SimulatedClock::leaked(1_700_000_000_000);
    clock.step_by_ns(10_000);
    let engine_options = EngineOptions {
        file_system: Arc::new(file_system),
        segment_size_bytes: 1 << 20,
        clock: Clock::simulated(clock),
        background: false,
        ..EngineOptions::default()
    };
    let store = EmbeddedStore::open_with(folder.path(), embedded, engine_options).unwrap();
    (disk, folder, store)
}

/// Starts a server with one event loop, on a disk that the test holds and releases. The store is
/// filled so far that the first keys are in sealed segments.
fn start(embedded: EmbeddedOptions) -> (Arc<Disk>, TestServer) {
    let (disk, folder, store) = open("journal", embedded);
    let server = start_on_store(Arc::new(store), folder, |options| {
        options.threads = 1;
        options.limits.stop = Duration::from_secs(1);
    });
    put_values(&server, 0..300);
    (disk, server)
}

/// Puts the keys with these numbers. A hundred of them fill a segment at least, so that what was
/// written before is sealed.
fn put_values(server: &TestServer, numbers: Range<usize>) {
    let mut client = server.client();
    for number in numbers {
        client.put(&format!("/v0/entity?id=key-{number}"), value(number)).having(201);
    }
}

/// True if no byte of an answer has come.
fn is_unanswered(client: &Client) -> bool {
    client.socket.set_nonblocking(true).unwrap();
    let peeked = client.socket.peek(&mut [0]);
    client.socket.set_nonblocking(false).unwrap();
    peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// The longest `queue` of the operation's requests, in nanoseconds.
fn queue_ns(server: &TestServer, operation: &str) -> u64 {
    let account = server.account();
    let of = account.operations.iter().find(|found| found.operation == operation).unwrap();
    of.phases.iter().find(|phase| phase.name == "queue").unwrap().distribution.max_ns
}

fn value(number: usize) -> Vec<u8> {
    number.to_string().repeat(8_000).into_bytes()
}

#[test]
fn a_read_that_waits_for_the_disk_does_not_delay_its_neighbours() {
    let (disk, server) = start(EmbeddedOptions::default());
    let mut waiting = server.client();
    let mut beside = server.client();
    disk.hold();
    waiting.send(b"GET /v0/entity?id=key-3 HTTP/1.1\r\nHost: a\r\nPrefer: timing\r\n\r\n");
    // All are on the only event loop, and all are answered while the read waits.
    assert_eq!(beside.call("PUT", "/v0/entity?id=small", &[], b"in memory").status, 201);
    assert_eq!(beside.get("/v0/entity?id=small").body, b"in memory");
    assert_eq!(beside.get("/v0/status").status, 200);
    assert!(is_unanswered(&waiting));
    disk.release();
    let answer = waiting.answer();
    assert_eq!((answer.status, answer.body == value(3)), (200, true));
}

/// Regression: a condition waited for the disk under the lock of all writers.
#[test]
fn a_condition_on_a_key_that_is_not_in_memory_is_checked_by_a_worker() {
    let (disk, _folder, store) = open("ledger", EmbeddedOptions::default());
    let (table, off) = (store.table("t").unwrap(), &mut Timeline::off());
    let put = Operation::plain(b"key", Some(b"value"));
    store.write(table, &[put], Acknowledgement::Os, off).wait().unwrap();
    store.local().unwrap().compact().unwrap();
    disk.is_cold.store(true, Ordering::SeqCst);
    let over = Operation { condition: Condition::Present, ..put };
    let answer = store.write(table, &[over], Acknowledgement::Os, off);
    assert!(matches!(answer, Answer::Later(_)));
    answer.wait().unwrap();
    // A key without a condition is not looked up, and the last write is in memory.
    for operation in [put, over] {
        let answer = store.write(table, &[operation], Acknowledgement::Os, off);
        assert!(matches!(answer, Answer::Now(Ok(_))));
    }
}

/// The expected body of the range of keys with the prefix `key-3`, up to `limit` entries.
fn range_of_threes(limit: usize) -> Vec<u8> {
    let mut keys: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    keys.retain(|number| number.starts_with('3'));
    keys.sort();
    let entry = |number: &String| {
        [format!("key-{number}\n").into_bytes(), value(number.parse().unwrap())].concat()
    };
    keys.iter().take(limit).flat_map(entry).collect()
}

#[test]
fn a_range_that_waits_for_the_disk_does_not_delay_its_neighbours() {
    let (disk, server) = start(EmbeddedOptions::default());
    let mut beside = server.client();
    // A short range is tried on its event loop, a long one is not; both have more than one piece.
    for (limit, entries) in [("&limit=11", 11), ("", usize::MAX)] {
        let mut waiting = server.client();
        disk.hold();
        let target = format!("/v0/entities?start=key-3&end=key-4{limit}");
        waiting.send(&request("GET", &target, &[], b""));
        // All are on the only event loop, and all are answered while the range waits.
        assert_eq!(beside.call("PUT", "/v0/entity?id=small", &[], b"in memory").status, 201);
        assert_eq!(beside.get("/v0/entity?id=small").body, b"in memory");
        assert_eq!(beside.get("/v0/status").status, 200);
        disk.release();
        let answer = waiting.answer();
        let is_whole = answer.body == range_of_threes(entries);
        assert_eq!((answer.status, is_whole), (200, true), "{limit}");
    }
}

/// The first pieces come from memory, and the following ones do not.
#[test]
fn a_range_that_leaves_memory_midway_delays_no_other_request() {
    /// More than twice as many as the buffers of the connection take.
    const ENTRIES: usize = 1_300;
    let (disk, server) = start(EmbeddedOptions::default());
    put_values(&server, 300..ENTRIES);
    let ask = request("GET", "/v0/entities?start=key-", &[("Connection", "close")], b"");
    let mut reader = server.sent(&ask);
    let mut beside = server.client();
    reader.try_head().unwrap().having(200);
    disk.hold();
    // While the buffers are full, no piece is made that could wait for the disk.
    reader.socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut bytes = 0;
    while let Ok(count @ 1..) = reader.socket.read(&mut [0; 64 << 10]) {
        bytes += count;
    }
    let entry = |number: usize| format!("key-{number}\n").len() + value(number).len();
    let all = (0..ENTRIES).map(entry).sum::<usize>();
    assert!(bytes < all / 2, "{bytes} bytes came from a held disk");
    assert_eq!(beside.call("PUT", "/v0/entity?id=small", &[], b"in memory").status, 201);
    assert_eq!(beside.get("/v0/entity?id=small").body, b"in memory");
    disk.release();
    reader.socket.set_read_timeout(Some(PATIENCE)).unwrap();
    bytes += reader.rest().len();
    // The bytes of the chunks' framing are fewer than one in a hundred.
    assert!((all..all + all / 100).contains(&bytes), "{bytes} of {all} bytes");
}

#[test]
fn a_short_range_in_memory_stays_on_its_event_loop_and_a_long_one_leaves_it() {
    for mode in [HandOverPolicy::Auto, HandOverPolicy::Always, HandOverPolicy::Never] {
        let server = start_with(|options| options.embedded.hand_over = mode);
        let mut client = server.client();
        assert_eq!(client.call("PUT", "/v0/entity?id=a", &[], b"one").status, 201);
        let queue_ns = || queue_ns(&server, "entity_range");
        assert_eq!(client.get("/v0/entities?start=a&limit=128").body, b"a\none", "{mode:?}");
        assert_eq!(queue_ns() > 0, mode == HandOverPolicy::Always, "{mode:?}");
        for query in ["start=a&limit=129", "start=a"] {
            assert_eq!(client.get(&format!("/v0/entities?{query}")).body, b"a\none", "{mode:?}");
        }
        assert_eq!(queue_ns() > 0, mode != HandOverPolicy::Never, "{mode:?}");
    }
}

/// Regression: a query that does not check its kill switch kept the server from ending, whatever
/// `--stop-timeout` was.
#[test]
fn a_stop_waits_for_threads_only_until_its_timeout() {
    let (disk, mut server) = start(EmbeddedOptions::default());
    let mut client = server.client();
    assert!(client.call("POST", "/_api/collection", &[], br#"{"name":"c"}"#).status < 300);
    for number in 0..200 {
        let document = serde_json::json!({ "_key": number.to_string(), "v": "v".repeat(30_000) });
        let made = client.call("POST", "/_api/document/c", &[], document.to_string());
        assert!(made.status < 300, "{}", made.text());
    }
    disk.hold();
    let query = br#"{"query":"FOR d IN c FILTER d.v == 'stuck' RETURN d"}"#;
    let mut waiting = server.client();
    waiting.send(&request("POST", "/_api/cursor", &[], query));
    let running = || client.get("/_api/query/current").text().to_owned();
    wait_until(running, |queries| queries.contains("stuck"));
    let (sender, stopped) = std::sync::mpsc::channel();
    let stop = std::thread::spawn(move || {
        sender.send(server.stop()).unwrap();
        server
    });
    let outcome = stopped.recv_timeout(Duration::from_secs(60));
    disk.release();
    let Ok(Err(ServerError::Stuck(text))) = outcome else { panic!("{outcome:?}") };
    assert!(text.contains("FILTER d.v == 'stuck'"), "{text}");
    // Acknowledged writes are there, and the store is no longer locked.
    let server = stop.join().unwrap().restart();
    assert_eq!(server.client().get("/_api/document/c/199").status, 200);
}

#[test]
fn reads_beyond_the_limit_of_waiting_ones_are_503_at_once() {
    let embedded = EmbeddedOptions { handed_over_max: 0, ..EmbeddedOptions::default() };
    let (disk, server) = start(embedded);
    disk.hold();
    let answer = server.client().get("/v0/entity?id=key-3").having(503);
    assert_eq!(answer.header("Retry-After"), Some("1"));
    let range = server.client().get("/v0/entities?start=key-3");
    assert_eq!((range.status, range.header("Retry-After")), (503, Some("1")));
    disk.release();
}

/// Regression: while the queue of the workers was full, event loops made the pieces of ranges.
#[test]
fn the_pieces_of_a_range_wait_for_a_worker_behind_a_full_queue() {
    let (store, server) = start_with_store(EngineOptions::default());
    // More than twice as much as the buffers of the connection take.
    let value = "v".repeat(32 << 20);
    assert_eq!(server.client().put(&entity("large"), &value).status, 201);
    let ask = request("GET", "/v0/entities?start=l", &[("Connection", "close")], b"");
    let mut reader = server.sent(&ask);
    assert_eq!(reader.try_head().unwrap().status, 200);
    let (is_released, workers) = (Arc::new(AtomicBool::new(false)), store.workers().unwrap());
    let hold = || {
        while let Some(place) = workers.reserve() {
            let is_released = Arc::clone(&is_released);
            place.run(move || {
                while !is_released.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
    };
    hold();
    reader.socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut bytes = 0;
    while let Ok(count @ 1..) = reader.socket.read(&mut [0; 64 << 10]) {
        bytes += count;
        hold();
    }
    is_released.store(true, Ordering::SeqCst);
    assert!(bytes < value.len() / 2, "{bytes} bytes came without a worker");
    reader.socket.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(bytes + reader.rest().len() > value.len(), "the rest does not come");
}

/// Regression: a range in memory that filled more than one piece made reads count as slow.
#[test]
fn a_range_in_memory_of_several_pieces_leaves_reads_fast() {
    // Simulated reads take no time, so each in memory counts as fast.
    let clock = Clock::simulated(SimulatedClock::leaked(1_700_000_000_000));
    let options = EngineOptions { clock, background: false, ..EngineOptions::default() };
    let (store, server) = start_with_store(options);
    let mut client = server.client();
    // Each fills a piece. The event loop reads the first, and a worker reads all three: after four
    // fast reads, a store that was just opened no longer counts as slow.
    let value = "v".repeat(64 << 10);
    for key in ["a", "b", "c"] {
        assert_eq!(client.put(&entity(key), &value).status, 201);
    }
    let is_in_memory = || store.local().unwrap().is_in_memory();
    assert!(!is_in_memory(), "it was just opened");
    let range = client.get("/v0/entities?start=a&limit=3").having(200);
    assert!(range.body.len() > 3 * value.len());
    assert!(is_in_memory());
}

#[test]
fn every_mode_answers_alike_and_always_shows_the_wait_as_queue() {
    for mode in [HandOverPolicy::Auto, HandOverPolicy::Always, HandOverPolicy::Never] {
        let server = start_with(|options| options.embedded.hand_over = mode);
        let mut client = server.client();
        assert_eq!(client.call("PUT", "/v0/entity?id=a", &[], b"one").status, 201);
        assert_eq!(client.get("/v0/entity?id=a").body, b"one", "{mode:?}");
        assert_eq!(client.call("HEAD", "/v0/entity?id=a", &[], b"").status, 200);
        assert_eq!(client.call("DELETE", "/v0/entity?id=a", &[], b"").status, 202);
        assert_eq!(client.get("/v0/entity?id=a").status, 404);
        let line = b"{\"op\":\"put\",\"key\":\"Yg==\",\"value\":\"dHdv\"}\n";
        let large = line.repeat(10_000);
        let answer = client.call("POST", "/v0/batch", &[], &large);
        assert_eq!((answer.status, &answer.json()["entries"]), (200, &10_000.into()));
        let broken = [&large[..], b"nonsense\n"].concat();
        assert_eq!(client.call("POST", "/v0/batch", &[], &broken).status, 400);
        assert_eq!(client.get("/v0/entity?id=b").body, b"two");
        assert_eq!(queue_ns(&server, "entity_get") > 0, mode == HandOverPolicy::Always, "{mode:?}");
    }
}

/// Regression: after one slow read all queries went to the workers. Each query tries on its event
/// loop, and goes to a worker only if a page that it needs is not in memory.
#[test]
fn a_query_leaves_its_event_loop_only_if_a_page_is_not_in_memory() {
    let (disk, server) = start(EmbeddedOptions::default());
    let mut client = server.client();
    let mut post = |target: &str, body: String| {
        let answer = client.call("POST", target, &[], body);
        assert!(answer.status < 300, "{}", answer.text());
        answer
    };
    post("/_api/collection", r#"{"name":"c"}"#.into());
    post("/_api/index?collection=c", r#"{"type":"persistent","fields":["n"]}"#.into());
    let text = "x".repeat(300);
    for n in 0..10 {
        post("/_api/document/c", format!(r#"{{"n":{n},"text":"{text}"}}"#));
    }
    let query = r#"FOR d IN c FILTER d.n == @n RETURN d"#;
    let body = |n: u32| format!(r#"{{"query":"{query}","bindVars":{{"n":{n}}}}}"#);
    // A worker plans the first query.
    post("/_api/cursor", body(0));
    for n in 1..5 {
        let answer = post("/_api/cursor", body(n));
        assert_eq!(answer.json()["result"][0]["n"], n);
        assert_eq!(answer.header("X-Arango-Queue-Time-Seconds"), Some("0.000000"));
    }
    put_values(&server, 300..400);
    disk.hold();
    let mut waiting = server.client();
    waiting.send(&request("POST", "/_api/cursor", &[], body(7).as_bytes()));
    assert_eq!(client.get("/v0/status").status, 200);
    assert_eq!(client.get("/_api/version").status, 200);
    assert!(is_unanswered(&waiting));
    disk.release();
    let answer = waiting.answer();
    assert_eq!((answer.status, &answer.json()["result"][0]["text"]), (201, &text.into()));
    assert_ne!(answer.header("X-Arango-Queue-Time-Seconds"), HERE.1);
}

/// Regression: while reads were slow, each read of a document went to the workers. It tries on its
/// event loop, as queries do.
#[test]
fn a_document_leaves_its_event_loop_only_if_it_is_not_in_memory() {
    let (disk, server) = start(EmbeddedOptions::default());
    let mut client = server.client();
    client.call("POST", "/_api/collection", &[], br#"{"name":"c"}"#).having(200);
    let text = "x".repeat(300);
    for n in 0..10 {
        let body = format!(r#"{{"_key":"{n}","text":"{text}"}}"#);
        assert_eq!(client.call("POST", "/_api/document/c", &[], body).status, 202);
    }
    for n in 0..10 {
        for method in ["GET", "HEAD"] {
            let answer = client.call(method, &format!("/_api/document/c/{n}"), &[], "");
            assert_eq!((answer.status, answer.header("X-Arango-Queue-Time-Seconds")), HERE);
        }
    }
    let missing = client.get("/_api/document/c/missing");
    assert_eq!((missing.status, missing.json()["errorNum"].as_u64()), (404, Some(1202)));
    put_values(&server, 300..400);
    disk.hold();
    let mut waiting = server.client();
    waiting.send(&request("GET", "/_api/document/c/7", &[], b""));
    assert_eq!(client.get("/_api/version").status, 200);
    assert!(is_unanswered(&waiting));
    disk.release();
    let answer = waiting.answer();
    assert_eq!((answer.status, &answer.json()["text"]), (200, &text.into()));
    assert_ne!(answer.header("X-Arango-Queue-Time-Seconds"), HERE.1);
}

/// The status and the queue time of an answer that was made on its event loop.
const HERE: (u16, Option<&str>) = (200, Some("0.000000"));

/// Regression: the copy of a batch, or of a write with a condition, that waits for a worker was in
/// no budget, so that clients that went away left copies behind without a limit.
#[test]
fn the_copy_of_a_write_counts_until_a_worker_has_written_it() {
    let (folder, hand_over) = (Arc::new(TempDir::new().unwrap()), HandOverPolicy::Always);
    let embedded = EmbeddedOptions { hand_over, ..EmbeddedOptions::default() };
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(folder.path(), embedded).unwrap());
    let server = start_on_store(Arc::clone(&store), folder, |_| {});
    let batch = |condition: &str, bytes: usize| {
        let value = "dnZ2".repeat(bytes / 4);
        let line = format!(r#"{{"op":"put","key":"YQ==",{condition}"value":"{value}"}}"#);
        (request("POST", "/v0/batch", &[], line.as_bytes()), bytes as f64)
    };
    let put = |bytes: usize| {
        let ask = request("PUT", &entity("a"), &[("If-Match", "*")], &vec![b'v'; bytes]);
        (ask, bytes as f64)
    };
    let conditional = batch(r#""if_match":"*","#, 200 << 10);
    for (ask, bytes) in [batch("", 1 << 20), conditional, put(1 << 20)] {
        let mut client = server.client();
        let gate = Arc::new(Mutex::new(()));
        let held = gate.lock().unwrap();
        let mut places: Vec<_> =
            std::iter::from_fn(|| store.workers().unwrap().reserve()).collect();
        // One place is for the write. Each worker takes one of the others before.
        places.pop();
        for place in places {
            let gate = Arc::clone(&gate);
            place.run(move || drop(gate.lock()));
        }
        let memory = "pellucid_request_memory_bytes";
        let mut gone = server.client();
        gone.send(&request("GET", "/v0/status", &[], b""));
        gone.socket.peek(&mut [0]).unwrap();
        gone.send(&ask);
        wait_until(|| client.figure(memory), |held| *held >= 2.0 * bytes);
        // As it has not read the first answer, this resets the connection.
        drop(gone);
        wait_until(|| client.figure("pellucid_connections_open"), |open| *open <= 1.0);
        assert!(client.figure(memory) >= bytes, "the copy is still there");
        drop(held);
        wait_until(|| client.figure(memory), |held| *held == 0.0);
        client.get(&entity("a")).having(200);
    }
}
