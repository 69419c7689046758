//! The stamps as USDT probes, for external tools: `bpftrace`, `perf`, SystemTap.
//!
//! A probe is one `nop`, and a note in the ELF file with its address, the locations of its
//! arguments, and its semaphore: a counter that tools increment while they trace (the format of
//! `<sys/sdt.h>`, version 3). The hot path only reads the semaphore: nothing is computed for a
//! probe that no tool traces. All stamps fire in one function that is never inlined, so that one
//! breakpoint serves all of them.
//!
//! `pellucid:stamp` has the arguments: the number of the request, the slot of the operation (255
//! while it is not known), the slot of the stamp, its time in nanoseconds of the server's clock,
//! and the wait behind earlier requests of the connection in nanoseconds. Only the stamp `parsed`
//! has that wait, which counts as `queue`. The time is an argument because some stamps share an
//! earlier reading.
//!
//! `pellucid:done` fires once for each recorded request, with the figures of the built-in account:
//! the number of the request, the slots of operation and outcome, and the total and the phase
//! `execute` in nanoseconds. So a script can compare its own measurements with the account.

use std::sync::atomic::{AtomicU16, Ordering};

/// The semaphore of `pellucid:stamp`, which tools increment while they trace it.
#[cfg_attr(target_os = "linux", unsafe(link_section = ".probes"))]
static STAMP_SEMAPHORE: AtomicU16 = AtomicU16::new(0);
/// The semaphore of `pellucid:done`, which tools increment while they trace it.
#[cfg_attr(target_os = "linux", unsafe(link_section = ".probes"))]
static DONE_SEMAPHORE: AtomicU16 = AtomicU16::new(0);

/// True if a tool traces the stamps.
#[inline(always)]
pub(crate) fn wants_stamps() -> bool {
    STAMP_SEMAPHORE.load(Ordering::Relaxed) != 0
}

/// True if a tool traces the ends of requests.
#[inline(always)]
pub(crate) fn wants_ends() -> bool {
    DONE_SEMAPHORE.load(Ordering::Relaxed) != 0
}

/// A probe with five 64-bit arguments: its `nop` and its note.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! note {
    ($name:literal, $semaphore:ident, [$a:expr, $b:expr, $c:expr, $d:expr, $e:expr],
     $($option:ident),+) => {
        // SAFETY: the only instruction is a `nop`. The rest describes it in sections that are not
        // loaded, except one byte by which tools find the load address. The semaphore is only
        // named, not accessed.
        unsafe {
            std::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"\", \"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                ".8byte {semaphore}",
                ".asciz \"pellucid\"",
                concat!(".asciz \"", $name, "\""),
                ".asciz \"8@{a} 8@{b} 8@{c} 8@{d} 8@{e}\"",
                "994: .balign 4",
                ".popsection",
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"aGR\", \"progbits\", .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                semaphore = sym $semaphore,
                a = in(reg) $a,
                b = in(reg) $b,
                c = in(reg) $c,
                d = in(reg) $d,
                e = in(reg) $e,
                options($($option),+),
            )
        }
    };
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
macro_rules! probe {
    ($name:literal, $semaphore:ident, $values:tt) => {
        note!($name, $semaphore, $values, att_syntax, nostack, preserves_flags)
    };
}

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
macro_rules! probe {
    ($name:literal, $semaphore:ident, $values:tt) => {
        note!($name, $semaphore, $values, nostack, preserves_flags)
    };
}

/// A substitute that does nothing, for other platforms.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
macro_rules! probe {
    ($name:literal, $semaphore:ident, [$($value:expr),+]) => {
        let _ = ($($value),+);
    };
}

/// Fires `pellucid:stamp`.
#[cold]
#[inline(never)]
pub(crate) fn stamp(request: u64, operation: u64, stamp: u64, at_ns: u64, waited_ns: u64) {
    probe!("stamp", STAMP_SEMAPHORE, [request, operation, stamp, at_ns, waited_ns]);
}

/// Fires `pellucid:done`.
#[cold]
#[inline(never)]
pub(crate) fn done(request: u64, operation: u64, outcome: u64, total_ns: u64, execute_ns: u64) {
    probe!("done", DONE_SEMAPHORE, [request, operation, outcome, total_ns, execute_ns]);
}

#[cfg(all(test, target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;

    fn count(file: &[u8], wanted: &[u8]) -> usize {
        file.windows(wanted.len()).filter(|window| *window == wanted).count()
    }

    /// Programs that link this crate have the notes in their file. The test fails if the linker
    /// drops them.
    #[test]
    fn the_executable_has_the_notes_of_its_probes() {
        stamp(1, 2, 3, 4, 5);
        done(1, 2, 3, 4, 5);
        assert!(!wants_stamps() && !wants_ends());
        let file = std::fs::read("/proc/self/exe").unwrap();
        for name in ["stamp", "done"] {
            let note = format!("pellucid\0{name}\08@");
            // Found once, in the note: this test only composes the text at run time.
            assert_eq!(count(&file, note.as_bytes()), 1, "{name}");
        }
    }
}
