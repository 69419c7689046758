//! Embeds the store in a program: open, write, read, scan, close.
//!
//! `cargo run -p pellucid-engine --example embed [FOLDER]`

#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::ops::Bound;

use pellucid_account::{Stamp, Timeline};
use pellucid_engine::{
    Acknowledgement, Batch, Condition, Direction, Engine, EngineOptions, Operation, ReadMode,
    Result, parts,
};

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).map_or_else(
        || std::env::temp_dir().join(format!("pellucid-embed-{}", std::process::id())),
        Into::into,
    );
    let options = EngineOptions::default();
    let clock = options.clock;
    let engine = Engine::open(&folder, options)?;
    let planets = engine.table("planets")?;

    // Write one key, acknowledged as soon as the operating system has it.
    engine.write(
        &[Operation::put(planets, b"earth", b"1 moon").with_head(b"rocky")],
        Acknowledgement::Os,
    )?;

    // Write several keys atomically, acknowledged as soon as they are on the medium.
    let mut batch = Batch::new();
    batch.put(planets, b"jupiter", b"gas", b"97 moons");
    batch.put(planets, b"mars", b"rocky", b"2 moons");
    batch.push(Operation::put(planets, b"earth", b"1 moon!").with_condition(Condition::Present));
    let written = engine.write(&batch, Acknowledgement::Disk)?;
    engine.wait_durable(written.sequence)?;

    // Read a value, and record the time that each part of the read takes.
    let mut timeline = Timeline::begin(clock, clock.now());
    timeline.stamp(Stamp::Started);
    let read = engine.get_timed(planets, b"jupiter", ReadMode::MayBlock, &mut timeline)?;
    timeline.stamp(Stamp::Executed);
    let value = read.value().map(|object| String::from_utf8_lossy(&object.value).into_owned());
    println!("jupiter: {value:?}");
    for (part, name) in [(parts::LEDGER, "ledger"), (parts::JOURNAL_READ, "journal_read")] {
        println!("  {name}: {} ns", clock.nanoseconds(timeline.part_ticks(part)));
    }

    // A snapshot does not change, whatever is written later.
    let snapshot = engine.snapshot();
    engine.delete(planets, b"mars")?;
    assert!(engine.get(planets, b"mars")?.is_none());
    let before = snapshot.get(planets, b"mars")?.expect("it was there");
    println!("mars had {}", String::from_utf8_lossy(&before.value));
    drop(snapshot);

    // Scan keys and heads in reverse order, without reading a value.
    let mut scan = engine.scan(planets, Bound::Unbounded, Bound::Unbounded, Direction::Backward)?;
    while let Some((key, head)) = scan.next_head()? {
        println!(
            "{}: {}, {} bytes",
            String::from_utf8_lossy(key),
            String::from_utf8_lossy(&head.metadata),
            head.value_length
        );
    }
    drop(scan);
    engine.close()
}
