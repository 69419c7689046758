//! The definition of a table: the options that it was made with, and their encoding.
//!
//! A definition is written once, when its table is created, as the head of the table's entry in the
//! catalogue (`docs/format.md`, Definition). So it is in the journal like every other record, and
//! recovery, backup, rebuilding and salvage need no code for it.

use crate::codec::{read_u16, read_u32};
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::rules::{HELD_VALUE_LENGTH_MAX, TableRule, TableRules};
use crate::table_id::{CATALOGUE_TABLE, TableId};

/// The version of the definitions that this build writes, and the only one that it reads.
const DEFINITION_VERSION: u16 = 2;
/// The length of a definition up to the name of the metadata extractor, in bytes.
const DEFINITION_LENGTH: usize = 24;
/// The longest name of a metadata extractor, in bytes.
pub const EXTRACTOR_NAME_LENGTH_MAX: usize = 255;

/// Flag: the table holds keys and heads only.
const FLAG_HEAD_ONLY: u32 = 1;
/// The flags that this build knows.
const FLAGS_KNOWN: u32 = FLAG_HEAD_ONLY;

const KIND_OBJECTS: u8 = 1;
const KIND_INDEX: u8 = 2;

/// The options of a table. They are chosen when the table is created, and never change.
///
/// ```
/// use pellucid_engine::TableOptions;
///
/// let options = TableOptions { head_only: true, ..TableOptions::default() };
/// assert_eq!(options.metadata_extractor, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// True if the table holds keys and heads only, and refuses values. The ledger alone then
    /// answers every read. The journal still has a record of each write, without a value, so that
    /// the ledger can be replayed and rebuilt.
    pub head_only: bool,
    /// The name of the [`crate::MetadataExtractor`] that derives the heads of the table. While no
    /// extractor of that name is in [`crate::EngineOptions::metadata_extractors`], writes are
    /// refused; reads still work.
    pub metadata_extractor: Option<String>,
    /// The longest value that is also held in the ledger, in bytes: reading such a value never
    /// touches the journal. At most [`HELD_VALUE_LENGTH_MAX`]; 0 for none.
    pub held_value_length_max: u32,
    /// The compression of values in the journal. A value stays uncompressed if compression would
    /// not save at least an eighth of it.
    pub value_compression: Compression,
    /// The compression of the ledger's blocks that hold the table's keys, heads and held values.
    /// Reads decompress a block, unless it is in the cache of decompressed blocks.
    pub block_compression: Compression,
}

/// The default of [`TableOptions::held_value_length_max`], chosen by measuring
/// (`examples/small_values.rs`, docs/architecture.md, Small values).
const HELD_VALUE_LENGTH_DEFAULT: u32 = 64;

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            head_only: false,
            metadata_extractor: None,
            held_value_length_max: HELD_VALUE_LENGTH_DEFAULT,
            value_compression: Compression::None,
            block_compression: Compression::None,
        }
    }
}

impl TableOptions {
    /// True if a write to the table needs no additions.
    pub(crate) fn is_plain(&self) -> bool {
        !self.head_only && self.metadata_extractor.is_none()
    }

    /// Refuses invalid options and combinations of options.
    pub(crate) fn check(&self) -> Result<()> {
        let what = match &self.metadata_extractor {
            Some(name) if name.is_empty() || name.len() > EXTRACTOR_NAME_LENGTH_MAX => {
                format!(
                    "the name of a metadata extractor has 1 to {EXTRACTOR_NAME_LENGTH_MAX} bytes"
                )
            }
            Some(_) if self.head_only => {
                "a table of heads only has no values that a metadata extractor could read"
                    .to_owned()
            }
            _ if self.held_value_length_max > HELD_VALUE_LENGTH_MAX => {
                format!("held_value_length_max is above {HELD_VALUE_LENGTH_MAX}")
            }
            _ => return Ok(()),
        };
        Err(Error::Option { what })
    }

