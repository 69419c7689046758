//! The HTTP transport: connections, parsing, limits, event loops.
