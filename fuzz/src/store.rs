//! A small store in memory, with one of its files replaced.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use pellucid_clock::{Clock, SimulatedClock};
use pellucid_engine::{Acknowledgement, Batch, Engine, EngineOptions, Operation, Result};
use pellucid_io::FileSystem;
use pellucid_io::simulated::SimulatedFileSystem;

/// The folder of the store.
pub const FOLDER: &str = "/store";
/// The table that the example's keys are in.
pub const TABLE: &str = "fruit";
/// The smallest that a segment can be.
const SEGMENT_SIZE_BYTES: u64 = 4096;

/// A file of the store: its path and its bytes, without the zeros that it ends in.
#[derive(Clone, Debug)]
pub struct StoredFile {
    /// Its path.
    pub path: PathBuf,
    /// Its length, with these zeros.
    pub length: usize,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

static CLOCK: LazyLock<&SimulatedClock> = LazyLock::new(|| SimulatedClock::leaked(1_000));

/// The settings that stores are opened with.
pub fn options(files: &SimulatedFileSystem) -> EngineOptions {
    EngineOptions {
        segment_size_bytes: SEGMENT_SIZE_BYTES,
        memory_bytes: 1 << 20,
        background: false,
        file_system: Arc::new(files.clone()),
        clock: Clock::simulated(*CLOCK),
        identity_seed: Some(1),
        ..EngineOptions::default()
    }
}

/// The files of a store that was killed: one segment sealed and one not, a table, and a manifest.
pub static EXAMPLE: LazyLock<Vec<StoredFile>> = LazyLock::new(|| {
    let files = SimulatedFileSystem::new();
    write_example(&files).expect("the simulated files do not fail");
    let survivor = files.kill();
    let mut found = Vec::new();
    for folder in ["", "journal", "ledger"] {
        let folder = Path::new(FOLDER).join(folder);
        for name in survivor.list(&folder).expect("the folders are there") {
            let path = folder.join(name);
            let Ok(mut bytes) = survivor.read(&path) else { continue };
            let length = bytes.len();
            let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
            bytes.truncate(length - zeros);
            if !bytes.is_empty() {
                found.push(StoredFile { path, length, bytes });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
});

fn write_example(files: &SimulatedFileSystem) -> Result<()> {
    let engine = Engine::open(FOLDER, options(files))?;
    let table = engine.table(TABLE)?;
    for number in 0..44_u8 {
        let key = format!("key{:02}", number % 40);
        let value = [number; 60];
        engine.write(
            &[Operation::put(table, key.as_bytes(), &value).with_head(b"a head that HEAD shows")],
            Acknowledgement::Os,
        )?;
    }
    engine.write(&[Operation::delete(table, b"key03")], Acknowledgement::Disk)?;
    engine.flush()?;
    let mut batch = Batch::new();
    batch.put(table, b"new", b"", b"value");
    batch.delete(table, b"key04");
    engine.write(&batch, Acknowledgement::Disk)?;
    engine.put(table, b"last", b"value")?;
    Ok(())
}

/// The example with the bytes of file `index` replaced by `bytes`, which zeros follow up to the
/// length that the file had, unless it `is_cut`.
pub fn with_file(index: usize, bytes: &[u8], is_cut: bool) -> std::io::Result<SimulatedFileSystem> {
    let files = SimulatedFileSystem::new();
    for folder in ["", "journal", "ledger"] {
        files.create_directory(&Path::new(FOLDER).join(folder))?;
    }
    for (number, stored) in EXAMPLE.iter().enumerate() {
        let is_replaced = number == index;
        let bytes = if is_replaced { bytes } else { &stored.bytes[..] };
        let length = if is_replaced && is_cut { 0 } else { stored.length };
        let file = files.create(&stored.path)?;
        file.write_all_at(bytes, 0)?;
        file.set_length(length.max(bytes.len()) as u64)?;
    }
    Ok(files)
}
