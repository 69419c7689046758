//! Histograms of the times of requests and connections.

use hdrhistogram::Histogram;

use crate::histograms::{add, time_histogram};

/// The times of a run.
///
/// All histograms are in nanoseconds with three significant digits. Without a rate, the intended
/// start is the send itself: then response time and service time are the same (unless every request
/// opens a connection first), and the send lateness is empty.
#[derive(Clone, Debug)]
pub struct Times {
    /// From the intended start to the whole answer: what a user would wait.
    pub response: Histogram<u64>,
    /// From the actual send to the whole answer: what the server took.
    pub service: Histogram<u64>,
    /// The waits of requests without an answer, from their intended start to the end of the run:
    /// lower bounds of their response times. Requests whose connection broke are not included.
    pub unanswered: Histogram<u64>,
    /// From the intended start to the actual send: how late the generator was, either because the
    /// connection was still busy or because it did not wake up in time.
    pub send_lateness: Histogram<u64>,
    /// A part of the send lateness: from the intended start until a connection was free to take the
    /// request. It grows with the server's time and shrinks with more connections.
    pub connection_wait: Histogram<u64>,
    /// A part of the send lateness: the generator's own delay, from the time at which the request
    /// was due and a connection was free.
    pub generator_delay: Histogram<u64>,
    /// The time to open a connection, for those that were opened during the run.
    pub connect: Histogram<u64>,
    /// A part of the connect time: the TLS handshake.
    pub tls: Histogram<u64>,
}

impl Times {
    pub(crate) fn new() -> Times {
        Times {
            response: time_histogram(),
            service: time_histogram(),
            unanswered: time_histogram(),
            send_lateness: time_histogram(),
            connection_wait: time_histogram(),
            generator_delay: time_histogram(),
            connect: time_histogram(),
            tls: time_histogram(),
        }
    }

    /// Merges the times of another thread.
    pub(crate) fn merge(&mut self, other: &Times) {
        add(&mut self.response, &other.response);
        add(&mut self.service, &other.service);
        add(&mut self.unanswered, &other.unanswered);
        add(&mut self.send_lateness, &other.send_lateness);
        add(&mut self.connection_wait, &other.connection_wait);
        add(&mut self.generator_delay, &other.generator_delay);
        add(&mut self.connect, &other.connect);
        add(&mut self.tls, &other.tls);
    }
}
