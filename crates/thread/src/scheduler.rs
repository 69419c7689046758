//! The scheduler of a simulation: one thread runs at a time, and the seed decides which.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// The longest timeout of a wait that may end early, as if time passed while other threads run.
/// Longer timeouts exist only to end hangs.
const EARLY_MAX: Duration = Duration::from_secs(1);
/// The chance that a decision ends a wait early: one in so many.
const EARLY_ONE_IN: usize = 24;
/// The chances of a switch at a point: one in so many, drawn for each seed. With few switches, a
/// thread gets far ahead of the others; with many, they interleave finely.
const SWITCH_ONE_IN: [usize; 4] = [2, 5, 16, 60];

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadState {
    /// The thread can run.
    Ready,
    /// The thread waits at an address, until `until_ns` if that is given.
    Waiting {
        address: usize,
        until_ns: Option<u64>,
        is_short: bool,
    },
    Ended,
}

struct SimulatedThread {
    name: String,
    standing: ThreadState,
    /// True if its last wait ended by the deadline.
    is_timed_out: bool,
    /// The handle to unpark it, once it has started.
    handle: Option<Thread>,
}

/// A source of random numbers.
pub(crate) type RandomSource = Box<dyn FnMut() -> u64 + Send>;

struct State {
    random: RandomSource,
    switch_one_in: usize,
    threads: Vec<SimulatedThread>,
    /// The locks that threads of the simulation hold, with the number of holders.
    taken: BTreeMap<usize, usize>,
    now_ns: u64,
    decisions: u64,
    checksum: u64,
}

/// The scheduler of one simulation.
pub(crate) struct Scheduler {
    state: Mutex<State>,
    running: AtomicUsize,
    on_time: Box<dyn Fn(u64) + Send + Sync>,
}

impl State {
    fn below(&mut self, limit: usize) -> usize {
        ((self.random)() % limit.max(1) as u64) as usize
    }

    /// Draws the next thread, and the time that passes before it runs. None in a deadlock.
    fn choose(&mut self) -> Option<(usize, u64)> {
        let before_ns = self.now_ns;
        let is_early = self.below(EARLY_ONE_IN) == 0;
        if is_early {
            self.end_first_wait(true);
        }
        if self.ready().is_empty() {
            self.end_first_wait(false);
        }
        let ready = self.ready();
        if ready.is_empty() {
            return None;
        }
        let chosen = ready[self.below(ready.len())];
        self.decisions += 1;
        self.checksum = (self.checksum ^ chosen as u64).wrapping_mul(0x0100_0000_01b3);
        Some((chosen, self.now_ns - before_ns))
    }

    fn ready(&self) -> Vec<usize> {
        let is_ready = |index: &usize| self.threads[*index].standing == ThreadState::Ready;
        (0..self.threads.len()).filter(is_ready).collect()
    }

    /// Ends the wait with the first deadline.
    fn end_first_wait(&mut self, short_only: bool) {
        let deadline = |thread: &SimulatedThread| match thread.standing {
            ThreadState::Waiting { until_ns, is_short, .. } if is_short || !short_only => until_ns,
            _ => None,
        };
        let deadlines = self.threads.iter().enumerate();
        let first = deadlines.filter_map(|(index, thread)| Some((deadline(thread)?, index))).min();
        if let Some((until_ns, index)) = first {
            self.now_ns = self.now_ns.max(until_ns);
            self.threads[index].standing = ThreadState::Ready;
            self.threads[index].is_timed_out = true;
        }
    }

    fn waiting_at(&self, address: usize) -> Vec<usize> {
        let waits = |index: &usize| {
            matches!(self.threads[*index].standing,
                ThreadState::Waiting { address: at, .. } if at == address)
        };
        (0..self.threads.len()).filter(waits).collect()
    }

    fn add(&mut self, name: &str, handle: Option<Thread>) -> usize {
        self.threads.push(SimulatedThread {
            name: name.to_owned(),
            standing: ThreadState::Ready,
            is_timed_out: false,
            handle,
        });
        self.threads.len() - 1
    }
}

