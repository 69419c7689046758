//! Parses the entities of an import from lines of JSON and rows of cells.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_clock::WallTime;
use pellucid_store::KEY_LENGTH_MAX;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Number;

use super::super::csv::Cells;
use super::super::entity::{EXPIRY_NAME, EntityField};
use super::excerpt::excerpt;

/// The longest lifetime that a server accepts, in milliseconds: some three thousand years.
const LIFETIME_MS_MAX: u64 = 100_000_000_000_000;

/// An entity that is to be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewEntity {
    key: Vec<u8>,
    value: Vec<u8>,
    lifetime: Lifetime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lifetime {
    Endless,
    ForMs(u64),
    UntilMs(u64),
}

/// A line as `pellucid scan` and `pellucid export` write it; it may have a time to live instead of
/// an expiry time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: Option<String>,
    key_base64: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
    ttl: Option<Number>,
    expires_at_ms: Option<u64>,
    /// The ETag on the server that the entity was exported from; it is ignored.
    #[serde(rename = "etag")]
    _etag: Option<IgnoredAny>,
}

impl NewEntity {
    /// Parses a line of JSON.
    pub(super) fn of_line(line: &[u8]) -> Result<NewEntity, String> {
        if !line.starts_with(b"{") {
            return Err("it is no JSON object".to_owned());
        }
        let line: Line = serde_json::from_slice(line)
            .map_err(|error| error.to_string().replacen(" at line 1 column", " at column", 1))?;
        let key = content(EntityField::Key, line.key, line.key_base64)?;
        let value = content(EntityField::Value, line.value, line.value_base64)?;
        let ttl = line.ttl.map(|ttl| ttl.to_string());
        NewEntity::of(key, value, ttl.as_deref(), line.expires_at_ms)
    }

    fn of(
        key: Vec<u8>,
        value: Vec<u8>,
        ttl: Option<&str>,
        expires_at_ms: Option<u64>,
    ) -> Result<NewEntity, String> {
        if key.is_empty() {
            return Err("the key is empty".to_owned());
        }
        if key.len() > KEY_LENGTH_MAX {
            let length = key.len();
            return Err(format!("the key has {length} bytes; it may have up to {KEY_LENGTH_MAX}"));
        }
        let lifetime = match (ttl, expires_at_ms) {
            (None, None) => Lifetime::Endless,
            (Some(seconds), None) => Lifetime::ForMs(milliseconds(seconds)?),
            (None, Some(at_ms)) => Lifetime::UntilMs(at_ms),
            (Some(_), Some(_)) => return Err(format!("it has both `ttl` and `{EXPIRY_NAME}`")),
        };
        Ok(NewEntity { key, value, lifetime })
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.value
    }

    /// Returns true if the entity has expired.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.lifetime, Lifetime::UntilMs(at_ms) if at_ms <= WallTime::now().unix_ms())
    }

    /// The remaining lifetime in seconds, as the server expects it; `None` if it does not expire.
    pub(super) fn seconds(&self) -> Option<String> {
        let ms = match self.lifetime {
            Lifetime::Endless => return None,
            Lifetime::ForMs(ms) => ms,
            Lifetime::UntilMs(at_ms) => at_ms.saturating_sub(WallTime::now().unix_ms()).max(1),
        };
        let ms = ms.min(LIFETIME_MS_MAX);
        Some(format!("{}.{:03}", ms / 1_000, ms % 1_000))
    }

    /// Appends the entity as a line of a batch request.
    pub(super) fn write_put(&self, out: &mut String) {
        *out += r#"{"op":"put","key":""#;
        STANDARD.encode_string(&self.key, out);
        *out += r#"","value":""#;
        STANDARD.encode_string(&self.value, out);
        out.push('"');
        if let Some(seconds) = self.seconds() {
            *out += r#","ttl":"#;
            *out += &seconds;
        }
        *out += "}\n";
    }
}

/// A column of a table of entities.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Text(EntityField),
    Base64(EntityField),
    Ttl,
    Expiry,
    Etag,
}

/// The columns of a table of entities.
pub(super) struct Columns(Vec<Column>);

