//! Named threads, which take part in the simulation of the thread that starts them.

use std::io;
use std::thread::{Builder, Scope, Thread};

use crate::simulation::Child;

/// The handle of a thread, like [`std::thread::JoinHandle`].
#[derive(Debug)]
pub struct JoinHandle<T> {
    inner: std::thread::JoinHandle<T>,
    child: Child,
}

impl<T> JoinHandle<T> {
    /// The standard handle of the thread.
    #[must_use]
    pub fn thread(&self) -> &Thread {
        self.inner.thread()
    }

    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// If the thread panicked.
    pub fn join(self) -> std::thread::Result<T> {
        self.child.wait_for_end();
        self.inner.join()
    }
}

/// Starts a thread with this name.
///
/// # Errors
/// If the system cannot start a thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let child = Child::register(name);
    let twin = child.twin();
    let started = Builder::new().name(name.to_owned()).spawn(move || twin.run(work));
    let inner = started.inspect_err(|_| child.cancel())?;
    Ok(JoinHandle { inner, child })
}

/// The handle of a scoped thread, like [`std::thread::ScopedJoinHandle`]. It must be joined.
#[derive(Debug)]
#[must_use = "the scope waits for the thread without a simulation knowing"]
pub struct ScopedJoinHandle<'scope, T> {
    inner: std::thread::ScopedJoinHandle<'scope, T>,
    child: Child,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// If the thread panicked.
    pub fn join(self) -> std::thread::Result<T> {
        self.child.wait_for_end();
        self.inner.join()
    }
}

/// Starts a thread with this name, which may borrow from its scope.
///
/// # Errors
/// If the system cannot start a thread.
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let child = Child::register(name);
    let twin = child.twin();
    let started = Builder::new().name(name.to_owned()).spawn_scoped(scope, move || twin.run(work));
    let inner = started.inspect_err(|_| child.cancel())?;
    Ok(ScopedJoinHandle { inner, child })
}
