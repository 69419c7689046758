//! Turns without a simulation: the threads run as the system lets them, and nothing here costs
//! anything.

use std::time::Duration;

#[inline(always)]
pub(crate) fn is_simulated() -> bool {
    false
}

#[inline(always)]
pub(crate) fn point() {}

#[inline(always)]
pub(crate) fn took(_address: usize) {}

#[inline(always)]
pub(crate) fn gave_back(_address: usize) {}

#[inline(always)]
pub(crate) fn wake(_address: usize, _all: bool) {}

#[inline(always)]
pub(crate) fn wait_for<T>(_address: usize, _attempt: impl FnMut() -> Option<T>) -> Option<T> {
    None
}

#[inline(always)]
pub(crate) fn wait(_address: usize, _timeout: Option<Duration>) -> bool {
    false
}

/// A thread to come.
#[derive(Debug)]
pub(crate) struct Child;

impl Child {
    #[inline(always)]
    pub(crate) fn register(_name: &str) -> Child {
        Child
    }

    #[inline(always)]
    pub(crate) fn run<T>(self, work: impl FnOnce() -> T) -> T {
        work()
    }

    #[inline(always)]
    pub(crate) fn twin(&self) -> Child {
        Child
    }

    #[inline(always)]
    pub(crate) fn wait_for_end(&self) {}

    #[inline(always)]
    pub(crate) fn cancel(&self) {}
}
