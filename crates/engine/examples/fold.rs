//! Folds over heads that an extractor derives from the values, without reading the values.
//!
//! `cargo run -p pellucid-engine --example fold [FOLDER]`

#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use pellucid_engine::{Engine, EngineOptions, MetadataExtractor, Selection, TableOptions};

/// An extractor for values that begin with a line that states their type; the head is that line.
struct ContentType;

impl MetadataExtractor for ContentType {
    fn name(&self) -> &str {
        "content type 1"
    }

    fn derive(&self, _key: &[u8], value: &[u8], head: &mut Vec<u8>) -> Result<(), String> {
        match value.iter().position(|byte| *byte == b'\n') {
            Some(end) => head.extend_from_slice(&value[..end]),
            None => return Err("the first line has to say what the value is".to_owned()),
        }
        Ok(())
    }
}

fn main() -> pellucid_engine::Result<()> {
    let folder = std::env::args().nth(1).map_or_else(
        || std::env::temp_dir().join(format!("pellucid-fold-{}", std::process::id())),
        Into::into,
    );
    let options = EngineOptions {
        metadata_extractors: vec![Arc::new(ContentType)],
        ..EngineOptions::default()
    };
    let engine = Engine::open(&folder, options)?;
    let by_type = TableOptions {
        metadata_extractor: Some("content type 1".to_owned()),
        ..TableOptions::default()
    };
    let files = engine.table_with("files", &by_type)?;
    for number in 0..1_000_u32 {
        let content = if number.is_multiple_of(3) { "image/png" } else { "text/plain" };
        let value = format!("{content}\n{}", "x".repeat(number as usize));
        let key = format!("file {number:04}");
        engine.put(files, key.as_bytes(), value.as_bytes())?;
    }
    let refused = engine.put(files, b"bad", b"no first line");
    if let Err(error) = refused {
        println!("refused: {error}");
    }

    // Count the files and bytes of each type, from the heads alone.
    let first: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let types = engine.snapshot().fold_heads(
        files,
        &Selection::default(),
        first,
        |mut types, _, head| {
            let content = String::from_utf8_lossy(&head.metadata).into_owned();
            let (count, bytes) = types.entry(content).or_default();
            *count += 1;
            *bytes += u64::from(head.value_length);
            ControlFlow::Continue(types)
        },
    )?;
    for (content, (count, bytes)) in types {
        println!("{content}: {count} files, {bytes} bytes");
    }

    // Find the first image from the 500th file on, and stop the fold there.
    let from = Selection { start: Bound::Included(b"file 0500"), ..Selection::default() };
    let image =
        engine.snapshot().fold_heads(files, &from, None, |_, key, head| match &*head.metadata {
            b"image/png" => ControlFlow::Break(Some(key.to_vec())),
            _ => ControlFlow::Continue(None),
        })?;
    println!("an image: {:?}", image.map(|key| String::from_utf8_lossy(&key).into_owned()));
    engine.close()
}
