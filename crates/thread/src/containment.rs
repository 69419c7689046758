//! Containment of panics: some end only a request, others the process.
//!
//! A panic is a bug of the program that was detected. In the code of a request ([`contain`]) it
//! ends that request. But if shared data was being changed ([`CriticalSection`]), it ends the
//! process, because that data may be inconsistent. A background thread that ends would go
//! unnoticed, so a panic there ends the process too, once [`end_process_on_other_panics`] was
//! called.
#![allow(
    clippy::print_stderr,
    reason = "messages of panics go there, as those of the standard library do"
)]

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

thread_local! {
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
    /// The message that the hook has made of this thread's current panic.
    static TOLD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The panic of a function that [`contain`] ran.
#[derive(Debug)]
pub struct ContainedPanic {
    what: String,
}

impl ContainedPanic {
    /// Writes the message of the panic to standard error.
    pub fn tell(&self) {
        eprintln!("{self}");
    }
}

impl std::fmt::Display for ContainedPanic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for ContainedPanic {}

/// Runs the code of one request, and catches a panic. Data that it shares with others must be
/// consistent at any point where it may panic, or be changed only within an [`CriticalSection`].
///
/// # Errors
/// The panic, if there was one: its message, and with the hook of [`end_process_on_other_panics`]
/// also its place and stack.
#[inline]
pub fn contain<T>(run: impl FnOnce() -> T) -> Result<T, ContainedPanic> {
    let was_contained = IS_CONTAINED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    IS_CONTAINED.set(was_contained);
    outcome.map_err(panicked)
}

/// Runs work like [`contain`], and writes the message of a panic to standard error. If the work
/// holds a completer of a request, dropping that ends the request.
pub fn run_contained(run: impl FnOnce()) {
    if let Err(panicked) = contain(run) {
        panicked.tell();
    }
}

#[cold]
fn panicked(payload: Box<dyn Any + Send>) -> ContainedPanic {
    let told = TOLD.take();
    ContainedPanic { what: told.unwrap_or_else(|| text_of(&*payload).to_owned()) }
}

fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// Sets a panic hook by which every panic that is not [contained](contain) ends the process, with
/// its message and stack on standard error. For programs whose threads must not end unnoticed.
pub fn end_process_on_other_panics() {
    std::panic::set_hook(Box::new(|panic: &PanicHookInfo<'_>| {
        let thread = std::thread::current();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let (name, text) = (thread.name().unwrap_or("unnamed"), text_of(panic.payload()));
        let stack = Backtrace::force_capture();
        let told = format!("thread '{name}' panicked at {place}: {text}\n{stack}");
        if IS_CONTAINED.get() {
            TOLD.set(Some(told));
            return;
        }
        eprintln!("{told}");
        std::process::abort();
    }));
}

/// The guard of code that changes shared data in several steps, of which only the whole may be
/// seen. A panic within it ends the process, contained or not.
#[must_use = "the stretch ends when this is dropped"]
#[derive(Debug)]
pub struct CriticalSection {
    /// True if it began while an earlier panic was unwinding: that panic is not within it.
    is_late: bool,
}

impl CriticalSection {
    /// Begins the stretch.
    #[inline]
    pub fn begin() -> CriticalSection {
        CriticalSection { is_late: std::thread::panicking() }
    }
}

impl Drop for CriticalSection {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() && !self.is_late {
            end_in_doubt();
        }
    }
}

#[cold]
fn end_in_doubt() -> ! {
    if let Some(told) = TOLD.take() {
        eprintln!("{told}");
    }
    eprintln!("data may be half changed: the process ends, and the store is recovered when opened");
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_contained_panic_is_an_error_with_its_message() {
        assert_eq!(contain(|| 7).unwrap(), 7);
        let outer = contain(|| {
            let inner: Result<(), _> = contain(|| panic!("{} words", 2));
            assert_eq!(inner.unwrap_err().to_string(), "2 words");
            assert!(IS_CONTAINED.get(), "the outer one goes on");
            panic!("plain")
        });
        let outer: Result<(), _> = outer;
        assert_eq!(outer.unwrap_err().to_string(), "plain");
        assert!(!IS_CONTAINED.get());
    }

    const CHILD: &str = "PELLUCID_THREAD_PANIC_CHILD";

    /// Runs `in_child` in a child process that is expected to end by a panic. Returns its standard
    /// error, and whether it was aborted; none in the child process itself.
    fn run(test: &str, in_child: impl FnOnce()) -> Option<(String, bool)> {
        if std::env::var_os(CHILD).is_some() {
            in_child();
            return None;
        }
        let name = format!("containment::tests::{test}");
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output =
            child.args([&name, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
        let is_aborted = output.status.signal() == Some(libc::SIGABRT);
        Some((String::from_utf8_lossy(&output.stderr).into_owned(), is_aborted))
    }

    #[test]
    fn with_the_hook_the_stack_is_told_and_other_panics_end_the_process() {
        let ended = run("with_the_hook_the_stack_is_told_and_other_panics_end_the_process", || {
            end_process_on_other_panics();
            let contained: Result<(), _> = contain(|| panic!("in a request"));
            let told = contained.unwrap_err().to_string();
            assert!(told.contains("in a request") && told.contains("containment.rs"), "{told}");
            assert!(told.lines().count() > 5, "a stack: {told}");
            let _ = std::thread::spawn(|| panic!("in the background")).join();
            eprintln!("it lives");
        });
        let Some((told, is_aborted)) = ended else { return };
        assert!(is_aborted && told.contains("in the background"), "{told}");
        assert!(!told.contains("it lives"), "{told}");
    }

    #[test]
    fn a_panic_within_an_indivisible_ends_the_process() {
        let ended = run("a_panic_within_an_indivisible_ends_the_process", || {
            drop(CriticalSection::begin());
            let _ = contain(|| {
                let _whole = CriticalSection::begin();
                panic!("in between")
            });
            eprintln!("it lives");
        });
        let Some((told, is_aborted)) = ended else { return };
        assert!(
            is_aborted && told.contains("half changed") && !told.contains("it lives"),
            "{told}"
        );
    }
}
