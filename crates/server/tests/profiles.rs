//! `/debug/pprof`: profiles of a server under load, read by Go's tools and in browsers' formats.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![allow(clippy::disallowed_types, reason = "a test's own locks are in no profile")]

mod common;

use std::alloc::System;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Client, TestServer, entity, serve, serve_with, start, start_with};
use pellucid_profile::{
    SAMPLE_BYTES, SampledAllocator, allocation_sampling, set_allocation_sampling,
};
use pellucid_thread::{HOLDERS_ONE_IN, Mutex as Lock, set_holder_sampling};

#[global_allocator]
static ALLOCATOR: SampledAllocator<System> = SampledAllocator::new(System);

/// The programs to try for Go, in this order; the last is where Go's own archive installs it.
const GO: [&str; 2] = ["go", "/usr/local/go/bin/go"];

/// Tests of this file share the process's profiler, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Puts and gets until `done` is set; returns the number of rounds.
fn load(address: SocketAddr, seed: u64, done: &AtomicBool) -> u64 {
    let mut client = Client::connect(address);
    let (mut count, value) = (0, vec![b'v'; 300]);
    while !done.load(Ordering::Relaxed) {
        let key = format!("k{}", (seed * 7_919 + count * 31) % 20_000);
        assert!(matches!(client.put(&entity(&key), &value).status, 200 | 201));
        assert_eq!(client.get(&entity(&key)).status, 200);
        count += 1;
    }
    count
}

