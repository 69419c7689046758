//! The plan of the runs: the engines, the sizes, and the server of each engine.

use std::net::SocketAddr;
use std::path::PathBuf;

#[cfg(feature = "rocksdb")]
use pellucid_server::RocksOptions;
use pellucid_server::{ServerOptions, StoreKind};
use serde::{Deserialize, Serialize};

use crate::error::StudyError;
use crate::study::Scale;

/// Bytes of a value: those of the original's script, whose answers to GET were that long, too.
pub(super) const VALUE_BYTES: usize = 103;
/// Memory of a store. RocksDB makes memtables of 2 MiB of it, as the original's were, and a block
/// cache of 8 MiB, its default.
const MEMORY_BYTES: u64 = 16 << 20;
/// The same of the quick version, in whose few seconds memtables have to fill, or nothing is
/// flushed beside a request.
const MEMORY_BYTES_QUICK: u64 = 1 << 20;

/// A store that the study can be run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// Pellucid's own.
    Embedded,
    /// RocksDB, in builds that have it.
    #[cfg(feature = "rocksdb")]
    RocksDb,
}

impl Engine {
    /// Those that are built in.
    pub const ALL: &[Engine] = &[
        Engine::Embedded,
        #[cfg(feature = "rocksdb")]
        Engine::RocksDb,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Engine::Embedded => "embedded",
            #[cfg(feature = "rocksdb")]
            Engine::RocksDb => "rocksdb",
        }
    }
}

/// Options of the study.
#[derive(Clone, Debug, Default)]
pub struct EntityStudyOptions {
    /// Its size.
    pub scale: Scale,
    /// The stores; none for all that are built in.
    pub engines: Vec<Engine>,
    /// Seconds of each load, if not those of its size.
    pub seconds: Option<u64>,
    /// Memory of each store, if not the usual.
    pub memory_bytes: Option<u64>,
    /// The folder of the stores.
    pub data: Option<PathBuf>,
}

impl EntityStudyOptions {
    /// The stores, each once.
    pub(super) fn engines(&self) -> Vec<Engine> {
        let chosen = if self.engines.is_empty() { Engine::ALL } else { &self.engines };
        let mut engines = Vec::new();
        for engine in chosen {
            if !engines.contains(engine) {
                engines.push(*engine);
            }
        }
        engines
    }

    pub(super) fn keys(&self) -> u64 {
        match self.scale {
            Scale::Quick => 50_000,
            Scale::Default => 500_000,
            Scale::Full => 5_000_000,
        }
    }

    pub(super) fn seconds(&self) -> u64 {
        self.seconds.unwrap_or(match self.scale {
            Scale::Quick => 4,
            Scale::Default => 12,
            Scale::Full => 20,
        })
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.unwrap_or(match self.scale {
            Scale::Quick => MEMORY_BYTES_QUICK,
            Scale::Default | Scale::Full => MEMORY_BYTES,
        })
    }

    /// Refuses what cannot be run.
    pub(super) fn check(&self) -> Result<(), StudyError> {
        if self.seconds() == 0 {
            return Err(StudyError::Options("--seconds is at least 1".to_owned()));
        }
        if self.memory_bytes() < 1 << 20 {
            return Err(StudyError::Options("--memory is at least 1M".to_owned()));
        }
        Ok(())
    }
}

/// The instructions for a server's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ServerPlan {
    pub(super) engine: Engine,
    pub(super) data: PathBuf,
    pub(super) memory_bytes: u64,
}

impl ServerPlan {
    /// The server: one event loop, as there is one connection.
    pub(super) fn options(self) -> ServerOptions {
        let mut options = ServerOptions::new(self.data);
        options.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
        options.threads = 1;
        match self.engine {
            Engine::Embedded => {
                options.store = StoreKind::Embedded;
                options.embedded.memory_bytes = self.memory_bytes;
            }
            #[cfg(feature = "rocksdb")]
            Engine::RocksDb => {
                let memory_bytes = usize::try_from(self.memory_bytes).unwrap_or(usize::MAX);
                let settings = RocksOptions { memory_bytes, ..RocksOptions::default() };
                options.store = StoreKind::Rocks(settings);
            }
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_engines_that_are_built_in_are_the_default() {
        let options = EntityStudyOptions::default();
        assert_eq!(options.engines(), Engine::ALL);
        let twice = vec![Engine::Embedded, Engine::Embedded];
        assert_eq!(EntityStudyOptions { engines: twice, ..options }.engines(), [Engine::Embedded]);
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let options = EntityStudyOptions::default();
        assert!(options.check().is_ok());
        assert!(EntityStudyOptions { seconds: Some(0), ..options.clone() }.check().is_err());
        assert!(EntityStudyOptions { memory_bytes: Some(9), ..options }.check().is_err());
    }
}
