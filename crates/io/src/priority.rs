//! The priority of threads whose work can wait.

/// The lowest priority, in steps below the usual one.
const LOWEST: u8 = 19;

/// Has the calling thread come after others of the process where processors are short: `steps`
/// below the usual priority, of which there are 19, unless it is there or lower already. It still
/// gets its share, a smaller one. Where the system knows no priorities of threads, nothing changes.
pub fn lower_own_priority(steps: u8) {
    let steps = i32::from(steps.min(LOWEST));
    #[cfg(target_os = "linux")]
    // SAFETY: the calls read and change the priority of this thread alone, which is what Linux
    // takes a process number of zero for. That the change is refused changes nothing.
    unsafe {
        if libc::getpriority(libc::PRIO_PROCESS, 0) < steps {
            libc::setpriority(libc::PRIO_PROCESS, 0, steps);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = steps;
}

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
            lower_own_priority(1);
            own()
        });
        assert_eq!(lowered.join().unwrap(), i32::from(LOWEST));
        assert_eq!(own(), before);
    }
}
