//! Silence of a server that is waited for.

/// The longest time in which no answer came though one was waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// The time at which it ended, since the start of the run.
    pub end_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// The length of the one in which the run ended; 0 if nothing was waited for then.
    pub at_end_ns: u64,
}

impl Silence {
    /// The longer one of two threads, and the longer one at the end.
    pub(crate) fn longer(self, other: Silence) -> Silence {
        let longest = if other.length_ns > self.length_ns { other } else { self };
        Silence { at_end_ns: self.at_end_ns.max(other.at_end_ns), ..longest }
    }
}