/// Runs `work` while two clients put and get.
fn under_load<T>(running: &TestServer, work: impl FnOnce() -> T) -> T {
    let (done, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 1..3 {
            let (done, rounds, address) = (&done, &rounds, running.address);
            scope.spawn(move || rounds.fetch_add(load(address, seed, done), Ordering::Relaxed));
        }
        // The clients must end even if the work panics.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The output of `go tool pprof -top` for the file.
fn go_top(file: &[u8], name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{name}.pb.gz"));
    std::fs::write(&path, file).unwrap();
    let go = GO.iter().find_map(|program| pprof(program, &path, folder.path()));
    let go = go.expect("this test needs `go` to read profiles with: install Go 1.20 or later");
    let text = String::from_utf8_lossy(&go.stdout).into_owned();
    assert!(go.status.success(), "{text}{}", String::from_utf8_lossy(&go.stderr));
    text
}

fn pprof(go: &str, file: &Path, folder: &Path) -> Option<Output> {
    let run = Command::new(go)
        .args(["tool", "pprof", "-top", "-nodecount=400"])
        .arg(file)
        .env("GOTOOLCHAIN", "local")
        .env("PPROF_TMPDIR", folder)
        .output();
    run.ok()
}

type HeldLock<'a> = (&'a Lock<()>, &'a Receiver<PathBuf>);

/// Holds the lock until the thread whose path it receives waits for it, and somewhat longer.
fn hold((lock, waiter): HeldLock<'_>, held: &Sender<()>) {
    let guard = lock.lock();
    held.send(()).unwrap();
    let thread = Path::new("/proc").join(waiter.recv().unwrap()).join("stat");
    let is_asleep = || {
        let stat = std::fs::read_to_string(&thread).unwrap();
        stat.rsplit(')').next().unwrap().trim_start().starts_with('S')
    };
    while !is_asleep() {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(30));
    drop(guard);
}

#[inline(never)]
fn hold_the_lock(held: HeldLock<'_>, sender: &Sender<()>) {
    hold(held, sender);
    // A call at the very end would leave this function's frame before it is made.
    std::hint::black_box(sender);
}

#[inline(never)]
fn wait_for_the_lock(lock: &Lock<()>) {
    drop(lock.lock());
    std::hint::black_box(lock);
}

#[inline(never)]
fn hold_it_again(held: HeldLock<'_>, sender: &Sender<()>) {
    hold(held, sender);
    // A call at the very end would leave this function's frame before it is made.
    std::hint::black_box(sender);
}

#[inline(never)]
fn wait_for_it_again(lock: &Lock<()>) {
    drop(lock.lock());
    std::hint::black_box(lock);
}

/// Makes another thread hold a lock by `hold`, and this one wait for it by `wait`.
fn contend(hold: impl FnOnce(HeldLock<'_>, &Sender<()>) + Send, wait: impl FnOnce(&Lock<()>)) {
    // By default only a random share of holders is noted; here all of them.
    set_holder_sampling(1);
    let lock = Lock::new(());
    let ((about, waiter), (held, is_held)) = (channel(), channel());
    std::thread::scope(|scope| {
        let lock = &lock;
        scope.spawn(move || hold((lock, &waiter), &held));
        is_held.recv().unwrap();
        about.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
        wait(lock);
    });
    set_holder_sampling(HOLDERS_ONE_IN);
}

#[test]
fn go_reads_every_profile() {
    let _turn = turn();
    set_allocation_sampling(SAMPLE_BYTES / 64);
    let running = start();
    let [cpu, allocs, heap, mutex, block] = under_load(&running, || {
        let mut client = running.client();
        let mut profile = |name: &str| {
            let answer = client.get(&format!("/debug/pprof/{name}")).having(200);
            assert_eq!(answer.header("Content-Type"), Some("application/octet-stream"));
            answer.body
        };
        let [cpu, allocs, heap] = ["profile?seconds=2&hz=499", "allocs", "heap"].map(&mut profile);
        // Even an empty profile has its type, so look for a wait that certainly occurred.
        contend(hold_the_lock, wait_for_the_lock);
        [cpu, allocs, heap, profile("mutex"), profile("block")]
    });
    set_allocation_sampling(0);
    let top = go_top(&cpu, "cpu");
    assert!(top.contains("Type: cpu"), "{top}");
    assert!(top.contains("pellucid_http::event_loop"), "{top}");
    assert!(top.contains("[kernel: sendto]"), "{top}");
    // Names of methods keep their types.
    assert!(top.contains(" as ") && !top.contains(" ::"), "{top}");
    let top = go_top(&allocs, "allocs");
    assert!(top.contains("Type: alloc_space") && top.contains("pellucid_"), "{top}");
    let top = go_top(&heap, "heap");
    assert!(top.contains("Type: inuse_space"), "{top}");
    let delays = [(mutex, "mutex", "hold_the_lock"), (block, "block", "wait_for_the_lock")];
    for (file, name, function) in delays {
        let top = go_top(&file, name);
        assert!(top.contains("Type: delay") && top.contains(function), "{top}");
    }
}

/// True for the account's work that an event loop does during a request if the draining thread is
/// late: such a sample still has the request's labels.
fn is_of_account(stack: &str) -> bool {
    stack.starts_with("job account;")
}

/// The sum of the amounts of all folded stacks, and of those that `is_of` accepts.
fn sums(folded: &str, is_of: impl Fn(&str) -> bool) -> (f64, f64) {
    let amounts = folded.lines().map(|line| {
        let (stack, amount) = line.rsplit_once(' ').unwrap();
        (stack, amount.parse::<f64>().unwrap())
    });
    amounts.fold((0.0, 0.0), |(all, of), (stack, amount)| {
        (all + amount, of + if is_of(stack) { amount } else { 0.0 })
    })
}

#[test]
fn samples_have_operation_and_phase_and_past_ones_can_be_requested() {
    let _turn = turn();
    let running = start();
    under_load(&running, || {
        let mut client = running.client();
        let recorded = client.get("/debug/pprof/profile?seconds=2&hz=499&format=folded");
        // Samples of this test's clients, which are threads of the same process, have no phase.
        let (all, known) = sums(recorded.text(), |stack| !stack.starts_with("unlabelled"));
        assert!(all > 0.0 && known > 0.0, "{}", recorded.text());
        let of_puts = |stack: &str| stack.starts_with("entity_put ");
        let (_, puts) = sums(recorded.text(), of_puts);
        assert!(puts > 0.1 * known, "{puts} of {known}");
        // Receiving and parsing precede the knowledge of the operation, but are attributed to it.
        let early = |stack: &str| stack.starts_with("receive;") || stack.starts_with("parse;");
        let (_, nameless) = sums(recorded.text(), early);
        let (_, named) = sums(recorded.text(), |stack| stack.contains(" receive;"));
        assert!(named > nameless, "{named} of {}", named + nameless);
        let past = client.get("/debug/pprof/profile?from=-10&format=folded&op=entity_put");
        let (all, puts) = sums(past.text(), |stack| of_puts(stack) || is_of_account(stack));
        assert!(all > 0.0 && all == puts, "{}", past.text());
        let phase = client.get("/debug/pprof/profile?from=-10&format=folded&phase=write");
        let (all, writes) =
            sums(phase.text(), |stack| stack.contains(" write;") || is_of_account(stack));
        assert!(all > 0.0 && all == writes, "{}", phase.text());
        for format in ["svg", "html"] {
            let graph = client.get(&format!("/debug/pprof/profile?from=-3&format={format}"));
            assert!(graph.text().contains("[kernel: sendto]"), "{}", graph.text());
        }
        for (format, begin) in [("svg", "<svg"), ("html", "<!DOCTYPE html>"), ("shares", "phase")] {
            let target = format!("/debug/pprof/profile?from=-3&base=-2..-1&format={format}");
            let answer = client.get(&target);
            assert!(answer.status == 200 && answer.text().starts_with(begin), "{}", answer.text());
        }
    });
}

#[test]
fn unavailable_profiles_are_refused_with_a_reason() {
    let _turn = turn();
    let (_running, mut client) = serve_with(|options| options.profile_hertz = 0);
    assert!(client.get("/debug/pprof/").text().contains("/debug/pprof/heap"));
    for (target, status, text) in [
        ("/debug/pprof/profile?seconds=1", 503, "--profile-hertz"),
        ("/debug/pprof/profile?seconds=999", 400, "`seconds`"),
        ("/debug/pprof/trace", 404, "trace"),
    ] {
        let answer = client.get(target);
        assert_eq!(answer.status, status);
        assert!(answer.text().contains(text), "{}", answer.text());
    }
    assert_eq!(client.call("POST", "/debug/pprof/heap", &[], b"").status, 405);
}

/// The rates can be set while the server runs, within their limits. A server that was started
/// without sampling refuses with a hint.
#[test]
fn rates_are_set_while_the_server_runs() {
    let _turn = turn();
    let bytes = allocation_sampling();
    let (running, mut client) = serve_with(|options| options.profile_hertz = 19);
    let shown = |client: &mut Client| client.get("/debug/pprof/rates").text().to_owned();
    let waits = "wait_ns=10000\nholders=8";
    assert_eq!(shown(&mut client).trim(), format!("hz=19\nbytes={bytes}\n{waits}"));
    for (target, status) in [
        ("/debug/pprof/rates?hz=99", 200),
        ("/debug/pprof/rates?bytes=65536", 200),
        ("/debug/pprof/rates?wait_ns=1000&holders=2", 200),
        ("/debug/pprof/rates?hz=5000", 400),
        ("/debug/pprof/rates?holders=0", 400),
        ("/debug/pprof/rates", 400),
    ] {
        assert_eq!(client.call("PUT", target, &[], b"").status, status, "{target}");
    }
    assert_eq!(shown(&mut client).trim(), "hz=99\nbytes=65536\nwait_ns=1000\nholders=2");
    let target = "/debug/pprof/rates?hz=0&bytes=0&wait_ns=10000&holders=8";
    assert_eq!(client.call("PUT", target, &[], b"").status, 200);
    assert_eq!(shown(&mut client).trim(), format!("hz=0\nbytes=0\n{waits}"));
    // A requested profile is recorded nevertheless, for as long as it was requested.
    assert_eq!(client.get("/debug/pprof/profile?seconds=0.2&format=folded").status, 200);
    assert_eq!(client.call("DELETE", "/debug/pprof/rates", &[], b"").status, 405);
    set_allocation_sampling(bytes);
    drop((client, running));
    let running = start_with(|options| options.profile_hertz = 0);
    let answer = running.client().call("PUT", "/debug/pprof/rates?hz=19", &[], b"");
    assert!(answer.status == 409 && answer.text().contains("--profile-hertz"), "{}", answer.text());
}

/// Samples of allocations and waits have times, too, so the minute before an incident can be shown
/// after it.
#[test]
fn past_allocations_can_be_requested_and_compared() {
    let _turn = turn();
    set_allocation_sampling(SAMPLE_BYTES / 64);
    let running = start();
    let file = under_load(&running, || {
        let mut client = running.client();
        let allocations = client.get("/debug/pprof/allocs?seconds=2&format=html");
        assert!(allocations.text().contains("class=\"flame-heat\""), "a map of when");
        // These may be of the clients, which are threads of the same process; PUTs may allocate
        // nothing.
        let past = client.get("/debug/pprof/allocs?from=-2&format=folded");
        assert!(sums(past.text(), |_| true).0 > 0.0, "{}", past.text());
        let past = client.get("/debug/pprof/allocs?from=-2&format=folded&op=entity_put");
        let is_of_put = |stack: &str| stack.starts_with("entity_put ") || is_of_account(stack);
        let (all, puts) = sums(past.text(), is_of_put);
        assert!(all == puts, "{}", past.text());
        let compared = client.get("/debug/pprof/allocs?from=-1&base=-3..-1&format=svg");
        assert!(compared.status == 200 && compared.text().contains("class=\"d-"));
        for kind in ["block", "mutex"] {
            for format in ["pb", "folded", "svg", "html", "shares"] {
                let target = format!("/debug/pprof/{kind}?from=-1&base=-3..-1&format={format}");
                assert_eq!(client.get(&target).status, 200, "{target}");
            }
        }
        // Two amounts to a stack: before, and now.
        let folded = client.get("/debug/pprof/allocs?from=-1&base=-3..-1&format=folded");
        for line in folded.text().lines() {
            let amounts: Vec<f64> = line.rsplit(' ').take(2).map(|n| n.parse().unwrap()).collect();
            assert!(amounts[0] + amounts[1] > 0.0, "{line}");
        }
        client.get("/debug/pprof/allocs?from=-1&base=-3..-1").body
    });
    set_allocation_sampling(0);
    let top = go_top(&file, "difference");
    assert!(top.contains("Type: alloc_space") && top.contains("% of"), "{top}");
}

fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// The first amount of a stack is that of before, the second that of now.
#[test]
fn a_difference_separates_the_amounts_of_before_and_now() {
    let _turn = turn();
    set_allocation_sampling(SAMPLE_BYTES / 64);
    let (_running, mut client) = serve();
    // The distance is larger than the rounding of the times.
    let border = || {
        let pause = Duration::from_millis(50);
        std::thread::sleep(pause);
        let now = unix_now();
        std::thread::sleep(pause);
        now
    };
    let before = border();
    contend(hold_the_lock, wait_for_the_lock);
    let between = border();
    contend(hold_it_again, wait_for_it_again);
    drop(hold_memory());
    let after = border();
    let query = format!("from={between:.3}&to={after:.3}&base={before:.3}..{between:.3}");
    let mut amounts = |kind: &str, function: &str| {
        let answer = client.get(&format!("/debug/pprof/{kind}?{query}&format=folded")).having(200);
        let lines = answer.text().lines().filter(|line| line.contains(function));
        lines.fold((0.0, 0.0), |sums, line| {
            let mut words = line.rsplit(' ').map(|word| word.parse::<f64>().unwrap_or(0.0));
            let (now, before) = (words.next().unwrap(), words.next().unwrap());
            (sums.0 + before, sums.1 + now)
        })
    };
    for (kind, former, latter) in [
        ("mutex", "::hold_the_lock", "::hold_it_again"),
        ("block", "::wait_for_the_lock", "::wait_for_it_again"),
    ] {
        let ((was, is_no_more), (was_not, is)) = (amounts(kind, former), amounts(kind, latter));
        // Each holder held the lock for at least 30 ms.
        assert!(was >= 30e6 && is >= 30e6, "{kind}: {was} before, {is} now");
        assert_eq!((is_no_more, was_not), (0.0, 0.0), "{kind}");
    }
    let (was, is) = amounts("allocs", "::hold_memory");
    assert!(was == 0.0 && is > 0.5 * 400.0 * 50_000.0, "{was} before, {is} now");
    let file = client.get(&format!("/debug/pprof/block?{query}")).body;
    let top = go_top(&file, "difference");
    let line = |function: &str| top.lines().find(|line| line.contains(function)).unwrap();
    assert!(line("::wait_for_the_lock").trim_start().starts_with('-'), "it is less: {top}");
    assert!(!line("::wait_for_it_again").trim_start().starts_with('-'), "it is more: {top}");
    set_allocation_sampling(0);
}

#[inline(never)]
fn hold_memory() -> Vec<Vec<u8>> {
    let held: Vec<Vec<u8>> = (0..400).map(|_| std::hint::black_box(vec![7; 50_000])).collect();
    std::hint::black_box(&held);
    held
}

/// Memory in use is noted periodically, so that a leak can be found afterwards.
#[test]
fn memory_in_use_can_be_compared_with_what_it_was() {
    const HELD_BYTES: f64 = 400.0 * 50_000.0;
    let _turn = turn();
    set_allocation_sampling(SAMPLE_BYTES / 64);
    let running = start();
    let held = hold_memory();
    let mut client = running.client();
    let mut held_of = |query: &str| {
        let answer = client.get(&format!("/debug/pprof/heap?format=folded{query}")).having(200);
        // The second of the two amounts is that of now.
        sums(answer.text(), |stack| stack.contains("::hold_memory")).1
    };
    let is_all = |bytes: f64| (0.8..1.2).contains(&(bytes / HELD_BYTES));
    // The first note was made before that, when the profiler had just begun.
    for query in ["", "&from=-600", "&seconds=0", "&base=-600"] {
        let bytes = held_of(query);
        assert!(is_all(bytes), "{query}: {bytes}");
    }
    assert_eq!(held_of("&to=-600"), 0.0, "as it was then");
    assert_eq!(held_of("&seconds=0.1"), 0.0, "nothing was added");
    drop(held);
    assert_eq!(held_of("&from=-600"), 0.0, "what was freed is no growth");
    for format in ["pb", "svg", "html", "shares"] {
        for query in ["from=-600&op=entity_put", "base=-600&phase=execute", "to=-1"] {
            let target = format!("/debug/pprof/heap?format={format}&{query}");
            assert_eq!(client.get(&target).status, 200, "{target}");
        }
    }
    set_allocation_sampling(0);
}
