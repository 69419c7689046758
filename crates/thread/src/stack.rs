//! Captures the stack of this thread, from a signal handler or from a call, without the risk of a
//! crash.
//!
//! Unwinding by tables allocates, takes locks, and reads any address that the tables name: servers
//! have crashed in it. Here every word that is read lies on the thread's own stack, between the
//! stack pointer and the end, which is known before. Every byte of code that is read lies in the
//! program's own segment. This program and Rust's library keep frame pointers. The C library does
//! not, so its part of the stack is searched for the return address into the program, and for the
//! frame pointer that it saved.
//!
//! In a program without frame pointers, the default of Rust's compiler, that register has any
//! value. [`find_frame_pointers`] detects this once; then no stacks are captured.

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use crate::activity::with_thread;
use crate::code_range;

/// The most frames kept of a stack, the innermost first; outer ones are cut off.
pub const STACK_DEPTH_MAX: usize = 64;
/// The most words of foreign frames that are searched for a return address into the program.
const SEARCH_WORDS_MAX: usize = 512;
const WORD: usize = size_of::<usize>();
/// The smallest page size of the supported systems.
const PAGE_BYTES: usize = 4_096;

/// The registers of a thread when it was interrupted.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// The program counter.
    pub pc: usize,
    /// The stack pointer.
    pub sp: usize,
    /// The frame pointer; any value in code without frame pointers.
    pub fp: usize,
}

/// The part of the stack that may be read: words from `low` up to `high`.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: usize,
    high: usize,
}

impl Bounds {
    /// The word at `address`; none if it does not lie within the bounds.
    fn read(self, address: usize) -> Option<usize> {
        let fits = address >= self.low
            && address.is_multiple_of(WORD)
            && self.high.checked_sub(WORD).is_some_and(|last| address <= last);
        // SAFETY: the word lies between the stack pointer and the end of this thread's own stack,
        // which is mapped as long as the thread runs. It may be any bytes, as a number may.
        fits.then(|| unsafe { std::ptr::read_volatile(address as *const usize) })
    }
}

/// The depth of the recursion of [`probe`].
const PROBE_LEVELS: usize = 4;

/// True if this program keeps frame pointers; unknown before [`prepare_thread`].
static KEEPS_FRAME_POINTERS: OnceLock<bool> = OnceLock::new();

#[inline]
fn keeps_frame_pointers() -> bool {
    KEEPS_FRAME_POINTERS.get() == Some(&true)
}

/// Detects whether this program keeps frame pointers: a recursive function has the same return
/// address in each of its frames.
fn find_frame_pointers() {
    if KEEPS_FRAME_POINTERS.get().is_none() {
        // Not within `get_or_init`: the probe may allocate, and an allocation captures its stack.
        let keeps = probe_finds_frames();
        KEEPS_FRAME_POINTERS.get_or_init(|| keeps);
    }
}

fn probe_finds_frames() -> bool {
    // Without the bounds of the stack, the frames would end with their page.
    note_bounds();
    let mut frames = [0; PROBE_LEVELS + 1];
    let count = probe(PROBE_LEVELS, &mut frames);
    count == frames.len()
        && frames.iter().all(|address| code_range::is_return_address(*address))
        && frames[..PROBE_LEVELS].windows(2).all(|pair| pair[0] == pair[1])
}

/// Calls itself `levels` times, and then follows the frame pointers into `frames`.
#[inline(never)]
fn probe(levels: usize, frames: &mut [usize]) -> usize {
    // A variable whose address escapes prevents the compiler from turning the recursion into a
    // loop, or from specialising the function for each number.
    let mut here = levels;
    black_box(&raw mut here);
    let count = match here {
        0 => follow_from_here(frames),
        levels => probe(levels - 1, frames),
    };
    black_box(&raw mut here);
    count
}

/// Finds the bounds of this thread's stack, so that signal handlers know them. It may allocate, so
/// call it at the beginning of a thread, and never in a signal handler.
pub fn prepare_thread() {
    code_range::find();
    note_bounds();
    find_frame_pointers();
}

/// Notes the bounds of this thread's stack, once.
fn note_bounds() {
    if with_thread(|thread| thread.stack_high.load(Ordering::Relaxed)) != 0 {
        return;
    }
    let Some((low, high)) = find_bounds() else { return };
    with_thread(|thread| {
        thread.stack_low.store(low, Ordering::Relaxed);
        thread.stack_high.store(high, Ordering::Relaxed);
    });
}

fn find_bounds() -> Option<(usize, usize)> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut low, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are initialised by the first call, before the others read them, and
    // destroyed once; the thread is this one, which exists.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let found = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (found == 0).then(|| (low as usize, low as usize + size))
    }
}