    /// Describes the difference from `wanted`, if there is one.
    pub(crate) fn difference(&self, wanted: &TableOptions) -> Option<String> {
        let rule = |options: &TableOptions| match &options.metadata_extractor {
            Some(name) => format!("the metadata extractor `{name}`"),
            None => "no metadata extractor".to_owned(),
        };
        if self.head_only != wanted.head_only {
            let kind = |head_only| if head_only { "keys and heads only" } else { "values, too" };
            let (has, wants) = (kind(self.head_only), kind(wanted.head_only));
            return Some(format!("it holds {has}, and not {wants}"));
        }
        if self.metadata_extractor != wanted.metadata_extractor {
            return Some(format!("it has {}, and not {}", rule(self), rule(wanted)));
        }
        let kept = |options: &TableOptions| {
            format!(
                "values held up to {} bytes, compression {:?} of values and {:?} of blocks",
                options.held_value_length_max, options.value_compression, options.block_compression
            )
        };
        (self.rule() != wanted.rule())
            .then(|| format!("it has {}, and not {}", kept(self), kept(wanted)))
    }

    /// The rule for the table's entries that follows from the options.
    fn rule(&self) -> TableRule {
        TableRule {
            held_length_max: self.held_value_length_max,
            values: self.value_compression,
            blocks: self.block_compression,
            is_plain: self.is_plain(),
        }
    }
}

/// The kind of the entries under a table number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// Objects of the embedder.
    Objects(TableOptions),
    /// The entries of an index of the objects in table `of`.
    Index { of: TableId },
}

/// The definition of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) table: TableId,
    pub(crate) kind: TableKind,
}

impl Definition {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let none = TableOptions { held_value_length_max: 0, ..TableOptions::default() };
        let (kind, of, options) = match &self.kind {
            TableKind::Objects(options) => (KIND_OBJECTS, 0, options),
            TableKind::Index { of } => (KIND_INDEX, of.0, &none),
        };
        let rule = options.metadata_extractor.as_deref().unwrap_or_default().as_bytes();
        let flags = if options.head_only { FLAG_HEAD_ONLY } else { 0 };
        let mut bytes = vec![0; DEFINITION_LENGTH];
        bytes[0..2].copy_from_slice(&self.table.0.to_le_bytes());
        bytes[2..4].copy_from_slice(&DEFINITION_VERSION.to_le_bytes());
        bytes[4..8].copy_from_slice(&flags.to_le_bytes());
        bytes[8] = kind;
        bytes[9] = options.value_compression.number();
        bytes[10] = options.block_compression.number();
        bytes[12..16].copy_from_slice(&options.held_value_length_max.to_le_bytes());
        bytes[16..18].copy_from_slice(&of.to_le_bytes());
        bytes[18..20].copy_from_slice(&(rule.len() as u16).to_le_bytes());
        bytes.extend_from_slice(rule);
        bytes
    }

    /// Sets the rule of the table in `rules`.
    pub(crate) fn note_rule(&self, rules: &TableRules) {
        if let TableKind::Objects(options) = &self.kind {
            rules.set(self.table.0, options.rule());
        }
    }

    /// Decodes a definition. Returns the reason as an error if it cannot be read.
    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Definition, &'static str> {
        if bytes.len() < DEFINITION_LENGTH {
            return Err("a definition of a table is cut short");
        }
        let table = TableId(read_u16(bytes, 0));
        if table.0 == CATALOGUE_TABLE {
            return Err("a definition gives the catalogue's own number to a table");
        }
        let kind = match read_u16(bytes, 2) {
            DEFINITION_VERSION => decode_kind(bytes)?,
            0 => return Err("a definition of a table has no version"),
            1..DEFINITION_VERSION => {
                return Err("a table was made before the first release: copy it with its build");
            }
            _ => return Err("a table was made by a newer release: open the store with that"),
        };
        Ok(Definition { table, kind })
    }
}

