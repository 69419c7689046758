//! The state that all clones of a file system share with its open files and locks.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::faults::FaultState;
use super::tree::Tree;
use crate::SeededRandom;

/// The mean number of calls between two write-backs.
const CALLS_A_WRITE_BACK: u64 = 16;

/// An action that runs before each call.
pub(super) type Observer = Box<dyn Fn() + Send + Sync>;

/// The shared state, and the observer.
pub(super) struct SharedState {
    state: Mutex<State>,
    observer: OnceLock<Observer>,
    /// The number of the boot.
    pub(super) boot: u64,
}

pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) faults: FaultState,
    /// The number of bytes for which `will_need` was called.
    pub(super) expected_bytes: u64,
    pub(super) locks: HashSet<PathBuf>,
    /// The generator that decides the write-backs without a sync; none if there are no such.
    pub(super) write_back: Option<SeededRandom>,
}

impl State {
    /// Writes back some sectors and names, if the generator decides so.
    fn write_back(&mut self) {
        let Some(random) = &mut self.write_back else { return };
        if random.below(CALLS_A_WRITE_BACK) == 0 {
            self.tree.write_back(&mut survival(random));
        }
    }
}

/// A random decision for each unsynced sector and name. The share of survivors is drawn first, so
/// that sometimes none, nearly all or all of them survive.
pub(super) fn survival(random: &mut SeededRandom) -> impl FnMut() -> bool {
    let survival_of_256 = [0, 64, 128, 240, 256][random.below(5) as usize];
    move || random.below(256) < survival_of_256
}

impl SharedState {
    pub(super) fn new(tree: Tree, boot: u64) -> SharedState {
        let (faults, locks) = (FaultState::default(), HashSet::new());
        let state = State { tree, faults, expected_bytes: 0, locks, write_back: None };
        SharedState { state: Mutex::new(state), observer: OnceLock::new(), boot }
    }

    /// Sets the action before each call. May be called once.
    pub(super) fn observe(&self, observer: Observer) {
        assert!(self.observer.set(observer).is_ok(), "one observer");
    }

    /// Begins a call: runs the observer and a possible write-back, and returns the state.
    pub(super) fn call(&self) -> MutexGuard<'_, State> {
        if let Some(observer) = self.observer.get() {
            observer();
        }
        let mut state = self.state();
        state.write_back();
        state
    }

    /// Begins a call like [`SharedState::call`]. An error if a fault is due.
    pub(super) fn fallible_call(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.call();
        state.faults.call()?;
        Ok(state)
    }

    /// The state, even if another thread panicked while it held the lock.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
