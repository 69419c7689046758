//! Recognises the system call that a thread was in, by the machine code around its program counter.
//!
//! A timer tick during a system call is delivered when the kernel returns. The program counter then
//! points right after the call instruction, or at it if the call will be restarted. The registers
//! may no longer hold the number of the call. But the code before the instruction almost always
//! loads the number as a constant. If it does not, the call stays without a name.

/// Bytes of code before a system call in which its number is searched for.
pub(crate) const CODE_BEFORE: usize = 48;
/// Bytes of code after the program counter that are looked at: the length of a call instruction.
pub(crate) const CODE_BEHIND: usize = CALL.len();

#[cfg(target_arch = "x86_64")]
const CALL: &[u8] = &[0x0f, 0x05];
#[cfg(target_arch = "aarch64")]
const CALL: &[u8] = &[0x01, 0x00, 0x00, 0xd4];
/// The call instruction of other processors is not known; these bytes never match.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALL: &[u8] = &[0xff; CODE_BEFORE + 1];

/// A system call that a thread was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SystemCall {
    /// Bytes from the program counter to the end of the call instruction.
    pub(crate) behind: usize,
    /// The number of the call, if the code shows it.
    number: Option<u32>,
}

impl SystemCall {
    /// The call that a thread was in. `before` and `behind` are the code before and after its
    /// program counter.
    pub(crate) fn between(before: &[u8], behind: &[u8]) -> Option<SystemCall> {
        if let Some(before) = before.strip_suffix(CALL) {
            return Some(SystemCall { behind: 0, number: number_loaded(before) });
        }
        let is_ahead = behind.starts_with(CALL);
        is_ahead.then(|| SystemCall { behind: CALL.len(), number: number_loaded(before) })
    }

    /// The name of the frame that shows the call in a stack.
    pub(crate) fn frame(self) -> String {
        let Some(number) = self.number else { return "[kernel]".to_owned() };
        name_of(number).map_or_else(
            || format!("[kernel: system call {number}]"),
            |name| format!("[kernel: {name}]"),
        )
    }
}

/// The number that `code` leaves in `eax`. Instructions differ in length and are read backwards
/// here, so bytes that may belong to another instruction are not counted.
#[cfg(target_arch = "x86_64")]
fn number_loaded(code: &[u8]) -> Option<u32> {
    const NUMBERS: u32 = 512;
    // The longest start of an instruction: a prefix, an opcode of two bytes, and an operand byte.
    const FRONT: usize = 4;
    for at in (FRONT..code.len().saturating_sub(1)).rev() {
        // Registers from r8 on have a prefix.
        let is_high = code[at - 1] & 0xf1 == 0x41;
        match code[at..] {
            // mov eax, constant
            [0xb8, a, b, c, d, ..] if !is_high && !is_operand(&code[at - FRONT..at]) => {
                let number = u32::from_le_bytes([a, b, c, d]);
                if number < NUMBERS {
                    return Some(number);
                }
            }
            // xor eax, eax
            [0x31, 0xc0, ..] if code[at - 1] & 0xf0 != 0x40 => return Some(0),
            // mov eax, register: it was loaded elsewhere.
            [0x89, operand, ..] if operand & 0xc7 == 0xc0 && !is_high => return None,
            _ => {}
        }
    }
    None
}

/// Returns true if the byte after `front` may be the operand byte of an instruction with r8 as the
/// base register, and not the opcode of `mov eax`.
#[cfg(target_arch = "x86_64")]
fn is_operand(front: &[u8]) -> bool {
    let is_high = |place: usize| front[place] & 0xf1 == 0x41;
    let has_index = front[3] & 0xc7 == 0x84;
    is_high(2)
        || is_high(1) && (front[2] == 0x0f || has_index)
        || is_high(0) && front[1] == 0x0f && has_index
}