/// Decodes everything but the number and the version. Unknown options are refused, because they
/// could change the meaning of the table's entries.
fn decode_kind(bytes: &[u8]) -> std::result::Result<TableKind, &'static str> {
    let Some((fixed, rule)) = bytes.split_first_chunk::<DEFINITION_LENGTH>() else {
        return Err("a definition of a table is cut short");
    };
    let flags = read_u32(fixed, 4);
    let mut unused = fixed[11..12].iter().chain(&fixed[20..]);
    let is_known = flags & !FLAGS_KNOWN == 0 && unused.all(|byte| *byte == 0);
    if !is_known {
        return Err("a table has an option of a newer release: open the store with that");
    }
    if rule.len() != usize::from(read_u16(fixed, 18)) {
        return Err("the name of a table's metadata extractor is cut short");
    }
    let rule =
        std::str::from_utf8(rule).map_err(|_| "the name of a metadata extractor is not UTF-8")?;
    let metadata_extractor = (!rule.is_empty()).then(|| rule.to_owned());
    let compressions = [fixed[9], fixed[10]].map(Compression::from_number);
    let [Some(value_compression), Some(block_compression)] = compressions else {
        return Err("a table is compressed in a way of a newer release: open the store with that");
    };
    let held_value_length_max = read_u32(fixed, 12);
    match (fixed[8], read_u16(fixed, 16)) {
        (KIND_OBJECTS, 0) => {
            let head_only = flags & FLAG_HEAD_ONLY != 0;
            let options = TableOptions {
                head_only,
                metadata_extractor,
                held_value_length_max,
                value_compression,
                block_compression,
            };
            options.check().map_err(|_| "a table has options that cannot work together")?;
            Ok(TableKind::Objects(options))
        }
        (KIND_INDEX, of)
            if of != CATALOGUE_TABLE
                && flags == 0
                && metadata_extractor.is_none()
                && fixed[9..16].iter().all(|byte| *byte == 0) =>
        {
            Ok(TableKind::Index { of: TableId(of) })
        }
        _ => Err("a table is of a kind that this build does not know"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(options: TableOptions) -> Definition {
        Definition { table: TableId(513), kind: TableKind::Objects(options) }
    }

    fn all() -> [Definition; 5] {
        let rule = TableOptions {
            metadata_extractor: Some("size 1".to_owned()),
            ..TableOptions::default()
        };
        [
            objects(TableOptions::default()),
            objects(TableOptions { head_only: true, ..TableOptions::default() }),
            objects(rule),
            objects(TableOptions {
                held_value_length_max: 300,
                value_compression: Compression::Lz4,
                block_compression: Compression::Lz4,
                ..TableOptions::default()
            }),
            Definition { table: TableId(7), kind: TableKind::Index { of: TableId(513) } },
        ]
    }

    #[test]
    fn definitions_round_trip_and_every_cut_or_flipped_bit_is_noticed() {
        for definition in all() {
            let bytes = definition.encode();
            assert_eq!(Definition::decode(&bytes), Ok(definition.clone()));
            for length in 0..bytes.len() {
                assert!(Definition::decode(&bytes[..length]).is_err(), "{length}");
            }
            // The bytes after number and version: a flipped bit is refused, or changes the
            // definition.
            for (index, bit) in (4..bytes.len()).flat_map(|i| (0..8).map(move |bit| (i, bit))) {
                let mut flipped = bytes.clone();
                flipped[index] ^= 1 << bit;
                assert_ne!(Definition::decode(&flipped), Ok(definition.clone()), "{index} {bit}");
            }
        }
    }

    /// Regression: a definition of version 1 was reported as one of a newer release.
    #[test]
    fn definitions_of_other_versions_are_refused() {
        let with = |at: usize, byte: u8| {
            let mut bytes = all()[0].encode();
            bytes[at] = byte;
            Definition::decode(&bytes)
        };
        let catalogue = Definition { table: TableId(CATALOGUE_TABLE), ..all()[0].clone() };
        assert!(Definition::decode(&catalogue.encode()).is_err(), "the catalogue's number");
        assert!(with(2, 0).unwrap_err().contains("no version"));
        assert!(with(2, 1).unwrap_err().contains("before the first release"));
        assert!(with(2, 3).unwrap_err().contains("newer release"));
    }

    #[test]
    fn invalid_options_are_refused() {
        let rule = |name: &str| Some(name.to_owned());
        let with = |head_only, metadata_extractor| TableOptions {
            head_only,
            metadata_extractor,
            ..TableOptions::default()
        };
        assert!(with(true, rule("r")).check().is_err());
        assert!(with(false, rule("")).check().is_err());
        let long = "r".repeat(EXTRACTOR_NAME_LENGTH_MAX + 1);
        assert!(with(false, rule(&long)).check().is_err());
        assert!(with(false, rule("r")).check().is_ok());
        let held_value_length_max = HELD_VALUE_LENGTH_MAX + 1;
        let held = TableOptions { held_value_length_max, ..TableOptions::default() };
        assert!(held.check().is_err());
    }
}
