//! The first program: a store in `./data`, as shown in README.md and docs/embedding.md.

use pellucid_engine::{Acknowledgement, Batch, Engine, EngineOptions};

fn main() -> pellucid_engine::Result<()> {
    let engine = Engine::open("./data", EngineOptions::default())?;
    let fruit = engine.table("fruit")?;
    engine.put(fruit, b"apple", b"red")?;
    let mut batch = Batch::new();
    batch.put(fruit, b"pear", b"", b"green");
    batch.put(fruit, b"plum", b"", b"blue");
    engine.write(&batch, Acknowledgement::Disk)?;
    let object = engine.get(fruit, b"apple")?.expect("it was put");
    assert_eq!(&*object.value, b"red");
    engine.close()
}
