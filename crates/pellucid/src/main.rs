//! The command line of Pellucid.
fn main() {}
