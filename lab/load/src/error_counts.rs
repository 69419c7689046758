//! Errors of a run, counted by kind.

/// Failures by kind, and the number of requests that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Connections that could not be opened.
    pub connect: u64,
    /// Connections that broke, ended or became unreadable while an answer was awaited.
    pub read: u64,
    /// Connections that broke while a request was written.
    pub write: u64,
    /// Requests without an answer within the timeout. The connection goes on waiting, so such a
    /// request may be answered, and recorded in full, later.
    pub timeout: u64,
    /// Answers with a status of 400 or above that is not accepted. They count as requests, too.
    pub status: u64,
    /// Answers that are not HTTP, contradict themselves or end too early; included in `read`.
    pub malformed: u64,
    /// Answers that failed a check on status or body. They count as requests, too.
    pub check: u64,
    /// HTTP/2 requests that the server refused each time that they were sent (`GOAWAY`,
    /// `REFUSED_STREAM`), until they were given up.
    pub left_out: u64,
    /// Requests that failed, each counted once: lost with their connection, without an answer
    /// within the timeout, left out, or with an answer that is an error. A connection that breaks
    /// is one error however many requests it loses.
    pub failed_requests: u64,
}

impl ErrorCounts {
    /// Errors of the connection rather than of the answer, as in wrk's line "Socket errors".
    #[must_use]
    pub fn sockets(&self) -> u64 {
        self.connect + self.read + self.write + self.timeout
    }

    /// Errors of all kinds.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.sockets() + self.status + self.check + self.left_out
    }

    /// The kinds with their counts. Here `read` excludes `malformed`, so that they add up.
    #[must_use]
    pub fn by_kind(&self) -> [(&'static str, u64); 8] {
        [
            ("connect", self.connect),
            ("read", self.read.saturating_sub(self.malformed)),
            ("write", self.write),
            ("timeout", self.timeout),
            ("status 400 or above", self.status),
            ("malformed answer", self.malformed),
            ("check failed", self.check),
            ("left out by the server", self.left_out),
        ]
    }

    pub(crate) fn add(&mut self, other: &ErrorCounts) {
        self.connect += other.connect;
        self.read += other.read;
        self.write += other.write;
        self.timeout += other.timeout;
        self.status += other.status;
        self.malformed += other.malformed;
        self.check += other.check;
        self.left_out += other.left_out;
        self.failed_requests += other.failed_requests;
    }
}
