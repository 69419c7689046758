//! The body of `POST /v0/batch`.

// The files of the server without the server: it and its libraries would take long to compile.
#[allow(dead_code, reason = "the server uses the rest")]
#[path = "../../crates/server/src/entities"]
mod entities {
    pub(super) mod batch;
    mod fields;
    mod lines;
}

use entities::batch::parse;

pub(crate) fn fuzz(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n').count();
    match parse(data).map(|entries| entries.len()) {
        Ok(entries) => assert!((1..=lines).contains(&entries), "{entries} of {lines} lines"),
        Err(what) => assert!(!what.is_empty()),
    }
}
