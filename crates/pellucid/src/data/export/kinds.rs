//! Chooses the type of a Parquet column from the kinds of values that an attribute has.

use std::collections::BTreeMap;

use pellucid_parquet::Kind;

use super::columns::no_document;
use crate::Failure;

/// The query for the names of all attributes, each with every kind of value that it has. A number
/// is a `double` if it is written with a point or an exponent. Otherwise it is an `integer` if a
/// double holds it exactly, `wide` if a signed 64-bit integer does but a double may not, and `huge`
/// if neither does.
pub(super) const KINDS: &str = r#"
    FOR document IN @@collection
        FOR name IN ATTRIBUTES(document)
            LET value = document[name]
            LET text = IS_NUMBER(value) ? JSON_STRINGIFY(value) : ""
            LET whole = LENGTH(text) <= 15 ? "integer"
                : LENGTH(text) <= 20 AND value <= 9223372036854775807 ? "wide" : "huge"
            LET number = CONTAINS(text, ".") OR CONTAINS(text, "e") ? "double" : whole
            RETURN DISTINCT [name, IS_NUMBER(value) ? number : TYPENAME(value)]
"#;

/// The kinds of values that each attribute has.
#[derive(Default)]
pub(super) struct Kinds {
    by_name: BTreeMap<String, Vec<String>>,
}

impl Kinds {
    /// Adds a result of the query [`KINDS`].
    pub(super) fn note(&mut self, result: &[u8]) -> Result<(), Failure> {
        let (name, kind) = serde_json::from_slice(result).map_err(|_| no_document())?;
        self.by_name.entry(name).or_default().push(kind);
        Ok(())
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }

    /// The type of an attribute's column: the narrowest that keeps every value exactly. An empty
    /// cell means that the attribute is missing, so an attribute that may be null is JSON text.
    pub(super) fn of(&self, name: &str) -> Kind {
        let Some(kinds) = self.by_name.get(name) else { return Kind::Text };
        let are_all = |of: &[&str]| kinds.iter().all(|kind| of.contains(&kind.as_str()));
        if are_all(&["string"]) {
            Kind::Text
        } else if are_all(&["bool"]) {
            Kind::Boolean
        } else if are_all(&["integer", "wide"]) {
            Kind::Integer
        } else if are_all(&["integer", "double"]) {
            Kind::Double
        } else {
            Kind::Json
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_the_narrowest_kind_of_all_values() {
        for (kinds, kind) in [
            (&["string"][..], Kind::Text),
            (&["bool"], Kind::Boolean),
            (&["integer"], Kind::Integer),
            (&["wide", "integer"], Kind::Integer),
            (&["double"], Kind::Double),
            (&["integer", "double"], Kind::Double),
            (&["wide", "double"], Kind::Json),
            (&["huge"], Kind::Json),
            (&["string", "null"], Kind::Json),
            (&["bool", "integer"], Kind::Json),
            (&["array"], Kind::Json),
        ] {
            let mut seen = Kinds::default();
            for kind in kinds {
                seen.note(format!(r#"["a",{kind:?}]"#).as_bytes()).unwrap();
            }
            assert_eq!((seen.of("a"), seen.of("b")), (kind, Kind::Text), "{kinds:?}");
        }
        assert!(Kinds::default().note(b"[1]").is_err());
    }
}
