//! The stamps as USDT probes, for whoever looks from outside: `bpftrace`, `perf`, SystemTap.
//!
//! A probe is one `nop` and a note in the ELF file that says where it stands, where its arguments
//! are and which counter, its semaphore, tools raise while they look (the format of
//! `<sys/sdt.h>`, version 3). The hot path reads the semaphore and goes on: nothing is computed for
//! a probe that nobody looks at. All stamps fire at one place, a function that is never inlined, so
//! that one breakpoint serves all of them.
//!
//! `pellucid:stamp` has the arguments: number of the request, slot of the operation (255 while it
//! is not known yet), slot of the stamp, its time in nanoseconds of the server's clock, and the
//! wait behind earlier requests of the connection, in nanoseconds, which the stamp `parsed` has and
//! which counts as `queue`. The time is an argument because some stamps share an earlier reading.
//!
//! `pellucid:done` fires once for each request that was recorded, with the figures of the built-in
//! account: number of the request, slots of operation and outcome, the total and the phase
//! `execute` in nanoseconds. So a script can compare what it saw with what the account says.

use std::sync::atomic::{AtomicU16, Ordering};

/// Raised by tools while somebody looks at `pellucid:stamp`.
#[cfg_attr(target_os = "linux", unsafe(link_section = ".probes"))]
static STAMP_SEMAPHORE: AtomicU16 = AtomicU16::new(0);
/// Raised by tools while somebody looks at `pellucid:done`.
#[cfg_attr(target_os = "linux", unsafe(link_section = ".probes"))]
static DONE_SEMAPHORE: AtomicU16 = AtomicU16::new(0);

/// True if somebody looks at the stamps.
#[inline(always)]
pub(crate) fn wants_stamps() -> bool {
    STAMP_SEMAPHORE.load(Ordering::Relaxed) != 0
}

/// True if somebody looks at the ends of requests.
#[inline(always)]
pub(crate) fn wants_ends() -> bool {
    DONE_SEMAPHORE.load(Ordering::Relaxed) != 0
}

/// The note of a probe with five 64-bit arguments, and the place that it speaks of.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! note {
    ($name:literal, $semaphore:ident, [$a:expr, $b:expr, $c:expr, $d:expr, $e:expr],
     $($option:ident),+) => {
        // SAFETY: the only instruction is a `nop`; all else describes it in sections that are not
        // loaded, apart from one byte by which tools find out where the file was loaded to. The
        // semaphore is named and not touched.
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

/// Elsewhere there are no such probes.
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

    /// Programs that link this have the notes in their file; a linker that drops them fails here.
    #[test]
    fn this_file_says_where_its_probes_are() {
        stamp(1, 2, 3, 4, 5);
        done(1, 2, 3, 4, 5);
        assert!(!wants_stamps() && !wants_ends());
        let file = std::fs::read("/proc/self/exe").unwrap();
        for name in ["stamp", "done"] {
            let note = format!("pellucid\0{name}\08@");
            // Once in the note; the text of this test is put together and so not found.
            assert_eq!(count(&file, note.as_bytes()), 1, "{name}");
        }
    }
}
