//! The headers in which a server accounts for its own time.

/// The headers of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTiming {
    /// `Server-Timing` (W3C), all of them with commas between.
    pub timing: Vec<u8>,
    /// `Pellucid-Clock`: when the request arrived, on a clock that this machine may share.
    pub clock: Vec<u8>,
}

impl ServerTiming {
    /// The first header's name, in lower case.
    pub const TIMING: &str = "server-timing";
    /// The second one's.
    pub const CLOCK: &str = "pellucid-clock";

    /// Takes a header of one of these names.
    pub fn take_header(&mut self, name: &str, value: &[u8]) {
        if name == ServerTiming::CLOCK {
            value.clone_into(&mut self.clock);
            return;
        }
        if !self.timing.is_empty() {
            self.timing.push(b',');
        }
        self.timing.extend_from_slice(value);
    }
}
