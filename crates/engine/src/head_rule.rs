//! Head rules: how the head of an object follows from its key and value.
//!
//! A head answers what would otherwise need the value: a type, a size, a version vector, the
//! fields that a list shows. Whoever reads heads must be able to rely on them, so a table that
//! names a rule takes no head from anywhere else.

use std::sync::Arc;

use crate::definition::HEAD_RULE_NAME_LENGTH_MAX;
use crate::error::{Error, Result};

/// Derives the heads of a table. It is registered in [`crate::EngineOptions::head_rules`] and named
/// by [`crate::TableOptions::head_rule`].
///
/// The store keeps the name, not the rule, and never derives a head a second time. So a rule that
/// changes what it derives should change its name, for a new table.
///
/// ```
/// use std::sync::Arc;
///
/// use pellucid_account::Timeline;
/// use pellucid_engine::{Acknowledgement, Engine, EngineOptions, HeadRule, TableOptions};
///
/// struct FirstLine;
///
/// impl HeadRule for FirstLine {
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
/// let options = EngineOptions { head_rules: vec![Arc::new(FirstLine)], ..options };
/// let engine = Engine::open("/var/lib/example", options)?;
/// let by_first_line =
///     TableOptions { head_rule: Some("first line".to_owned()), ..TableOptions::default() };
/// let letters = engine.table_with("letters", &by_first_line)?;
/// let mut timeline = Timeline::off();
/// let value = b"Dear Ada,\nthe engine ...";
/// engine.put(letters, b"1", value)?;
/// let head = engine.head(letters, b"1")?.expect("it was put");
/// assert_eq!(&*head.metadata, b"Dear Ada,");
/// # Ok(())
/// # }
/// ```
pub trait HeadRule: Send + Sync {
    /// The name by which tables know the rule: 1 to [`HEAD_RULE_NAME_LENGTH_MAX`] bytes.
    fn name(&self) -> &str;

    /// Writes the head of an object to `head`, which is empty, and may become
    /// [`crate::HEAD_LENGTH_MAX`] bytes long. It runs on the writing thread, before the write takes
    /// its turn.
    ///
    /// # Errors
    /// Why such an object must not be written; the write is then refused with
    /// [`Error::HeadRefused`].
    fn derive(
        &self,
        key: &[u8],
        value: &[u8],
        head: &mut Vec<u8>,
    ) -> std::result::Result<(), String>;
}

/// The rule called `name`.
pub(crate) fn find_rule(rules: &[Arc<dyn HeadRule>], name: &str) -> Option<Arc<dyn HeadRule>> {
    rules.iter().find(|rule| rule.name() == name).cloned()
}

/// Refuses rules that tables could not tell apart.
pub(crate) fn check_rules(rules: &[Arc<dyn HeadRule>]) -> Result<()> {
    for (index, rule) in rules.iter().enumerate() {
        let name = rule.name();
        let what = if name.is_empty() || name.len() > HEAD_RULE_NAME_LENGTH_MAX {
            format!("the name of a head rule has 1 to {HEAD_RULE_NAME_LENGTH_MAX} bytes")
        } else if rules[..index].iter().any(|other| other.name() == name) {
            format!("two head rules are called `{name}`")
        } else {
            continue;
        };
        return Err(Error::Option { what });
    }
    Ok(())
}
