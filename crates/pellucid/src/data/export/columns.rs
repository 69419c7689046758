//! Columns of a CSV or Parquet table of documents.

use std::borrow::Cow;
use std::collections::HashMap;

use super::super::cells::cell_of;
use super::super::json::{Member, members};
use crate::Failure;

/// Attributes that a server generates anew when the document is imported; they are not exported.
pub(super) const MADE_ANEW: [&str; 2] = ["_id", "_rev"];
/// Attributes that come first if they exist.
const FIRST: [&str; 3] = ["_key", "_from", "_to"];

/// The columns of an exported table: attribute names in their order.
pub(super) struct Columns {
    names: Vec<String>,
    places: HashMap<String, usize>,
    /// True if the user chose the columns: documents may then have other attributes.
    are_some: bool,
}

impl Columns {
    /// Makes a column for each attribute, except for [`MADE_ANEW`].
    pub(super) fn all(mut names: Vec<String>) -> Columns {
        names.retain(|name| !MADE_ANEW.contains(&name.as_str()));
        let rank = |name: &String| FIRST.iter().position(|first| first == name);
        names.sort_by_cached_key(|name| (rank(name).unwrap_or(FIRST.len()), name.clone()));
        if names.is_empty() {
            // The collection is empty, and a table needs at least one column.
            names.push("_key".to_owned());
        }
        Columns::of(names, false)
    }

    /// Makes a column for each of these attributes only.
    pub(super) fn some(names: &[String]) -> Columns {
        Columns::of(names.to_vec(), true)
    }

    fn of(names: Vec<String>, are_some: bool) -> Columns {
        let places = names.iter().cloned().zip(0..).collect();
        Columns { names, places, are_some }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The JSON values of a document, one for each column; `None` where it lacks the attribute.
    ///
    /// # Errors
    /// If `document` is not a JSON object, or has an attribute that is unexpectedly no column.
    pub(super) fn values<'a>(&self, document: &'a [u8]) -> Result<Vec<Option<&'a [u8]>>, Failure> {
        let mut values = vec![None; self.names.len()];
        for Member { name, value } in members(document).ok_or_else(no_document)? {
            let name = serde_json::from_slice::<String>(name).map_err(|_| no_document())?;
            match self.places.get(&name) {
                Some(place) => values[*place] = Some(value),
                None if self.are_some || MADE_ANEW.contains(&name.as_str()) => {}
                None => {
                    return Err(Failure::work(format!(
                        "a document has the attribute `{name}`, which none had when the export \
                         began: begin again, or name the columns with --attributes"
                    )));
                }
            }
        }
        Ok(values)
    }

    /// The cells of a document's row; empty where it lacks the attribute. The errors are those of
    /// [`Columns::values`].
    pub(super) fn cells<'a>(&self, document: &'a [u8]) -> Result<Vec<Cow<'a, [u8]>>, Failure> {
        let values = self.values(document)?;
        let cells = values.into_iter().zip(&self.names).map(|(value, name)| match value {
            Some(value) => cell_of(name, value).ok_or_else(no_document),
            None => Ok(Cow::default()),
        });
        cells.collect()
    }
}

pub(super) fn no_document() -> Failure {
    Failure::work("the server's result is no document; is it Pellucid?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_a_cell() {
        let document = br#"{"_key":"7","_id":"c/7","_rev":"_1","a b":"x","n":[1.0]}"#;
        let of = |columns: &Columns| {
            let cells = columns.cells(document)?;
            Ok::<_, Failure>(cells.iter().map(|cell| cell.escape_ascii().to_string()).collect())
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let columns = Columns::all(names(&["none", "_id", "n", "a b", "_key", "_rev"]));
        assert_eq!(columns.names(), ["_key", "a b", "n", "none"]);
        let all: Vec<String> = of(&columns).unwrap();
        assert_eq!(all, ["7", "x", "[1.0]", ""]);
        let some: Vec<String> = of(&Columns::some(&["_rev".to_owned()])).unwrap();
        assert_eq!(some, ["_1"]);
        let failure = of(&Columns::all(names(&["_key"]))).err().unwrap();
        assert!(failure.text.contains("`a b`"), "{}", failure.text);
        assert_eq!(Columns::all(Vec::new()).names(), ["_key"]);
    }
}