impl Columns {
    /// Maps column names to columns.
    ///
    /// # Errors
    /// If a name is unknown, or key or value have no column or two.
    pub(super) fn of(names: &[String]) -> Result<Columns, String> {
        let column = |name: &String| match name.as_str() {
            "key" => Ok(Column::Text(EntityField::Key)),
            "key_base64" => Ok(Column::Base64(EntityField::Key)),
            "value" => Ok(Column::Text(EntityField::Value)),
            "value_base64" => Ok(Column::Base64(EntityField::Value)),
            "ttl" => Ok(Column::Ttl),
            EXPIRY_NAME => Ok(Column::Expiry),
            "etag" => Ok(Column::Etag),
            other => Err(format!(
                "entities have no column `{}`: they are key or key_base64, value or value_base64, \
                 ttl, {EXPIRY_NAME}; documents are imported with --collection",
                excerpt(other)
            )),
        };
        let columns = names.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        for bytes in [EntityField::Key, EntityField::Value] {
            let either = [Column::Text(bytes), Column::Base64(bytes)];
            let (text, base64) = (bytes.name(false), bytes.name(true));
            match columns.iter().filter(|column| either.contains(column)).count() {
                1 => {}
                0 => return Err(format!("there is no column `{text}` and no `{base64}`")),
                _ => return Err(format!("there are both `{text}` and `{base64}`")),
            }
        }
        Ok(Columns(columns))
    }

    /// Parses the entity of a row.
    pub(super) fn entity(&self, cells: &Cells) -> Result<NewEntity, String> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let (mut ttl, mut expires_at_ms) = (None, None);
        let text = |cell| std::str::from_utf8(cell).map_err(|_| "a cell is no UTF-8".to_owned());
        for (column, cell) in self.0.iter().zip(cells.iter()) {
            match column {
                Column::Text(EntityField::Key) => key = cell.to_vec(),
                Column::Text(EntityField::Value) => value = cell.to_vec(),
                Column::Base64(EntityField::Key) => key = decoded(EntityField::Key, cell)?,
                Column::Base64(EntityField::Value) => value = decoded(EntityField::Value, cell)?,
                Column::Ttl if !cell.is_empty() => ttl = Some(text(cell)?),
                Column::Expiry if !cell.is_empty() => {
                    let expiry = text(cell)?.parse::<u64>();
                    let wrong = |_| format!("`{EXPIRY_NAME}` is a number of milliseconds");
                    expires_at_ms = Some(expiry.map_err(wrong)?);
                }
                Column::Ttl | Column::Expiry | Column::Etag => {}
            }
        }
        NewEntity::of(key, value, ttl, expires_at_ms)
    }
}

fn content(
    bytes: EntityField,
    text: Option<String>,
    base64: Option<String>,
) -> Result<Vec<u8>, String> {
    match (text, base64) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(base64)) => decoded(bytes, base64.as_bytes()),
        (None, None) => Err(format!("`{}` is missing", bytes.name(false))),
        (Some(_), Some(_)) => {
            Err(format!("it has both `{}` and `{}`", bytes.name(false), bytes.name(true)))
        }
    }
}

fn decoded(bytes: EntityField, base64: &[u8]) -> Result<Vec<u8>, String> {
    let name = bytes.name(true);
    STANDARD.decode(base64).map_err(|error| format!("`{name}` is not base64: {error}"))
}