/// The readable stack above `sp`; only the rest of the page for a thread that was not prepared.
fn bounds_above(sp: usize) -> Bounds {
    let (low, high) = with_thread(|thread| {
        (thread.stack_low.load(Ordering::Relaxed), thread.stack_high.load(Ordering::Relaxed))
    });
    let high =
        if (low..high).contains(&sp) { high } else { (sp | (PAGE_BYTES - 1)).wrapping_add(1) };
    Bounds { low: sp, high }
}

/// The output buffer of frames.
struct Frames<'a> {
    found: &'a mut [usize],
    count: usize,
}

impl Frames<'_> {
    /// Keeps a frame; false if there is no room for another.
    fn push(&mut self, address: usize) -> bool {
        if let Some(place) = self.found.get_mut(self.count) {
            *place = address;
            self.count += 1;
        }
        self.count < self.found.len()
    }

    /// Follows the chain of frame pointers from `fp` on. The chain leads upwards or ends.
    fn follow(&mut self, bounds: Bounds, mut fp: usize) {
        while let Some(next) = bounds.read(fp) {
            let caller = bounds.read(fp + WORD).unwrap_or(0);
            // The lowest page is never mapped, so that such an address is no code.
            if caller < PAGE_BYTES || !self.push(caller) || next <= fp {
                return;
            }
            fp = next;
        }
    }
}

/// Writes the stack of this thread, which was interrupted with `registers`, to `frames`: the
/// program counter, then the return addresses. Returns their number. For signal handlers. Without
/// frame pointers it is only the program counter.
pub fn capture_interrupted(registers: &Registers, frames: &mut [usize]) -> usize {
    let bounds = bounds_above(registers.sp & !(WORD - 1));
    let mut frames = Frames { found: frames, count: 0 };
    if !frames.push(registers.pc) || !keeps_frame_pointers() {
        return frames.count;
    }
    if code_range::contains(registers.pc) {
        if let Some(caller) = caller_without_frame(registers, bounds)
            && !frames.push(caller)
        {
            return frames.count;
        }
        frames.follow(bounds, registers.fp);
    } else if let Some((place, caller)) = find_caller(bounds) {
        frames.push(caller);
        if let Some(fp) = find_frame_pointer(registers.fp, bounds, place) {
            frames.follow(bounds, fp);
        }
    }
    frames.count
}

/// The caller of a function that was interrupted in its prologue or epilogue, where the chain of
/// frame pointers does not have it.
#[cfg(target_arch = "x86_64")]
fn caller_without_frame(registers: &Registers, bounds: Bounds) -> Option<usize> {
    let place = match code_range::bytes_at(registers.pc)? {
        // At `push rbp`, or at `ret`.
        [_, 0x55 | 0xc3, ..] => registers.sp,
        // Behind `push rbp`, at `mov rbp, rsp`.
        [0x55, 0x48, 0x89, 0xe5] => registers.sp + WORD,
        _ => return None,
    };
    bounds.read(place).filter(|caller| code_range::is_return_address(*caller))
}

#[cfg(not(target_arch = "x86_64"))]
fn caller_without_frame(_: &Registers, _: Bounds) -> Option<usize> {
    None
}

/// The first return address into the program: its place on the stack, and its value.
fn find_caller(bounds: Bounds) -> Option<(usize, usize)> {
    (0..SEARCH_WORDS_MAX).map(|word| bounds.low + word * WORD).find_map(|place| {
        let address = bounds.read(place)?;
        code_range::is_return_address(address).then_some((place, address))
    })
}

/// The frame pointer of the function whose callee's return address is at `place`. The foreign code
/// has either not changed the register, or pushed it among its first words, which are nearest to
/// `place`.
fn find_frame_pointer(in_register: usize, bounds: Bounds, place: usize) -> Option<usize> {
    let is_frame = |fp: &usize| {
        *fp > place
            && bounds.read(*fp).is_some_and(|next| next > *fp)
            && bounds.read(*fp + WORD).is_some_and(|caller| caller >= PAGE_BYTES)
    };
    if is_frame(&in_register) {
        return Some(in_register);
    }
    let pushed = (bounds.low..place).step_by(WORD).rev().take(SEARCH_WORDS_MAX);
    pushed.filter_map(|at| bounds.read(at)).find(is_frame)
}

/// Writes the return addresses of the callers of this function, the innermost first, to `frames`.
/// Returns their number: zero in a program without frame pointers. Not for signal handlers, because
/// it prepares the thread if necessary.
#[inline(never)]
pub fn capture(frames: &mut [usize]) -> usize {
    prepare_thread();
    if keeps_frame_pointers() { follow_from_here(frames) } else { 0 }
}

