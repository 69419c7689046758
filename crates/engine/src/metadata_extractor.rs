//! Metadata extractors: rules that derive the head of an object from its key and value.
//!
//! A head answers questions that would otherwise need the value: a type, a size, a version vector,
//! the fields that a list shows. Readers must be able to rely on heads, so a table with an
//! extractor accepts no other heads.

use std::sync::Arc;

use crate::definition::EXTRACTOR_NAME_LENGTH_MAX;
use crate::error::{Error, Result};

/// A rule that derives the heads of a table. It is registered in
/// [`crate::EngineOptions::metadata_extractors`] and named by
/// [`crate::TableOptions::metadata_extractor`].
///
/// The store keeps only the name of the extractor, and never derives a head again. So an extractor
/// that changes its results should get a new name, for a new table.
///
/// ```
/// use std::sync::Arc;
///
/// use pellucid_engine::{Acknowledgement, Engine, EngineOptions, MetadataExtractor, TableOptions};
///
/// struct FirstLine;
///
/// impl MetadataExtractor for FirstLine {
///     fn name(&self) -> &str {
///         "first line"
///     }
///
///     fn derive(&self, _key: &[u8], value: &[u8], head: &mut Vec<u8>) -> Result<(), String> {
///         let line = value.split(|byte| *byte == b'\n').next().unwrap_or_default();
///         head.extend_from_slice(line);
///         Ok(())
///     }
/// }
///
/// # fn main() -> pellucid_engine::Result<()> {
/// # let files = Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
/// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
/// let options = EngineOptions { metadata_extractors: vec![Arc::new(FirstLine)], ..options };
/// let engine = Engine::open("/var/lib/example", options)?;
/// let metadata_extractor = Some("first line".to_owned());
/// let by_first_line = TableOptions { metadata_extractor, ..TableOptions::default() };
/// let letters = engine.table_with("letters", &by_first_line)?;
/// let value = b"Dear Ada,\nthe engine ...";
/// engine.put(letters, b"1", value)?;
/// let head = engine.head(letters, b"1")?.expect("it was put");
/// assert_eq!(&*head.metadata, b"Dear Ada,");
/// # Ok(())
/// # }
/// ```
pub trait MetadataExtractor: Send + Sync {
    /// The name by which tables refer to the extractor: 1 to [`EXTRACTOR_NAME_LENGTH_MAX`] bytes.
    fn name(&self) -> &str;

    /// Writes the head of an object to `head`, which is empty, and may become
    /// [`crate::HEAD_LENGTH_MAX`] bytes long. It runs on the writing thread, before the writer lock
    /// is taken.
    ///
    /// # Errors
    /// The reason why the object must not be written; the write is then refused with
    /// [`Error::HeadRefused`].
    fn derive(
        &self,
        key: &[u8],
        value: &[u8],
        head: &mut Vec<u8>,
    ) -> std::result::Result<(), String>;
}

/// The extractor called `name`.
pub(crate) fn find_extractor(
    rules: &[Arc<dyn MetadataExtractor>],
    name: &str,
) -> Option<Arc<dyn MetadataExtractor>> {
    rules.iter().find(|rule| rule.name() == name).cloned()
}

/// Returns an error if a name is invalid or used twice.
pub(crate) fn check_extractors(rules: &[Arc<dyn MetadataExtractor>]) -> Result<()> {
    for (index, rule) in rules.iter().enumerate() {
        let name = rule.name();
        let what = if name.is_empty() || name.len() > EXTRACTOR_NAME_LENGTH_MAX {
            format!("the name of a metadata extractor has 1 to {EXTRACTOR_NAME_LENGTH_MAX} bytes")
        } else if rules[..index].iter().any(|other| other.name() == name) {
            format!("two metadata extractors are called `{name}`")
        } else {
            continue;
        };
        return Err(Error::Option { what });
    }
    Ok(())
}
