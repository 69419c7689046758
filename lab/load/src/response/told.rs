//! What a server tells of its own time, beside the answer.

/// What a server tells of a request in the headers of its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// `Server-Timing` (W3C), all of them with commas between.
    pub(crate) timing: Vec<u8>,
    /// `Pellucid-Clock`: when the request arrived, on a clock that this machine may share.
    pub(crate) clock: Vec<u8>,
}

impl Told {
    /// The names of the headers, in lower case.
    pub(crate) const TIMING: &[u8] = b"server-timing";
    pub(crate) const CLOCK: &[u8] = b"pellucid-clock";

    /// Takes a header of these names; of another it is not called.
    pub(crate) fn take_header(&mut self, name: &[u8], value: &[u8]) {
        if name == Told::CLOCK {
            value.clone_into(&mut self.clock);
            return;
        }
        if !self.timing.is_empty() {
            self.timing.push(b',');
        }
        self.timing.extend_from_slice(value);
    }
}
