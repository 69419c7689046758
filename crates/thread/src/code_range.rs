//! The range of this program's own code, and the test for return addresses into it.
//!
//! Code of the C library has no frame pointers. To get past its frames, the unwinder has to
//! recognise return addresses among the words of a stack. They have two properties: they point into
//! the program's code, and right behind a call.

use std::sync::atomic::{AtomicUsize, Ordering};

static LOW: AtomicUsize = AtomicUsize::new(0);
static HIGH: AtomicUsize = AtomicUsize::new(0);

/// The most bytes of a call instruction before a return address.
const CALL_BYTES_MAX: usize = 8;

/// Finds the range of the program's code; cheap after the first call. Not for signal handlers.
pub(crate) fn find() {
    if HIGH.load(Ordering::Acquire) == 0 {
        // SAFETY: the callback has the required type, and uses only its arguments.
        unsafe { libc::dl_iterate_phdr(Some(note_program), std::ptr::null_mut()) };
    }
}

/// Notes the executable segment of the first object, which is the program itself.
unsafe extern "C" fn note_program(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    _data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader passes a valid description, whose headers are `dlpi_phnum` many.
    let (base, headers) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info.dlpi_addr as usize, headers)
    };
    for header in headers {
        if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0 {
            let low = base + header.p_vaddr as usize;
            LOW.store(low, Ordering::Relaxed);
            HIGH.store(low + header.p_memsz as usize, Ordering::Release);
        }
    }
    1
}

/// True if the address lies in the program's code.
#[inline]
pub(crate) fn contains(address: usize) -> bool {
    address >= LOW.load(Ordering::Relaxed) && address < HIGH.load(Ordering::Relaxed)
}

/// The bytes of code before `address`; none if they are not the program's.
fn bytes_before(address: usize) -> Option<[u8; CALL_BYTES_MAX]> {
    let is_within = contains(address) && contains(address.wrapping_sub(CALL_BYTES_MAX));
    // SAFETY: the bytes lie in the executable segment, which is mapped for good and readable.
    is_within.then(|| unsafe {
        std::ptr::read_unaligned((address - CALL_BYTES_MAX) as *const [u8; CALL_BYTES_MAX])
    })
}

/// The bytes of code from `address - 1` on; none if they are not the program's.
#[cfg(target_arch = "x86_64")]
pub(crate) fn bytes_at(address: usize) -> Option<[u8; 4]> {
    let is_within = contains(address.wrapping_sub(1)) && contains(address.wrapping_add(4));
    // SAFETY: as in `bytes_before`.
    is_within.then(|| unsafe { std::ptr::read_unaligned((address - 1) as *const [u8; 4]) })
}

/// True if the instruction before `address` is a call.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_return_address(address: usize) -> bool {
    let Some(bytes) = bytes_before(address) else { return false };
    // `call rel32` has five bytes; `call r/m64` (ff /2) has two to seven, without a prefix.
    let calls_register = |length: usize| {
        let at = CALL_BYTES_MAX - length;
        bytes[at] == 0xff && (bytes[at + 1] >> 3) & 7 == 2
    };
    bytes[3] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(calls_register)
}

/// True if the instruction before `address` is a call.
#[cfg(target_arch = "aarch64")]
pub(crate) fn is_return_address(address: usize) -> bool {
    let Some(bytes) = bytes_before(address) else { return false };
    let instruction = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    let branches_with_link = instruction >> 26 == 0x25;
    let branches_to_register = instruction & 0xffff_fc1f == 0xd63f_0000;
    address % 4 == 0 && (branches_with_link || branches_to_register)
}

/// True if the instruction before `address` may be a call: instructions are not decoded on this
/// processor.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn is_return_address(address: usize) -> bool {
    bytes_before(address).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_code_and_data_is_not() {
        find();
        let function: fn() = functions_are_code_and_data_is_not;
        assert!(contains(function as usize));
        assert!(!contains(&raw const LOW as usize), "a variable is no code");
        assert!(!contains(libc::malloc as *const () as usize), "the C library is not ours");
        assert!(!is_return_address(0) && !is_return_address(usize::MAX));
    }
}
