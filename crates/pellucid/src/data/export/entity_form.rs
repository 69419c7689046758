//! Forms of the entities of an export.

#[cfg(feature = "parquet")]
use pellucid_parquet::Writer;

use super::super::csv::write_row;
use super::super::entity::Entity;
use super::super::format::Format;
use crate::Failure;

/// A form, as it is being written.
pub(super) enum EntityForm {
    Lines {
        all_base64: bool,
    },
    Rows {
        all_base64: bool,
    },
    #[cfg(feature = "parquet")]
    Table {
        writer: Box<Writer>,
        are_text: bool,
    },
}

impl EntityForm {
    /// The form of a format, in which all bytes are to be in base64, or to be texts.
    pub(super) fn of(
        format: Format,
        all_base64: bool,
        are_text: bool,
    ) -> Result<EntityForm, Failure> {
        if format != Format::Parquet && are_text {
            return Err(Failure::usage("--text is about the columns of --format parquet"));
        }
        match format {
            Format::Ndjson => Ok(EntityForm::Lines { all_base64 }),
            Format::Csv => Ok(EntityForm::Rows { all_base64 }),
            Format::Parquet if all_base64 => {
                Err(Failure::usage("--base64 is for text: Parquet has bytes as they are"))
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                let writer = Writer::new(Entity::typed_columns(are_text)).map_err(Failure::work)?;
                Ok(EntityForm::Table { writer: Box::new(writer), are_text })
            }
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => format.check().map(|()| EntityForm::Lines { all_base64 }),
        }
    }

    /// Appends the bytes before all entities.
    pub(super) fn begin(&self, text: &mut Vec<u8>) {
        if let EntityForm::Rows { all_base64 } = self {
            write_row(&Entity::columns(*all_base64), text);
        }
    }

    pub(super) fn add(&mut self, entity: Entity, text: &mut Vec<u8>) -> Result<(), String> {
        match self {
            EntityForm::Lines { all_base64 } => entity.write_json(*all_base64, text),
            EntityForm::Rows { all_base64 } => write_row(&entity.cells(*all_base64)?, text),
            #[cfg(feature = "parquet")]
            EntityForm::Table { writer, are_text } => {
                writer.add(&entity.typed_cells(*are_text)?)?;
                text.append(&mut writer.take()?);
            }
        }
        Ok(())
    }

    /// The bytes behind all entities.
    pub(super) fn end(self) -> Result<Vec<u8>, String> {
        match self {
            EntityForm::Lines { .. } | EntityForm::Rows { .. } => Ok(Vec::new()),
            #[cfg(feature = "parquet")]
            EntityForm::Table { writer, .. } => writer.end(),
        }
    }
}
