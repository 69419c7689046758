//! The body of `POST /v0/batch`.

use pellucid_server::fuzzing::parse_batch;

pub(crate) fn fuzz(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n').count();
    match parse_batch(data) {
        Ok(entries) => assert!((1..=lines).contains(&entries), "{entries} of {lines} lines"),
        Err(what) => assert!(!what.is_empty()),
    }
}
