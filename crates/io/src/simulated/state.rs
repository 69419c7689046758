//! What all clones of a file system share, and its open files and locks with them.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::faults::FaultState;
use super::tree::Tree;
use crate::SeededRandom;

/// Of so many calls, one finds that the system has written something back meanwhile.
const CALLS_A_WRITE_BACK: u64 = 16;

/// An action before each call.
pub(super) type Observer = Box<dyn Fn() + Send + Sync>;

pub(super) struct Shared {
    state: Mutex<State>,
    observer: OnceLock<Observer>,
    /// The number of the boot.
    pub(super) boot: u64,
}

pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) faults: FaultState,
    /// Bytes that were to be read soon.
    pub(super) expected_bytes: u64,
    pub(super) locks: HashSet<PathBuf>,
    /// Decides what is written back without a sync, and when; nothing is if there is none.
    pub(super) write_back: Option<SeededRandom>,
}

impl State {
    /// Writes back what the draw says, if it is time.
    fn write_back(&mut self) {
        let Some(random) = &mut self.write_back else { return };
        if random.below(CALLS_A_WRITE_BACK) == 0 {
            self.tree.write_back(&mut survival(random));
        }
    }
}

/// The decisions on each sector and each name that is on its way. Some say yes to nearly all.
pub(super) fn survival(random: &mut SeededRandom) -> impl FnMut() -> bool {
    let survival_of_256 = [0, 64, 128, 240, 256][random.below(5) as usize];
    move || random.below(256) < survival_of_256
}

impl Shared {
    pub(super) fn new(tree: Tree, boot: u64) -> Shared {
        let (faults, locks) = (FaultState::default(), HashSet::new());
        let state = State { tree, faults, expected_bytes: 0, locks, write_back: None };
        Shared { state: Mutex::new(state), observer: OnceLock::new(), boot }
    }

    /// Sets the action before each call, once.
    pub(super) fn observe(&self, observer: Observer) {
        assert!(self.observer.set(observer).is_ok(), "one observer");
    }

    /// The state for a call, which the observer has seen.
    pub(super) fn call(&self) -> MutexGuard<'_, State> {
        if let Some(observer) = self.observer.get() {
            observer();
        }
        let mut state = self.state();
        state.write_back();
        state
    }

    /// As [`Shared::call`], for one that fails if it is its turn.
    pub(super) fn fallible_call(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.call();
        state.faults.call()?;
        Ok(state)
    }

    /// The state; a panic elsewhere is no reason to panic again.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
