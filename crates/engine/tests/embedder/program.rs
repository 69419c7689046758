//! Fills a store from two threads and counts its keys: `embedder FOLDER KEYS`.

use std::ops::Bound;

use pellucid_engine::{Direction, Engine, EngineOptions, Result, TableId};

const THREADS: u64 = 2;
const VALUE: [u8; 32] = [7; 32];

fn fill(engine: &Engine, table: TableId, keys: impl Iterator<Item = u64>) -> Result<()> {
    for key in keys {
        let key = format!("key-{key:012}");
        engine.put(table, key.as_bytes(), &VALUE)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let keys: u64 = arguments[2].parse().expect("a number of keys");
    let engine = Engine::open(&arguments[1], EngineOptions::default())?;
    let table = engine.table("t")?;
    std::thread::scope(|scope| {
        let fill = |first| fill(&engine, table, (first..keys).step_by(THREADS as usize));
        let threads: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || fill(first))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let mut scan = engine.scan(table, Bound::Unbounded, Bound::Unbounded, Direction::Forward)?;
    let mut found = 0;
    while scan.next_head()?.is_some() {
        found += 1;
    }
    drop(scan);
    engine.close()?;
    assert_eq!(found, keys);
    println!("{found} keys");
    Ok(())
}
