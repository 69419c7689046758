//! The figures of the original study: milliseconds for all queries, means of three runs, on
//! ArangoDB with its defaults, over a network.

/// The figures for each number of concurrent queries: the driver with 3, 10 and 100 sockets, and
/// HTTP without a driver, which did not finish 5,000 or more because the server's queue was full.
pub(super) const MILLISECONDS: [(u64, [Option<f64>; 4]); 4] = [
    (500, [Some(5_146.0), Some(1_651.0), Some(1_108.0), Some(1_277.0)]),
    (1_000, [Some(10_008.0), Some(3_235.0), Some(2_179.0), Some(2_466.0)]),
    (5_000, [Some(49_430.0), Some(16_210.0), Some(10_640.0), None]),
    (10_000, [Some(99_647.0), Some(32_282.0), Some(21_310.0), None]),
];

/// The original's figure for this number of queries. `connection` is the index of its column.
pub(super) fn milliseconds(queries: u64, connection: usize) -> Option<f64> {
    let row = MILLISECONDS.iter().find(|(number, _)| *number == queries)?;
    row.1[connection]
}