/// The number that `code` leaves in `x8`.
#[cfg(target_arch = "aarch64")]
fn number_loaded(code: &[u8]) -> Option<u32> {
    for bytes in code.rchunks_exact(4) {
        let instruction = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        // mov x8, constant; or w8
        if instruction & 0x7fe0_001f == 0x5280_0008 {
            return Some(instruction >> 5 & 0xffff);
        }
        // mov x8, register; or w8: it was loaded elsewhere.
        if instruction & 0x7fe0_ffff == 0x2a00_03e8 {
            return None;
        }
    }
    None
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn number_loaded(_: &[u8]) -> Option<u32> {
    None
}

macro_rules! names {
    ($($constant:ident)*) => {
        &[$((libc::$constant, stringify!($constant))),*]
    };
}

/// The names of the system calls that programs like this one make.
const NAMES: &[(libc::c_long, &str)] = names![
    SYS_accept SYS_accept4 SYS_bind SYS_brk SYS_clock_gettime SYS_clock_nanosleep SYS_clone
    SYS_clone3 SYS_close SYS_connect SYS_copy_file_range SYS_dup SYS_dup3 SYS_epoll_create1
    SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_execve SYS_exit
    SYS_exit_group SYS_faccessat SYS_fadvise64 SYS_fallocate SYS_fchmod SYS_fcntl SYS_fdatasync
    SYS_flock SYS_fstat SYS_fsync SYS_ftruncate SYS_futex SYS_getcwd SYS_getdents64
    SYS_getpeername SYS_getpid SYS_getrandom SYS_getrusage SYS_getsockname SYS_getsockopt
    SYS_gettid SYS_io_uring_enter SYS_ioctl SYS_kill SYS_linkat SYS_listen SYS_lseek SYS_madvise
    SYS_membarrier SYS_mkdirat SYS_mlock SYS_mmap SYS_mprotect SYS_mremap SYS_msync SYS_munmap
    SYS_nanosleep SYS_newfstatat SYS_openat SYS_pipe2 SYS_ppoll SYS_prctl SYS_pread64 SYS_preadv
    SYS_preadv2 SYS_prlimit64 SYS_pwrite64 SYS_pwritev SYS_pwritev2 SYS_read SYS_readahead
    SYS_readlinkat SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_renameat2
    SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_sched_getaffinity
    SYS_sched_setaffinity SYS_sched_yield SYS_sendfile SYS_sendmmsg SYS_sendmsg SYS_sendto
    SYS_setsockopt SYS_shutdown SYS_sigaltstack SYS_socket SYS_socketpair SYS_splice SYS_statfs
    SYS_statx SYS_tgkill SYS_timer_create SYS_timer_delete SYS_timer_settime SYS_timerfd_create
    SYS_timerfd_settime SYS_uname SYS_unlinkat SYS_wait4 SYS_write SYS_writev
];

/// Older system calls that newer processor architectures do not have.
#[cfg(target_arch = "x86_64")]
const NAMES_OF_OLD: &[(libc::c_long, &str)] = names![
    SYS_access SYS_epoll_wait SYS_fork SYS_getdents SYS_lstat SYS_mkdir SYS_open SYS_pause
    SYS_pipe SYS_poll SYS_readlink SYS_rename SYS_renameat SYS_rmdir SYS_select SYS_stat
    SYS_sync_file_range SYS_unlink SYS_vfork
];
#[cfg(not(target_arch = "x86_64"))]
const NAMES_OF_OLD: &[(libc::c_long, &str)] = &[];

/// The kernel's name of the system call with this number.
fn name_of(number: u32) -> Option<&'static str> {
    let mut all = NAMES.iter().chain(NAMES_OF_OLD);
    let (_, constant) = all.find(|(known, _)| *known == libc::c_long::from(number))?;
    constant.strip_prefix("SYS_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    fn frame(before: &[u8], behind: &[u8]) -> Option<(usize, String)> {
        let before = [&[0x90; CODE_BEFORE][..], before].concat();
        let call = SystemCall::between(&before, behind)?;
        Some((call.behind, call.frame()))
    }

    /// Uses machine code that compilers generated for real programs.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_system_call_is_recognised_by_the_code_before_it() {
        let send = [
            0x41, 0x89, 0xca, // mov r10d, ecx
            0xb8, 0x2c, 0x00, 0x00, 0x00, // mov eax, 44
            0x45, 0x31, 0xc0, // xor r8d, r8d
            0x45, 0x31, 0xc9, // xor r9d, r9d
            0x0f, 0x05,
        ];
        let named = |behind, name: &str| Some((behind, name.to_owned()));
        assert_eq!(frame(&send, &[0x48, 0x3d]), named(0, "[kernel: sendto]"));
        // The call will be restarted: the program counter is before the instruction.
        assert_eq!(frame(&send[..14], &send[14..]), named(2, "[kernel: sendto]"));
        assert_eq!(frame(&send[..14], &[0x0f]), None);
        assert_eq!(frame(&send[..14], &[0x48, 0x3d]), None);
        for (code, name) in [
            // xor eax, eax
            (&[0x31, 0xc0][..], "[kernel: read]"),
            (&[0xb8, 0x37, 0x01, 0, 0], "[kernel: system call 311]"),
            // mov eax, 44; mov rax, rdi
            (&[0xb8, 0x2c, 0, 0, 0, 0x48, 0x89, 0xf8], "[kernel]"),
            // mov rdi, [r8 + 44]; movzx edi, byte [r8 + 44]; mov edi, [r8 + rdi * 4 + 44]: no
            // number, though they look like one.
            (&[0x49, 0x8b, 0xb8, 0x2c, 0, 0, 0], "[kernel]"),
            (&[0x41, 0x0f, 0xb6, 0xb8, 0x2c, 0, 0, 0], "[kernel]"),
            (&[0x41, 0x8b, 0xbc, 0xb8, 0x2c, 0, 0, 0], "[kernel]"),
            (&[], "[kernel]"),
        ] {
            assert_eq!(frame(&[code, &[0x0f, 0x05]].concat(), &[]), named(0, name), "{code:x?}");
        }
    }

    /// Looks at the real code of some functions of the C library, each named after its system call.
    #[test]
    fn system_calls_of_the_c_library_are_recognised() {
        for (function, name) in [
            (libc::fsync as *const () as usize, "fsync"),
            (libc::fdatasync as *const () as usize, "fdatasync"),
            (libc::getppid as *const () as usize, "system call"),
            (libc::sched_yield as *const () as usize, "sched_yield"),
            (libc::listen as *const () as usize, "listen"),
        ] {
            let from = (function - CODE_BEFORE) as *const u8;
            // SAFETY: it is code of the C library: a function, and what stands around it.
            let code = unsafe { std::slice::from_raw_parts(from, 2 * CODE_BEFORE) };
            let mut ends = CODE_BEFORE + CODE_BEHIND..=code.len();
            let call = ends.find_map(|end| SystemCall::between(&code[..end], &[]));
            let frame = call.unwrap().frame();
            assert!(frame.starts_with(&format!("[kernel: {name}")), "{name}: {frame}");
        }
    }
}
