//! The headers in which a server accounts for its own time.

/// The headers of one response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTiming {
    /// The values of all `Server-Timing` headers (W3C), separated by commas.
    pub timing: Vec<u8>,
    /// The value of `Pellucid-Clock`: the time at which the request arrived, on the server
    /// machine's clock, which may be this machine's.
    pub clock: Vec<u8>,
}

impl ServerTiming {
    /// The name of the first header, in lower case.
    pub const TIMING: &str = "server-timing";
    /// The name of the second header, in lower case.
    pub const CLOCK: &str = "pellucid-clock";

    /// Adds the value of a header with one of these names.
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
