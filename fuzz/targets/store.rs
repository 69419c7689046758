//! A whole store, one of whose files is the input. It is verified, opened, scanned in both
//! directions, and read by key. The first byte chooses the file, whether its checksums are
//! corrected first, whether it is cut short, and whether the ledger is rebuilt.

use std::ops::Bound;

use pellucid_engine::{Direction, Engine, Result, rebuild_ledger, verify};
use pellucid_fuzz::checksums::fix_file;
use pellucid_fuzz::store::{EXAMPLE, FOLDER, TABLE, options, with_file};

/// A bound on the keys of one scan, above the number of keys in a file of the longest input. A scan
/// that exceeds it is a failure.
const KEYS_MAX: usize = 10_000;

fn use_store(engine: &Engine) -> Result<()> {
    let table = engine.table(TABLE)?;
    for direction in [Direction::Forward, Direction::Backward] {
        let mut scan = engine.scan(table, Bound::Unbounded, Bound::Unbounded, direction)?;
        let mut keys = 0;
        while let Some((key, _)) = scan.next_head()? {
            assert!(!key.is_empty() && keys < KEYS_MAX);
            keys += 1;
            let key = key.to_vec();
            let _ = engine.get(table, &key);
        }
    }
    for key in ["key00", "key03", "key39", "new", "last", "absent"] {
        let _ = engine.get(table, key.as_bytes());
        let _ = engine.head(table, key.as_bytes());
    }
    engine.put(table, b"key01", b"after")?;
    let found = engine.get(table, b"key01")?;
    assert_eq!(found.map(|object| object.value.to_vec()), Some(b"after".to_vec()));
    engine.flush()?;
    engine.compact()
}

pub(crate) fn fuzz(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let index = usize::from(choice & 15) % EXAMPLE.len();
    let [fixes, is_cut, rebuilds] = [4, 5, 6].map(|bit| choice >> bit & 1 == 1);
    let mut bytes = bytes.to_vec();
    if fixes {
        let _ = fix_file(&EXAMPLE[index].bytes, &mut bytes);
    }
    let files = with_file(index, &bytes, is_cut).expect("the simulated files do not fail");
    let _ = verify(FOLDER, &files);
    if rebuilds {
        let _ = rebuild_ledger(FOLDER, options(&files));
    }
    if let Ok(engine) = Engine::open(FOLDER, options(&files)) {
        let _ = use_store(&engine);
        let _ = engine.close();
    }
}
