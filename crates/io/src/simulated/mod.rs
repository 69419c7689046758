//! Files in memory that can lose power.

/// A file system in memory. Being built.
#[derive(Debug, Default)]
pub struct SimulatedFileSystem {}
