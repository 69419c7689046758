//! Cutting the journal's tail off on request, where an opening refuses to.
//!
//! An opening cuts a tail off that was torn by a loss of power. If something shows that the missing
//! record had been safe, it refuses: there is damage. An operator who knows better, because the
//! store is an image of a volume that was in use, or because what follows the damage may go, says
//! so here.

use std::path::Path;

use pellucid_io::FileSystem;

use crate::error::Result;
use crate::folder::take_lock;
use crate::journal::{self, CutPart};
use crate::ledger::Manifest;

/// Cuts the journal of the store in `directory`, which must not be open, off behind the last record
/// up to which all are there, and says what is dropped by that. Files that held something of it
/// are kept under other names, which nobody reads. Of an intact store nothing is dropped.
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
/// [`crate::Error::Locked`] if the store is open; [`crate::Error::Corruption`] if the tables hold
/// more than the journal would then, which [`crate::salvage`] cures; and failures of the file
/// system.
pub fn cut_tail(directory: impl AsRef<Path>, files: &dyn FileSystem) -> Result<Vec<CutPart>> {
    let directory = directory.as_ref();
    let _lock = take_lock(files, directory)?;
    journal::cut_tail(files, directory, &Manifest::read_existing(files, directory)?)
}
