//! Exports all entities of a server or a cluster.

#[cfg(feature = "parquet")]
use pellucid_parquet::Writer;

use super::super::csv::write_row;
use super::super::entity::Entity;
use super::super::range::{LEAST_KEY, lines_of_range};
use super::super::table::TableArgument;
use super::export_output::ExportOutput;
use crate::Failure;
use crate::remote_server::{RemoteServer, encoded};

/// A function that appends an entity in the format of the export.
type EntityEncoder<'a> = dyn FnMut(Entity, &mut Vec<u8>) -> Result<(), String> + 'a;

/// An export of all entities.
pub(super) struct Export<'a> {
    pub(super) remote: &'a RemoteServer,
    pub(super) table: &'a TableArgument,
    pub(super) is_of_cluster: bool,
}

impl Export<'_> {
    /// Writes each entity as a line of JSON.
    pub(super) fn lines(&self, all_base64: bool, to: &mut ExportOutput) -> Result<(), Failure> {
        self.walk(to, &mut |entity, text| {
            entity.write_json(all_base64, text);
            Ok(())
        })
    }

    /// Writes each entity as a row of CSV.
    pub(super) fn rows(&self, all_base64: bool, to: &mut ExportOutput) -> Result<(), Failure> {
        write_row(&Entity::columns(all_base64), &mut to.text);
        self.walk(to, &mut |entity, text| {
            write_row(&entity.cells(all_base64)?, text);
            Ok(())
        })
    }

    /// Writes each entity as a row of Parquet. Keys and values are text if `are_text`, else bytes.
    #[cfg(feature = "parquet")]
    pub(super) fn parquet(&self, are_text: bool, to: &mut ExportOutput) -> Result<(), Failure> {
        let mut writer = Writer::new(Entity::typed_columns(are_text))?;
        self.walk(to, &mut |entity, text| {
            writer.add(&entity.typed_cells(are_text)?)?;
            text.append(&mut writer.take()?);
            Ok(())
        })?;
        to.text.append(&mut writer.end()?);
        Ok(())
    }

    /// Reads all entities and writes each with `add`.
    fn walk(&self, to: &mut ExportOutput, add: &mut EntityEncoder<'_>) -> Result<(), Failure> {
        let mut path = format!("/v0/entities?start={}", encoded(LEAST_KEY));
        if self.is_of_cluster {
            path += "&cluster=true";
        }
        path += &self.table.parameter();
        lines_of_range(self.remote, (&path, self.table), &mut |lines| {
            for line in lines.split(|byte| *byte == b'\n') {
                let entity = Entity::of_line(line)?;
                to.count(entity.bytes());
                add(entity, &mut to.text)?;
            }
            to.flush()
        })
    }
}
