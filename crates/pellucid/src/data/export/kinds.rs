//! Kinds of the values that attributes of documents have.

use std::collections::BTreeMap;

use pellucid_parquet::Kind;

use super::columns::no_document;
use crate::Failure;

/// The names of all attributes, each with every kind of value that it has. A number is a double if
/// it is written as one. Else it is an integer, which as a double is the same number; or a wide
/// one, which may be another; or a huge one, for which 64 bits with a sign are too few.
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

/// See the module.
#[derive(Default)]
pub(super) struct Kinds {
    by_name: BTreeMap<String, Vec<String>>,
}

impl Kinds {
    /// Takes a result of [`KINDS`].
    pub(super) fn note(&mut self, result: &[u8]) -> Result<(), Failure> {
        let (name, kind) = serde_json::from_slice(result).map_err(|_| no_document())?;
        self.by_name.entry(name).or_default().push(kind);
        Ok(())
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }

    /// The kind of an attribute's column, from which each value comes back as it was. No value is
    /// no attribute there, so one that is null is a text of JSON.
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