/// Follows the frame pointers from that of the function into which this is inlined. With any value
/// of that register, no word below the stack pointer or above the stack is read.
#[inline(always)]
fn follow_from_here(frames: &mut [usize]) -> usize {
    let (sp, fp) = stack_and_frame_pointer();
    let mut frames = Frames { found: frames, count: 0 };
    frames.follow(bounds_above(sp), fp);
    frames.count
}

/// The stack pointer and the frame pointer of the function into which this is inlined.
#[inline(always)]
fn stack_and_frame_pointer() -> (usize, usize) {
    let (sp, fp): (usize, usize);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it copies two registers.
    unsafe {
        std::arch::asm!(
            "mov {}, rsp", "mov {}, rbp", out(reg) sp, out(reg) fp,
            options(nomem, nostack, preserves_flags)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: it copies two registers.
    unsafe {
        std::arch::asm!(
            "mov {}, sp", "mov {}, x29", out(reg) sp, out(reg) fp,
            options(nomem, nostack, preserves_flags)
        );
    }
    // On other processors nothing is read.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        (sp, fp) = (0, 0);
    }
    (sp, fp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn deep(levels: usize, frames: &mut [usize]) -> usize {
        let count = if levels == 0 { capture(frames) } else { deep(levels - 1, frames) };
        std::hint::black_box(count)
    }

    #[test]
    fn callers_are_found_and_the_depth_is_bounded() {
        let mut frames = [0; STACK_DEPTH_MAX];
        let shallow = deep(2, &mut frames);
        let deeper = deep(7, &mut frames);
        assert_eq!(deeper, shallow + 5);
        assert!(frames[..8].iter().all(|address| code_range::is_return_address(*address)));
        assert_eq!(deep(200, &mut frames), STACK_DEPTH_MAX);
    }

    /// Foreign code may have any values in its registers: nothing outside of the stack may be read.
    #[test]
    fn arbitrary_registers_are_harmless() {
        prepare_thread();
        let mut frames = [0; STACK_DEPTH_MAX];
        let here = &raw const frames as usize;
        let pc = arbitrary_registers_are_harmless as *const () as usize;
        for pc in [0, 1, pc, pc + 1, usize::MAX] {
            for fp in [0, 1, 7, here, here + 1, here - 4_096, usize::MAX, usize::MAX - 7] {
                let sp = here;
                let count = capture_interrupted(&Registers { pc, sp, fp }, &mut frames);
                assert!((1..=STACK_DEPTH_MAX).contains(&count));
            }
        }
    }

    /// Regression: the lower bound was taken from the frame pointer's register, so that in a
    /// program without frame pointers the first step read any address in it.
    #[test]
    fn a_chain_that_leaves_the_stack_is_not_followed() {
        prepare_thread();
        let mut words = [0_usize; 8];
        let here = &raw const words as usize;
        let bounds = Bounds { low: here, high: here + size_of_val(&words) };
        let count = |words: &[usize; 8], fp: usize| {
            black_box(words);
            let mut found = [0; 4];
            let mut frames = Frames { found: &mut found, count: 0 };
            frames.follow(bounds, fp);
            frames.count
        };
        for fp in [0, 8, here - WORD, here + 1, bounds.high, bounds.high - 1, usize::MAX - 7] {
            assert_eq!(count(&words, fp), 0, "{fp:x}");
        }
        words[1] = PAGE_BYTES;
        for next in [0, here, here - WORD, here + 3, bounds.high, usize::MAX] {
            words[0] = next;
            assert_eq!(count(&words, here), 1, "{next:x}");
        }
    }

    #[test]
    fn this_build_keeps_frame_pointers_and_that_is_detected() {
        prepare_thread();
        assert!(keeps_frame_pointers(), "see .cargo/config.toml");
    }

    /// Regression: the probe ran before the bounds were known. If its frames crossed the end of a
    /// page, the whole program had no stacks.
    #[test]
    fn the_probe_finds_frames_at_any_position_in_a_page() {
        #[inline(never)]
        fn lower(steps: usize) -> bool {
            let padding = black_box([0_u8; 160]);
            let is_found = if steps == 0 { probe_finds_frames() } else { lower(steps - 1) };
            black_box(&padding);
            is_found
        }
        for steps in 0..40 {
            let found = std::thread::spawn(move || lower(steps));
            assert!(found.join().unwrap(), "{steps} steps further down");
        }
    }

    #[test]
    fn an_unprepared_thread_reads_only_one_page() {
        let bounds = std::thread::spawn(|| {
            let here = std::hint::black_box(1_usize);
            let sp = &raw const here as usize;
            (sp, bounds_above(sp))
        });
        let (sp, bounds) = bounds.join().unwrap();
        assert!(bounds.high - sp <= PAGE_BYTES && bounds.high % PAGE_BYTES == 0);
    }
}
