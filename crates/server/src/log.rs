//! Lines for the operator, wherever they go.

use std::sync::Arc;

/// Where the server writes what an operator has to know. The library itself prints nothing.
#[derive(Clone)]
pub struct Log {
    write: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Log {
    /// A log that hands each line to `write`.
    #[must_use]
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Log {
        Log { write: Arc::new(write) }
    }

    /// Writes one line.
    pub fn write(&self, line: &str) {
        (self.write)(line);
    }
}
