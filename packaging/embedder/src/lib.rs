//! Counts of words, in a store of their own.

use std::ops::Bound;
use std::path::Path;

use pellucid_engine::{Acknowledgement, Batch, Direction, Engine, EngineOptions, Result};

/// Counts words.
pub struct Words {
    engine: Engine,
    table: pellucid_engine::TableId,
}

impl Words {
    /// Opens the words in a folder.
    pub fn open(folder: &Path) -> Result<Words> {
        let engine = Engine::open(folder, EngineOptions::default())?;
        let table = engine.table("words")?;
        Ok(Words { engine, table })
    }

    /// Counts the words of a text, atomically.
    pub fn count(&self, text: &str) -> Result<()> {
        let mut counts = std::collections::BTreeMap::new();
        for word in text.split_whitespace() {
            *counts.entry(word).or_insert(0) += 1;
        }
        let sums = counts.into_iter().map(|(word, more)| {
            let sum = self.seen(word)? + more;
            Ok((word, sum.to_string()))
        });
        // A batch borrows keys and values until it is written.
        let sums = sums.collect::<Result<Vec<_>>>()?;
        let mut batch = Batch::new();
        for (word, sum) in &sums {
            batch.put(self.table, word.as_bytes(), b"", sum.as_bytes());
        }
        self.engine.write(&batch, Acknowledgement::Disk)?;
        Ok(())
    }

    /// The number of times that a word was counted.
    pub fn seen(&self, word: &str) -> Result<u64> {
        let object = self.engine.get(self.table, word.as_bytes())?;
        let text = object.map(|object| String::from_utf8_lossy(&object.value).into_owned());
        Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// All words, in order.
    pub fn all(&self) -> Result<Vec<String>> {
        let (all, forward) = (Bound::Unbounded, Direction::Forward);
        let mut scan = self.engine.scan(self.table, all, all, forward)?;
        let mut words = Vec::new();
        while let Some((key, _)) = scan.next_head()? {
            words.push(String::from_utf8_lossy(key).into_owned());
        }
        Ok(words)
    }

    /// Closes the store.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("embedder-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn words_are_there_after_a_restart() {
        let folder = folder("restart");
        let words = Words::open(&folder).unwrap();
        words.count("to be or not to be").unwrap();
        words.close().unwrap();
        let words = Words::open(&folder).unwrap();
        words.count("be").unwrap();
        assert_eq!((words.seen("be").unwrap(), words.seen("is").unwrap()), (3, 0));
        assert_eq!(words.all().unwrap(), ["be", "not", "or", "to"]);
        words.close().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_store_that_is_open_is_refused_with_its_cure() {
        let folder = folder("open");
        let words = Words::open(&folder).unwrap();
        let error = Words::open(&folder).err().unwrap().to_string();
        assert!(error.contains("another folder"), "{error}");
        words.close().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_client_comes_along() {
        assert!(pellucid_client::http::Target::parse("http://localhost:8080").is_ok());
    }
}
