//! Entities as a file.

use super::super::entity::Entity;
use super::super::out::Out;
use super::super::range::{LEAST_KEY, lines_of_range};
use super::super::table::TableArgument;
use super::entity_form::EntityForm;
use crate::Failure;
use crate::progress::Progress;
use crate::remote::{Remote, encoded};

/// An export of all entities.
pub(super) struct Export<'a> {
    pub(super) table: &'a TableArgument,
    pub(super) form: EntityForm,
    pub(super) is_of_cluster: bool,
}

impl Export<'_> {
    pub(super) fn run(
        self,
        remote: &Remote,
        out: &mut Out,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let mut path = format!("/v0/entities?start={}", encoded(LEAST_KEY));
        if self.is_of_cluster {
            path += "&cluster=true";
        }
        path += &self.table.parameter();
        let (mut form, mut text) = (self.form, Vec::new());
        form.begin(&mut text);
        let (mut count, mut bytes) = (0, 0);
        lines_of_range(remote, (&path, self.table), &mut |lines| {
            for line in lines.split(|byte| *byte == b'\n') {
                let entity = Entity::of_line(line)?;
                count += 1;
                bytes += entity.bytes();
                form.add(entity, &mut text)?;
            }
            progress.show(count, bytes);
            let is_read = out.write(&text);
            text.clear();
            is_read
        })?;
        // A table has its names even if it has no rows.
        text.append(&mut form.end().map_err(Failure::work)?);
        out.write(&text).map_err(Failure::work)?;
        Ok(())
    }
}
