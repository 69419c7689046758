//! Uses an index: objects are found by a term, page by page, and index entries are committed
//! together with their objects.
//!
//! `cargo run -p pellucid-engine --example index [FOLDER]`

#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use pellucid_engine::{
    Acknowledgement, Condition, Direction, Engine, EngineOptions, IndexChange, Operation, Result,
    Selection,
};

/// Books by year. The year has four digits, so that byte order is the order of years.
const BOOKS: [(&str, &str); 5] = [
    ("Emma", "1815"),
    ("Persuasion", "1817"),
    ("Frankenstein", "1818"),
    ("Ivanhoe", "1819"),
    ("The Last Man", "1826"),
];

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).map_or_else(
        || std::env::temp_dir().join(format!("pellucid-index-{}", std::process::id())),
        Into::into,
    );
    let engine = Engine::open(&folder, EngineOptions::default())?;
    let books = engine.table("books")?;
    let by_year = engine.index(books, "year")?;

    // Write each object with its index entry, atomically.
    for (title, year) in BOOKS {
        let changes = [IndexChange::add(by_year, year.as_bytes())];
        let put = Operation::put(books, title.as_bytes(), b"...").with_index_changes(&changes);
        engine.write(&[put], Acknowledgement::Os)?;
    }

    // Replace the year of a book. The condition prevents two writers that have both read the old
    // year from leaving two entries behind.
    let read = engine.head(books, b"Persuasion")?;
    let moved = [IndexChange::remove(by_year, b"1817"), IndexChange::add(by_year, b"1818")];
    let put = Operation::put(books, b"Persuasion", b"...")
        .with_index_changes(&moved)
        .with_condition(read.map_or(Condition::Absent, |head| Condition::Sequence(head.sequence)));
    engine.write(&[put], Acknowledgement::Os)?;

    println!("of 1818:");
    let mut scan = engine.scan_index(by_year, &Selection::one(b"1818"))?;
    while let Some((entry, object)) = scan.next_object()? {
        let length = object.map_or(0, |object| object.value.len());
        println!("  {}, {length} bytes", String::from_utf8_lossy(entry.key));
    }

    // Read the newest first, two at a time. All pages come from one snapshot.
    let snapshot = engine.snapshot();
    let page = Selection { direction: Direction::Backward, limit: 2, ..Selection::default() };
    let mut last: Option<(Vec<u8>, Vec<u8>)> = None;
    for number in 1.. {
        let mut scan = match &last {
            None => snapshot.scan_index(by_year, &page)?,
            Some((term, key)) => snapshot.scan_index_after(by_year, &page, term, key)?,
        };
        last = None;
        while let Some(entry) = scan.next()? {
            let (year, title) =
                (String::from_utf8_lossy(entry.term), String::from_utf8_lossy(entry.key));
            println!("page {number}: {year} {title}");
            last = Some((entry.term.to_vec(), entry.key.to_vec()));
        }
        if last.is_none() {
            break;
        }
    }
    drop(snapshot);
    engine.close()
}
