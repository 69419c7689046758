//! The figures of the original study of ArangoDB: medians in nanoseconds of `/_api/version`, with a
//! run of 1,000,000 requests for each transport, and with the processor's Turbo switched off.

/// The total over HTTP/1.1.
pub(crate) const TOTAL_NS: f64 = 60_017.0;
/// The total over HTTP/1.1 with TLS.
pub(crate) const TOTAL_TLS_NS: f64 = 77_000.0;
/// The total over HTTP/2 with TLS.
pub(crate) const TOTAL_HTTP2_NS: f64 = 79_000.0;
/// The 99.9th percentile of the total over HTTP/1.1.
pub(crate) const TOTAL_P99_9_NS: f64 = 136_061.0;
/// The sum of the three phases before the hand-over to a thread of the scheduler.
pub(crate) const BEFORE_NS: f64 = 2_458.0 + 1_901.0 + 1_958.0;
/// The hand-over to that thread.
pub(crate) const HAND_OVER_NS: f64 = 8_292.0;
/// The handler; compressing the answer took most of its time.
pub(crate) const EXECUTE_NS: f64 = 18_000.0;
/// The hand-over back to the thread of the connection.
pub(crate) const HAND_BACK_NS: f64 = 11_000.0;
/// Writing the response.
pub(crate) const WRITE_NS: f64 = 15_000.0;
