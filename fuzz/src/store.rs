//! A small example store in memory, one of whose files can be replaced.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use pellucid_clock::{Clock, SimulatedClock};
use pellucid_engine::{Acknowledgement, Batch, Engine, EngineOptions, Operation, Result};
use pellucid_io::FileSystem;
use pellucid_io::simulated::SimulatedFileSystem;

/// The folder of the store.
pub const FOLDER: &str = "/store";
/// The table with the example's keys.
pub const TABLE: &str = "fruit";
/// The smallest allowed size of a segment.
const SEGMENT_SIZE_BYTES: u64 = 4096;

/// A file of the store.
#[derive(Clone, Debug)]
pub struct StoredFile {
    /// The path.
    pub path: PathBuf,
    /// The length of the file, including the zeros at its end.
    pub length: usize,
    /// The bytes, without the zeros at the end of the file.
    pub bytes: Vec<u8>,
}

static CLOCK: LazyLock<&SimulatedClock> = LazyLock::new(|| SimulatedClock::leaked(1_000));

/// The options that stores are opened with.
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

/// Makes the example with the contents of file `index` replaced by `bytes`. The file is padded with
/// zeros to its old length, unless `is_cut`.
///
/// # Errors
/// If a simulated file cannot be written.
pub fn with_file(index: usize, bytes: &[u8], is_cut: bool) -> std::io::Result<SimulatedFileSystem> {
    with_files(|number, stored| match number == index {
        true => (bytes.to_vec(), if is_cut { 0 } else { stored.length }),
        false => (stored.bytes.clone(), stored.length),
    })
}

/// The example with other files: `file` gives the bytes of each, and its least length.
pub fn with_files(
    file: impl Fn(usize, &StoredFile) -> (Vec<u8>, usize),
) -> std::io::Result<SimulatedFileSystem> {
    let files = SimulatedFileSystem::new();
    for folder in ["", "journal", "ledger"] {
        files.create_directory(&Path::new(FOLDER).join(folder))?;
    }
    for (number, stored) in EXAMPLE.iter().enumerate() {
        let (bytes, length) = file(number, stored);
        let file = files.create(&stored.path)?;
        file.write_all_at(&bytes, 0)?;
        file.set_length(length.max(bytes.len()) as u64)?;
    }
    Ok(files)
}