impl Scheduler {
    /// A scheduler whose first thread is this one.
    pub(crate) fn new(random: RandomSource, on_time: Box<dyn Fn(u64) + Send + Sync>) -> Scheduler {
        let mut state = State {
            random,
            switch_one_in: 0,
            threads: Vec::new(),
            taken: BTreeMap::new(),
            now_ns: 0,
            decisions: 0,
            checksum: 0xcbf2_9ce4_8422_2325,
        };
        state.switch_one_in = SWITCH_ONE_IN[state.below(SWITCH_ONE_IN.len())];
        state.add("first", Some(std::thread::current()));
        Scheduler { state: Mutex::new(state), running: AtomicUsize::new(0), on_time }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn decisions(&self) -> (u64, u64) {
        let state = self.state();
        (state.decisions, state.checksum)
    }

    pub(crate) fn took(&self, address: usize) {
        *self.state().taken.entry(address).or_default() += 1;
    }

    pub(crate) fn is_taken(&self, address: usize) -> bool {
        self.state().taken.contains_key(&address)
    }

    /// Notes that a lock has one holder less, and wakes the threads that wait for it.
    pub(crate) fn gave_back(&self, address: usize) {
        let mut state = self.state();
        if let Some(holders) = state.taken.get_mut(&address) {
            *holders -= 1;
            if *holders == 0 {
                state.taken.remove(&address);
            }
        }
        drop(state);
        self.wake(address, true);
    }

    /// Ends all waits at an address, or one of them.
    pub(crate) fn wake(&self, address: usize, all: bool) {
        let mut state = self.state();
        let waiting = state.waiting_at(address);
        let chosen = if all || waiting.is_empty() {
            waiting
        } else {
            vec![waiting[state.below(waiting.len())]]
        };
        for index in chosen {
            state.threads[index].standing = ThreadState::Ready;
            state.threads[index].is_timed_out = false;
        }
    }

    /// Lets another thread run, if the seed decides so.
    pub(crate) fn point(&self, thread: usize) {
        let mut state = self.state();
        let one_in = state.switch_one_in;
        if state.below(one_in) == 0 {
            self.hand_on(thread, state);
        }
    }

    /// Waits at an address; true if the deadline came first.
    pub(crate) fn wait(&self, thread: usize, address: usize, timeout: Option<Duration>) -> bool {
        let mut state = self.state();
        let now_ns = state.now_ns;
        let until = |timeout: Duration| now_ns.saturating_add(timeout.as_nanos() as u64);
        let is_short = timeout.is_some_and(|timeout| timeout <= EARLY_MAX);
        state.threads[thread].is_timed_out = false;
        state.threads[thread].standing =
            ThreadState::Waiting { address, until_ns: timeout.map(until), is_short };
        self.hand_on(thread, state);
        self.state().threads[thread].is_timed_out
    }

    /// The time that has passed in the simulation, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.state().now_ns
    }

    /// Adds a thread that has not started yet.
    pub(crate) fn register(&self, name: &str) -> usize {
        self.state().add(name, None)
    }

    pub(crate) fn cancel(&self, thread: usize) {
        self.state().threads[thread].standing = ThreadState::Ended;
    }

    /// Waits, on the new thread, for its first turn.
    pub(crate) fn begin(&self, thread: usize) {
        self.state().threads[thread].handle = Some(std::thread::current());
        self.wait_for_turn(thread);
    }

    /// Ends the part of a thread in the simulation.
    pub(crate) fn end(&self, thread: usize) {
        let mut state = self.state();
        state.threads[thread].standing = ThreadState::Ended;
        for index in state.waiting_at(self.end_address(thread)) {
            state.threads[index].standing = ThreadState::Ready;
        }
        let chosen = self.draw(&mut state);
        self.give_turn(chosen, state);
    }

    pub(crate) fn wait_for_end(&self, own: usize, thread: usize) {
        while self.state().threads[thread].standing != ThreadState::Ended {
            self.wait(own, self.end_address(thread), None);
        }
    }

    /// The address at which threads wait for the end of a thread. It is unaligned, so that no lock
    /// has it.
    fn end_address(&self, thread: usize) -> usize {
        std::ptr::from_ref(self).addr() + 1 + 8 * thread
    }

    fn draw(&self, state: &mut State) -> usize {
        let Some((chosen, passed_ns)) = state.choose() else { Self::end_process(state) };
        if passed_ns > 0 {
            (self.on_time)(passed_ns);
        }
        chosen
    }

    fn hand_on(&self, thread: usize, mut state: MutexGuard<'_, State>) {
        let chosen = self.draw(&mut state);
        if chosen != thread {
            self.give_turn(chosen, state);
            self.wait_for_turn(thread);
        }
    }

    fn give_turn(&self, chosen: usize, state: MutexGuard<'_, State>) {
        self.running.store(chosen, Ordering::Release);
        // A thread that has not started yet checks for its turn itself.
        let handle = state.threads[chosen].handle.clone();
        drop(state);
        if let Some(handle) = handle {
            handle.unpark();
        }
    }

    fn wait_for_turn(&self, thread: usize) {
        while self.running.load(Ordering::Acquire) != thread {
            std::thread::park();
        }
    }

    /// Ends the process in a deadlock, because the threads cannot be unwound.
    fn end_process(state: &State) -> ! {
        use std::io::Write;
        let mut text = String::from("simulation: every thread waits, and none can go on\n");
        for thread in &state.threads {
            text.push_str(&format!("  {}: {:?}\n", thread.name, thread.standing));
        }
        let _ = std::io::stderr().write_all(text.as_bytes());
        std::process::abort();
    }
}
