//! Files and randomness behind small traits, so that a simulation can replace them.
//!
//! A store that promises to survive power loss must be tested under power loss. That is possible
//! only if all its effects on the machine go through an interface that a test can replace: the
//! [`FileSystem`] with its [`File`]s and [`Map`]s, and [`Random`]. [`SystemFileSystem`] is the
//! machine itself. [`simulated::SimulatedFileSystem`] keeps its files in memory, knows which bytes
//! would have reached the medium, and fails on demand.
//!
//! ```
//! use pellucid_io::{File, FileSystem, simulated::SimulatedFileSystem};
//! use std::path::Path;
//!
//! # fn main() -> std::io::Result<()> {
//! let files = SimulatedFileSystem::new();
//! files.create_directory(Path::new("/store"))?;
//! let file = files.create(Path::new("/store/a"))?;
//! file.write_all_at(b"synced", 0)?;
//! file.sync()?;
//! files.sync_directory(Path::new("/"))?;
//! files.sync_directory(Path::new("/store"))?;
//! file.write_all_at(b"cached", 0)?;
//! // A loss of power keeps what was synced, and perhaps what was only in the page cache.
//! let found = files.crash(7).read(Path::new("/store/a"))?;
//! assert!(found == b"synced" || found == b"cached");
//! # Ok(())
//! # }
//! ```

mod bytes;
mod copying_file_system;
mod cure;
mod file;
mod memory;
mod page;
mod random;
mod reserve;
mod short_bytes;
pub mod simulated;
mod system;
mod unreadable_pages;

pub use bytes::FileBytes;
pub use copying_file_system::CopyingFileSystem;
pub use cure::folder_cure;
pub use file::{File, FileSystem, LockGuard, Map, MapMode};
pub use memory::ZeroedMemory;
pub use random::{Random, SeededRandom, SystemRandom};
pub use reserve::is_out_of_descriptors;
pub use short_bytes::ShortBytes;
pub use system::SystemFileSystem;
pub use unreadable_pages::any_unreadable;
