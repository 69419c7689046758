//! Entities as a file.

use super::super::csv::write_row;
use super::super::entity::Entity;
use super::super::format::Format;
use super::super::out::Out;
use super::super::range::{LEAST_KEY, lines_of_range};
use super::super::table::TableArgument;
use crate::Failure;
use crate::progress::Progress;
use crate::remote::{Remote, encoded};

/// An export of all entities.
pub(super) struct Export<'a> {
    pub(super) table: &'a TableArgument,
    pub(super) format: Format,
    pub(super) all_base64: bool,
    pub(super) is_of_cluster: bool,
}

impl Export<'_> {
    pub(super) fn run(
        &self,
        remote: &Remote,
        out: &mut Out,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let mut path = format!("/v0/entities?start={}", encoded(LEAST_KEY));
        if self.is_of_cluster {
            path += "&cluster=true";
        }
        path += &self.table.parameter();
        let mut text = Vec::new();
        if self.format == Format::Csv {
            write_row(&Entity::columns(self.all_base64), &mut text);
        }
        let (mut count, mut bytes) = (0, 0);
        lines_of_range(remote, (&path, self.table), &mut |lines| {
            for line in lines.split(|byte| *byte == b'\n') {
                let entity = Entity::of_line(line)?;
                count += 1;
                bytes += entity.bytes();
                self.write(entity, &mut text)?;
            }
            progress.show(count, bytes);
            let is_read = out.write(&text);
            text.clear();
            is_read
        })?;
        // The names stand there even if there are no rows.
        out.write(&text).map_err(Failure::work)?;
        Ok(())
    }

    fn write(&self, entity: Entity, text: &mut Vec<u8>) -> Result<(), String> {
        match self.format {
            Format::Ndjson => entity.write_json(self.all_base64, text),
            Format::Csv => write_row(&entity.cells(self.all_base64)?, text),
        }
        Ok(())
    }
}
