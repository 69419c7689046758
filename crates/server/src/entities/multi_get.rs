//! `POST /v0/entities/get`: the entities of several keys, read from one snapshot.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_account::Timeline;
use pellucid_clock::Clock;
use pellucid_store::{KEY_LENGTH_MAX, Snapshot, StoreError, Table};
use serde::Deserialize;

use super::lines::object;
use super::ranges::NextEntry;

/// The limit of keys in one request.
pub(crate) const KEYS_MAX: usize = 1_000;

/// One line of the body. Keys are bytes, so they are in base64.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
}

/// The keys that a request asks for.
pub(crate) struct KeyList {
    pub(crate) keys: Vec<Vec<u8>>,
    /// The clock that measures each read, if the client asked for timing.
    pub(crate) clock: Option<Clock>,
}

/// Parses the body of a request into its keys.
///
/// # Errors
/// If there is no key, there are too many, or a line is invalid; the text has the number of the
/// line or the limit.
pub(crate) fn parse(body: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let lines = body.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    let mut keys = Vec::new();
    for (index, line) in lines {
        if keys.len() == KEYS_MAX {
            return Err(format!("more than {KEYS_MAX} keys: ask for the others apart"));
        }
        let key =
            parse_line(line).map_err(|what| format!("line {} of the keys: {what}", index + 1));
        keys.push(key?);
    }
    if keys.is_empty() {
        return Err("no keys: each line of the body is {\"key\": \"base64\"}".to_owned());
    }
    Ok(keys)
}

fn parse_line(line: &[u8]) -> Result<Vec<u8>, String> {
    let line: Line<'_> = object(line)?;
    let key = STANDARD.decode(&*line.key);
    let key = key.map_err(|error| format!("`key` is not base64: {error}"))?;
    match key.len() {
        0 => Err("`key` is empty: a key has at least one byte".to_owned()),
        1..=KEY_LENGTH_MAX => Ok(key),
        length => Err(format!("the key has {length} bytes; it may have up to {KEY_LENGTH_MAX}")),
    }
}

/// Reads the entities of a list of keys from a snapshot, in the order of the list.
pub(crate) struct KeyReads {
    snapshot: Arc<dyn Snapshot>,
    table: Table,
    list: Arc<KeyList>,
    next: usize,
    /// The duration of the last read, if the client asked for timing.
    read_ns: Option<u64>,
}

impl KeyReads {
    pub(crate) fn new(snapshot: Arc<dyn Snapshot>, table: Table, list: Arc<KeyList>) -> KeyReads {
        KeyReads { snapshot, table, list, next: 0, read_ns: None }
    }

    pub(crate) fn next(&mut self) -> Result<NextEntry<'_>, StoreError> {
        let Some(key) = self.list.keys.get(self.next) else { return Ok(NextEntry::Over) };
        let begun = self.list.clock.map(|clock| clock.stopwatch());
        let found = self.snapshot.get(self.table, key, &mut Timeline::off())?;
        self.read_ns = begun.map(|begun| begun.elapsed_ns());
        self.next += 1;
        let key = Cow::Borrowed(key.as_slice());
        Ok(match found {
            Some(object) => NextEntry::Here(key, object),
            None => NextEntry::Absent(key),
        })
    }

    pub(crate) fn read_ns(&self) -> Option<u64> {
        self.read_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order() {
        let keys = parse(b"{\"key\":\"Yg==\"}\n\n{\"key\":\"YQ\\u003d=\"}\n{\"key\":\"Yg==\"}\n");
        assert_eq!(keys.unwrap(), [b"b", b"a", b"b"]);
    }

    #[test]
    fn errors_name_the_line_or_the_limit() {
        let long = format!("{{\"key\":\"{}\"}}", "AAAA".repeat(400));
        let many = "{\"key\":\"YQ==\"}\n".repeat(KEYS_MAX + 1);
        for (body, what) in [
            ("", "no keys"),
            ("\n \n", "no keys"),
            ("nonsense", "line 1"),
            ("[\"YQ==\"]", "an object"),
            ("{\"key\":\"YQ==\"}\n{\"key\":\"!\"}", "line 2"),
            ("{\"key\":\"\"}", "empty"),
            ("{\"key\":\"YQ==\",\"more\":1}", "more"),
            (&long, "1200 bytes"),
            (&many, "1000 keys"),
        ] {
            let error = parse(body.as_bytes()).unwrap_err();
            assert!(error.contains(what), "{what}: {error}");
        }
    }
}
