//! The load generator: constant rate, honest latency, wrk2's scripts.
