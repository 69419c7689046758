//! Tests of the engine on the real file system, with its background threads, small segments and
//! little memory.

use pellucid_engine::{Acknowledgement, Engine, EngineOptions, Error, Operation, verify};
use pellucid_io::SystemFileSystem;

fn options() -> EngineOptions {
    EngineOptions { segment_size_bytes: 1 << 20, memory_bytes: 1 << 20, ..EngineOptions::default() }
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn check(engine: &Engine, numbers: std::ops::Range<u32>) {
    let table = engine.table("t").unwrap();
    for number in numbers {
        let object = engine.get(table, &key(number)).unwrap();
        let value = object.expect("it was put").value;
        assert_eq!(value.len(), 300 + number as usize % 7);
        assert!(value.iter().all(|byte| *byte == number as u8));
    }
}

#[test]
fn all_puts_are_there_after_a_close_and_after_a_drop() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4_u32 {
        let engine = Engine::open(folder.path(), options()).unwrap();
        check(&engine, 0..round * 5_000);
        let table = engine.table("t").unwrap();
        for number in round * 5_000..(round + 1) * 5_000 {
            let value = vec![number as u8; 300 + number as usize % 7];
            let acknowledgement = Acknowledgement::Os;
            engine.write(&[Operation::put(table, &key(number), &value)], acknowledgement).unwrap();
        }
        assert!(matches!(Engine::open(folder.path(), options()), Err(Error::Locked { .. })));
        // In the other rounds, the engine is dropped without a close.
        if round % 2 == 0 {
            engine.close().unwrap();
        }
    }
    let report = verify(folder.path(), &SystemFileSystem).unwrap();
    assert_eq!(report.problems, []);
    let engine = Engine::open(folder.path(), options()).unwrap();
    check(&engine, 0..20_000);
}
