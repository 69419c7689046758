//! Entities read from a server, and their forms for scripts: JSON, CSV and Parquet.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
#[cfg(feature = "parquet")]
use pellucid_parquet::{Cell, Column, Kind, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The name of the field with an entity's expiry time, in milliseconds since 1970.
pub(super) const EXPIRY_NAME: &str = "expires_at_ms";

/// An entity that was read from a server.
pub(super) struct Entity {
    key: Vec<u8>,
    value: Vec<u8>,
    etag: String,
    expires_at_ms: Option<u64>,
}

/// A line of the server's answer; key and value are in base64.
#[derive(Deserialize)]
struct Line<'a> {
    key: &'a str,
    value: &'a str,
    etag: String,
    expires_at_ms: Option<u64>,
}

/// The two byte strings of an entity. The name of the field tells whether it is text or base64.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EntityField {
    Key,
    Value,
}

impl EntityField {
    pub(super) fn name(self, is_base64: bool) -> &'static str {
        match (self, is_base64) {
            (EntityField::Key, false) => "key",
            (EntityField::Key, true) => "key_base64",
            (EntityField::Value, false) => "value",
            (EntityField::Value, true) => "value_base64",
        }
    }
}

impl Entity {
    /// Parses a line of the server's answer.
    pub(super) fn of_line(line: &[u8]) -> Result<Entity, String> {
        let malformed = |error: &dyn std::fmt::Display| {
            format!("the server's line is no entity: {error}; is it Pellucid?")
        };
        let line: Line<'_> = serde_json::from_slice(line).map_err(|error| malformed(&error))?;
        let decode = |base64: &str| STANDARD.decode(base64).map_err(|error| malformed(&error));
        let (key, value) = (decode(line.key)?, decode(line.value)?);
        Ok(Entity { key, value, etag: line.etag, expires_at_ms: line.expires_at_ms })
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The number of bytes of its key and value.
    pub(super) fn bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }

    /// Appends the entity as a line of JSON. Key and value are in base64 if `all_base64`, or if
    /// they are not UTF-8.
    pub(super) fn write_json(self, all_base64: bool, out: &mut Vec<u8>) {
        let mut shown = Map::new();
        let mut show = |bytes: EntityField, content: Vec<u8>| {
            let text = if all_base64 { Err(content) } else { text_of(content) };
            let (is_base64, text) = match text {
                Ok(text) => (false, text),
                Err(bytes) => (true, STANDARD.encode(bytes)),
            };
            shown.insert(bytes.name(is_base64).to_owned(), text.into());
        };
        show(EntityField::Key, self.key);
        show(EntityField::Value, self.value);
        shown.insert("etag".to_owned(), self.etag.into());
        if let Some(expires_at_ms) = self.expires_at_ms {
            shown.insert(EXPIRY_NAME.to_owned(), expires_at_ms.into());
        }
        out.extend_from_slice(Value::Object(shown).to_string().as_bytes());
        out.push(b'\n');
    }

    /// The names of the cells of [`Entity::cells`].
    pub(super) fn columns(all_base64: bool) -> [&'static str; 3] {
        [EntityField::Key.name(all_base64), EntityField::Value.name(all_base64), EXPIRY_NAME]
    }

    /// The cells of its CSV row.
    ///
    /// # Errors
    /// If key or value are not UTF-8, unless `all_base64`.
    pub(super) fn cells(&self, all_base64: bool) -> Result<[Cow<'_, [u8]>; 3], String> {
        let expiry = self.expires_at_ms.map(|expiry| expiry.to_string()).unwrap_or_default();
        Ok([
            self.cell(EntityField::Key, all_base64)?,
            self.cell(EntityField::Value, all_base64)?,
            Cow::Owned(expiry.into_bytes()),
        ])
    }

    /// The columns of a Parquet table. Keys and values are text if `are_text`, else bytes.
    #[cfg(feature = "parquet")]
    pub(super) fn typed_columns(are_text: bool) -> Vec<Column> {
        let kind = if are_text { Kind::Text } else { Kind::Bytes };
        let column = |name: &str, kind, is_required| {
            let name = name.to_owned();
            Column { name, kind, is_required }
        };
        vec![
            column(EntityField::Key.name(false), kind, true),
            column(EntityField::Value.name(false), kind, true),
            column(EXPIRY_NAME, Kind::Moment, false),
        ]
    }

    /// The cells of its row in a Parquet table.
    ///
    /// # Errors
    /// If `are_text` and key or value are not UTF-8, or the expiry time is too late for Parquet.
    #[cfg(feature = "parquet")]
    pub(super) fn typed_cells(&self, are_text: bool) -> Result<[Cell<'_>; 3], String> {
        let cell = |bytes: EntityField, content| match std::str::from_utf8(content) {
            _ if !are_text => Ok(Cell::Bytes(content)),
            Ok(text) => Ok(Cell::Text(text)),
            Err(_) => Err(format!(
                "the {} of `{}` is no UTF-8: leave out --text",
                bytes.name(false),
                self.key.escape_ascii()
            )),
        };
        let expiry = match self.expires_at_ms.map(i64::try_from) {
            None => Cell::Missing,
            Some(Ok(ms)) => Cell::Moment(Timestamp::of_unix_ms(ms)),
            Some(Err(_)) => {
                let key = self.key.escape_ascii();
                return Err(format!("`{EXPIRY_NAME}` of `{key}` is too late for Parquet"));
            }
        };
        Ok([cell(EntityField::Key, &self.key)?, cell(EntityField::Value, &self.value)?, expiry])
    }

    fn cell(&self, bytes: EntityField, is_base64: bool) -> Result<Cow<'_, [u8]>, String> {
        let content = match bytes {
            EntityField::Key => &self.key,
            EntityField::Value => &self.value,
        };
        if is_base64 {
            return Ok(Cow::Owned(STANDARD.encode(content).into_bytes()));
        }
        if std::str::from_utf8(content).is_err() {
            return Err(format!(
                "the {} of `{}` is no UTF-8: write all in base64 with --base64, or lines of JSON, \
                 where that is told entity by entity",
                bytes.name(false),
                self.key.escape_ascii()
            ));
        }
        Ok(Cow::Borrowed(content))
    }
}

/// Converts bytes to text, or returns them as the error if they are not UTF-8.
fn text_of(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity() -> Entity {
        Entity::of_line(br#"{"key":"YQ==","value":"/w==","etag":"\"7\"","expires_at_ms":9}"#)
            .unwrap()
    }

    fn json(all_base64: bool) -> String {
        let mut out = Vec::new();
        entity().write_json(all_base64, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn bytes_that_are_not_utf8_are_written_in_base64() {
        let rest = r#""etag":"\"7\"","expires_at_ms":9,"#;
        let some = r#""key":"a","value_base64":"/w==""#;
        assert_eq!(json(false), format!("{{{rest}{some}}}\n"));
        let all = r#""key_base64":"YQ==","value_base64":"/w==""#;
        assert_eq!(json(true), format!("{{{rest}{all}}}\n"));
    }

    #[test]
    fn cells_are_text_or_all_in_base64() {
        let entity = entity();
        let refused = entity.cells(false).unwrap_err();
        assert!(refused.contains("value of `a`") && refused.contains("--base64"), "{refused}");
        let cells = entity.cells(true).unwrap();
        assert_eq!(cells.each_ref().map(|cell| &**cell), [&b"YQ=="[..], b"/w==", b"9"]);
        assert_eq!(Entity::columns(true), ["key_base64", "value_base64", "expires_at_ms"]);
        assert!(Entity::of_line(b"{}").err().unwrap().contains("is it Pellucid?"));
    }
}
