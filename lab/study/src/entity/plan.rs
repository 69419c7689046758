//! The plan of the study: the engines, the sizes, and the server of each engine.

use std::net::SocketAddr;
use std::path::PathBuf;

#[cfg(feature = "rocksdb")]
use pellucid_server::RocksOptions;
use pellucid_server::{ServerOptions, StoreKind};
use serde::{Deserialize, Serialize};

use crate::error::StudyError;
use crate::study::Scale;

/// The length of a value in bytes, as in the original's script and in its answers to GET.
pub(super) const VALUE_BYTES: usize = 103;
/// The memory of a store. RocksDB divides it into memtables of 2 MiB, as in the original, and a
/// block cache of 8 MiB, its default.
const MEMORY_BYTES: u64 = 16 << 20;
/// The memory of a store in the quick study. It must be small, so that memtables fill and are
/// flushed within a few seconds.
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
    /// All engines that are built in.
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
    /// The size of the study.
    pub scale: Scale,
    /// The engines; empty for all that are built in.
    pub engines: Vec<Engine>,
    /// The duration of each load in seconds, in place of the default of the scale.
    pub seconds: Option<u64>,
    /// The memory of each store, in place of the default of the scale.
    pub memory_bytes: Option<u64>,
    /// The folder in which the stores are made; the system's temporary folder if `None`.
    pub data: Option<PathBuf>,
}

impl EntityStudyOptions {
    /// The engines without duplicates.
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

    /// Refuses invalid options.
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
    /// The options of the server. One event loop is enough for one connection.
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
    fn invalid_options_are_refused() {
        let options = EntityStudyOptions::default();
        assert!(options.check().is_ok());
        assert!(EntityStudyOptions { seconds: Some(0), ..options.clone() }.check().is_err());
        assert!(EntityStudyOptions { memory_bytes: Some(9), ..options }.check().is_err());
    }
}
