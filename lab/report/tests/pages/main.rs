//! Reports and flame graphs: as files, and in a browser.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod browser;
mod charts;
mod flame;
mod layout;
mod long_report;
mod page;
mod sample;