/// Converts a decimal number of seconds to milliseconds, rounded up.
fn milliseconds(seconds: &str) -> Result<u64, String> {
    let is_plain = seconds.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: Option<f64> = seconds.parse().ok().filter(|_| is_plain);
    match number.map(|number| (number * 1_000.0).ceil() as u64) {
        Some(ms) if ms <= LIFETIME_MS_MAX => Ok(ms),
        _ => {
            let most = LIFETIME_MS_MAX / 1_000;
            Err(format!("`ttl` is a number of seconds up to {most}, as 90 or 0.5"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::csv::RowReader;
    use super::*;

    fn put(entity: &NewEntity) -> String {
        let mut out = String::new();
        entity.write_put(&mut out);
        out
    }

    #[test]
    fn lines_are_parsed_to_entities() {
        for (line, expected) in [
            (r#"{"key":"a","value":""}"#, r#"{"op":"put","key":"YQ==","value":""}"#),
            (
                r#"{"etag":"\"1\"","key_base64":"/w==","value":"x","ttl":0.5}"#,
                r#"{"op":"put","key":"/w==","value":"eA==","ttl":0.500}"#,
            ),
        ] {
            let entity = NewEntity::of_line(line.as_bytes()).unwrap();
            assert_eq!(put(&entity), format!("{expected}\n"));
        }
        let over = NewEntity::of_line(br#"{"key":"a","value":"b","expires_at_ms":1}"#).unwrap();
        assert!(over.is_over());
        let later = format!(r#"{{"key":"a","value":"b","expires_at_ms":{}}}"#, u64::MAX);
        let later = NewEntity::of_line(later.as_bytes()).unwrap();
        assert!(!later.is_over());
        assert_eq!(later.seconds().unwrap(), "100000000000.000");
    }

    #[test]
    fn errors_of_lines_name_the_cause() {
        let long = format!(r#"{{"key":"{}","value":""}}"#, "k".repeat(KEY_LENGTH_MAX + 1));
        for (line, what) in [
            ("x", "no JSON object"),
            (r#"["a",null,"b",null,null,null,null]"#, "no JSON object"),
            (r#"{"key":"a""#, "at column 10"),
            (r#"{"key":"a"}"#, "`value` is missing"),
            (r#"{"value":"a"}"#, "`key` is missing"),
            (r#"{"key":"","value":""}"#, "empty"),
            (r#"{"key":"a","key_base64":"YQ==","value":""}"#, "both"),
            (r#"{"key":"a","value_base64":"?"}"#, "`value_base64` is not base64"),
            (r#"{"key":"a","value":"","ttl":-1}"#, "`ttl`"),
            (r#"{"key":"a","value":"","ttl":1e99}"#, "`ttl`"),
            (r#"{"key":"a","value":"","ttl":1,"expires_at_ms":2}"#, "both"),
            (r#"{"key":"a","value":"","tll":1}"#, "unknown field `tll`"),
            (long.as_str(), "1025 bytes"),
        ] {
            let error = NewEntity::of_line(line.as_bytes()).unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
    }

    fn row(names: &str, row: &str) -> Result<NewEntity, String> {
        let names: Vec<_> = names.split(',').map(str::to_owned).collect();
        let mut reader = RowReader::new();
        assert_eq!(reader.take(row.as_bytes()), Ok((row.len(), true)));
        Columns::of(&names)?.entity(reader.cells())
    }

    #[test]
    fn rows_are_parsed_to_entities() {
        let entity = row("value,etag,key_base64,ttl", "\"x\ny\",\"\"\"7\"\"\",/w==,2\n").unwrap();
        let expected = br#"{"key_base64":"/w==","value":"x\ny","ttl":2}"#;
        assert_eq!(entity, NewEntity::of_line(expected).unwrap());
        let entity = row("key,value,expires_at_ms,ttl", "k,,,\n").unwrap();
        assert_eq!(entity, NewEntity::of_line(br#"{"key":"k","value":""}"#).unwrap());
        for (names, cells, what) in [
            ("key,name", "a,b\n", "no column `name`"),
            ("key", "a\n", "no column `value`"),
            ("key,key_base64,value", "a,b,c\n", "both `key` and"),
            ("key,value,ttl", "a,b,soon\n", "`ttl`"),
            ("key,value,expires_at_ms", "a,b,-1\n", "`expires_at_ms`"),
            ("key_base64,value", "a,b\n", "`key_base64` is not base64"),
            ("key,value", ",b\n", "empty"),
        ] {
            let error = row(names, cells).unwrap_err();
            assert!(error.contains(what), "{names}: {error}");
        }
        let error = row(&format!("key,{}", "n".repeat(100_000)), "a,b\n").unwrap_err();
        assert!(error.len() < 1_000, "a long name is cut");
    }
}
