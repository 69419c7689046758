//! The priority of threads whose work can wait.

/// Has the calling thread come after others of the process where processors are short: by `steps`
/// of the 20 that there are below the usual priority. It still gets its share, a smaller one. Where
/// the system knows no priorities of threads, nothing changes.
pub fn lower_own_priority(steps: u8) {
    #[cfg(target_os = "linux")]
    // SAFETY: the call changes the priority of this thread alone, which is what Linux takes a
    // process number of zero for. That it is refused changes nothing.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, libc::c_int::from(steps.min(LOWEST)));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = steps;
}

/// The lowest priority.
const LOWEST: u8 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_calling_thread_comes_later() {
        // SAFETY: the call reads the priority of the calling thread.
        let own = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = own();
        let lowered = std::thread::spawn(move || {
            lower_own_priority(LOWEST);
            own()
        });
        assert_eq!(lowered.join().unwrap(), i32::from(LOWEST));
        assert_eq!(own(), before);
    }
}
