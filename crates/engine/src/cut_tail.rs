//! Cutting off the journal's tail on request, for journals that an opening refuses.
//!
//! An opening cuts off a tail that a loss of power has torn. If there is proof that the missing
//! record was durable, it refuses, because the store is damaged. An operator can then decide to cut
//! the tail off all the same, because the store is an image of a volume in use, or because the
//! records behind the damage may be lost.

use std::path::Path;

use pellucid_io::FileSystem;

use crate::error::Result;
use crate::folder::take_lock;
use crate::journal::{self, TruncatedPart};
use crate::ledger::Manifest;

/// Cuts off the journal of the store in `directory` behind the last record up to which no record is
/// missing. The store must not be open. Returns the parts that were dropped. Files with dropped
/// parts are kept under other names, which the engine never reads. Nothing is dropped from an
/// intact store.
///
/// ```
/// # use pellucid_engine::*;
/// # fn main() -> Result<()> {
/// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
/// # let options = EngineOptions { file_system: files.clone(), ..EngineOptions::default() };
/// # let engine = Engine::open("/store", options)?;
/// # engine.table("t")?;
/// # engine.close()?;
/// assert_eq!(cut_tail("/store", &*files)?, []);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`crate::Error::Locked`] if the store is open; [`crate::Error::Corruption`] if the tables would
/// then hold records that the journal does not; [`crate::salvage`] repairs that; and failures of
/// the file system.
pub fn cut_tail(directory: impl AsRef<Path>, files: &dyn FileSystem) -> Result<Vec<TruncatedPart>> {
    let directory = directory.as_ref();
    let _lock = take_lock(files, directory)?;
    journal::cut_tail(files, directory, &Manifest::read_existing(files, directory)?)
}
