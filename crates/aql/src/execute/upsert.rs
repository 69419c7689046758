//! Execution of `UPSERT`: for each row, an insert, or an update of the document that is found.
//! Documents that the query itself has written before are found as well.

use std::collections::HashMap;

use pellucid_value::{Value, index_key};

use super::rows::{Upstream, size_of_row};
use super::write::add;
use crate::parse::ast::BinaryOperator;
use crate::query_run::QueryRun;
use crate::tree::{Code, Row, Upsert};
use crate::{Result, WriteKind};

/// The bytes of a written document in the overlay, besides its own and those of its keys.
const OVERLAY_BYTES: usize = 256;

/// The documents that the query has written so far, by key and by the compared values.
#[derive(Default)]
struct Overlay {
    documents: HashMap<String, Value>,
    /// The keys of documents by the encoded values of the compared attributes.
    by_values: HashMap<Vec<u8>, Vec<String>>,
}

/// Executes the upsert for all rows. Returns the rows that have a result.
pub(super) fn written<U: Upstream>(
    upsert: &Upsert,
    upstream: &mut U,
    run: &mut QueryRun,
) -> Result<Vec<Row>> {
    let mut overlay = Overlay::default();
    let equalities = equalities(upsert);
    let mut written = Vec::new();
    upstream.each(run, |mut row, run| {
        if overlay.one::<U>(upsert, equalities.as_deref(), &mut row, run)? {
            run.memory.take(size_of_row(&row))?;
            written.push(row);
        }
        Ok(())
    })?;
    Ok(written)
}

/// The attributes and the values that they have to equal; `None` if the condition has other parts.
fn equalities(upsert: &Upsert) -> Option<Vec<(&Code, &Code)>> {
    let (slot, condition) = &upsert.condition;
    let mut open = vec![condition];
    let mut equalities = Vec::new();
    while let Some(code) = open.pop() {
        match code {
            Code::Binary(BinaryOperator::And, operands) => open.extend([&operands.1, &operands.0]),
            Code::Binary(BinaryOperator::Equal, operands) => match &operands.0 {
                Code::Path(of, _) if of == slot && !operands.1.slots().contains(slot) => {
                    equalities.push((&operands.0, &operands.1));
                }
                _ => return None,
            },
            _ => return None,
        }
    }
    Some(equalities)
}

fn encoded<'a>(
    codes: impl Iterator<Item = &'a Code>,
    row: &Row,
    run: &mut QueryRun,
) -> Result<Vec<u8>> {
    let (mut key, before_bytes) = (Vec::new(), run.memory.passing_bytes());
    for code in codes {
        let value = code.compute(row, run)?;
        run.memory.take(2 * value.size_bytes())?;
        index_key::encode(value.view(), &mut key);
    }
    run.memory.free_down_to(before_bytes);
    Ok(key)
}

impl Overlay {
    /// Executes the upsert for one row. Returns true if the row has a result.
    fn one<U: Upstream>(
        &mut self,
        upsert: &Upsert,
        equalities: Option<&[(&Code, &Code)]>,
        row: &mut Row,
        run: &mut QueryRun,
    ) -> Result<bool> {
        let found = self.find::<U>(upsert, equalities, row, run)?;
        let collection = upsert.collection.id;
        let done = match found {
            Some(document) => {
                row[upsert.old] = document.clone();
                let update = upsert.update.compute(row, run)?;
                let kind = if upsert.is_replace { WriteKind::Replace } else { WriteKind::Update };
                add((kind, collection, &upsert.options), &document, &update, &update, run)?
            }
            None => {
                row[upsert.old] = Value::Null;
                let insert = upsert.insert.compute(row, run)?;
                let target = (WriteKind::Insert, collection, &upsert.options);
                add(target, &insert, &insert, &insert, run)?
            }
        };
        let Some(done) = done else { return Ok(false) };
        row[upsert.new] = done.new.clone();
        if let Some(key) = done.new.attribute("_key").as_str() {
            run.memory.take(done.new.size_bytes() + 2 * key.len() + OVERLAY_BYTES)?;
            if let Some(equalities) = equalities {
                row[upsert.condition.0] = done.new.clone();
                let values = encoded(equalities.iter().map(|(own, _)| *own), row, run)?;
                run.memory.take(values.capacity())?;
                self.by_values.entry(values).or_default().push(key.to_owned());
            }
            self.documents.insert(key.to_owned(), done.new);
        }
        Ok(true)
    }

    fn find<U: Upstream>(
        &self,
        upsert: &Upsert,
        equalities: Option<&[(&Code, &Code)]>,
        row: &mut Row,
        run: &mut QueryRun,
    ) -> Result<Option<Value>> {
        let (slot, condition) = &upsert.condition;
        let candidates: Vec<&Value> = match equalities {
            Some(equalities) => {
                let values = encoded(equalities.iter().map(|(_, other)| *other), row, run)?;
                let keys = self.by_values.get(&values).map_or(&[][..], Vec::as_slice);
                keys.iter().filter_map(|key| self.documents.get(key)).collect()
            }
            None => self.documents.values().collect(),
        };
        for candidate in candidates {
            run.tick()?;
            row[*slot] = candidate.clone();
            if condition.holds(row, run)? {
                return Ok(Some(candidate.clone()));
            }
        }
        row[*slot] = Value::Null;
        self.find_stored::<U>(upsert, row, run)
    }

    /// The first matching document in the store that the query has not written.
    fn find_stored<U: Upstream>(
        &self,
        upsert: &Upsert,
        row: &Row,
        run: &mut QueryRun,
    ) -> Result<Option<Value>> {
        let is_other = |document: &Value| {
            let key = document.attribute("_key");
            !key.as_str().is_some_and(|key| self.documents.contains_key(key))
        };
        U::first_value(&upsert.search, row, run, is_other)
    }
}
