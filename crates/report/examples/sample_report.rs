//! Writes a report of invented figures to the path that it is given, to look at.

use std::error::Error;

#[path = "../tests/sample/mod.rs"]
mod sample;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: sample_report FILE.html")?;
    let report = sample::report(&["PUT", "GET"], 160_000);
    std::fs::write(path, pellucid_report::html(&report))?;
    Ok(())
}
