//! Writes a report of invented figures: the page to the first path and, if there is a second path,
//! the text to that one.

use std::error::Error;

#[path = "../tests/pages/sample/mod.rs"]
mod sample;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: sample_report FILE.html [FILE.txt]")?;
    let report = sample::report(&["PUT", "GET"], 160_000);
    std::fs::write(path, pellucid_report::html(&report))?;
    if let Some(path) = std::env::args().nth(2) {
        let accounts = report.sections.iter().filter_map(|section| section.account.as_ref());
        let texts: Vec<String> = accounts.map(pellucid_report::text::account).collect();
        std::fs::write(path, texts.join("\n"))?;
    }
    Ok(())
}
