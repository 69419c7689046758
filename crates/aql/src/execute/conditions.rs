//! The filter of a scan. It is checked on the stored form of documents, so that documents that it
//! rejects are never copied.
//!
//! A comparison of an attribute with a known value uses the packed bytes. Any other condition is
//! computed on an object with only the attributes that it reads.

use std::ops::ControlFlow;
use std::sync::Arc;

use pellucid_value::packed::Damage;
use pellucid_value::{ObjectBuilder, Ref, Text, Value};

use super::rows::bytes_of_copy;
use crate::evaluate::{SET_COMPARISONS_MIN, compare_by};
use crate::functions::Set;
use crate::parse::ast::BinaryOperator;
use crate::query_run::QueryRun;
use crate::tree::{Code, Row, Slot};
use crate::{QueryError, Result, Visitor, number};

/// A filter on documents, divided by what its conditions read of a document.
pub(super) struct Conditions {
    slot: Slot,
    quick: Vec<AttributeComparison>,
    /// The conditions that read only `attributes` of the document.
    partial: Vec<Code>,
    attributes: Vec<Text>,
    /// The row with an object of those attributes in the document's slot.
    scratch: Row,
    /// The conditions that read the whole document.
    whole: Vec<Code>,
}

/// A comparison of an attribute with a known value.
struct AttributeComparison {
    names: Vec<Arc<str>>,
    operator: BinaryOperator,
    other: Value,
    /// True if the attribute is the right operand.
    is_turned: bool,
    /// The index of the first name in the last document.
    place: usize,
    /// The elements of `other` that were compared by `IN` so far.
    compared: usize,
    /// The elements of `other`, once comparisons took as long as making this.
    set: Option<Set>,
    /// The memory that `set` takes.
    set_bytes: usize,
}

impl AttributeComparison {
    fn holds(&mut self, document: Ref<'_>, run: &mut QueryRun) -> Result<bool> {
        let (first, rest) = self.names.split_first().map_or(("", &[][..]), |(a, b)| (a, b));
        let object = document.as_object();
        let value = object.and_then(|object| object.get_near(first, &mut self.place));
        let own = rest.iter().fold(value.unwrap_or(Ref::Null), |value, name| value.attribute(name));
        let other = self.other.view();
        if self.is_turned {
            return compare_by(self.operator, other, own, run);
        }
        let is_in = self.operator == BinaryOperator::In;
        if let Some(list) = other.as_array()
            && (is_in || self.operator == BinaryOperator::NotIn)
        {
            if self.set.is_none() && self.compared >= SET_COMPARISONS_MIN.max(2 * list.len()) {
                let before_bytes = run.memory.passing_bytes();
                self.set = Some(Set::of(&self.other, run)?);
                self.set_bytes = run.memory.passing_bytes().saturating_sub(before_bytes);
            }
            self.compared += list.len();
            if let Some(set) = &self.set {
                return Ok(set.place(own, run)?.is_some() == is_in);
            }
        }
        compare_by(self.operator, own, other, run)
    }
}

/// Computes a value that is compared with others for as long as a row is current, and takes its
/// memory.
pub(super) fn comparand(code: &Code, row: &Row, run: &mut QueryRun) -> Result<Value> {
    let value = code.compute(row, run)?;
    run.memory.take(value.own_bytes())?;
    Ok(value)
}

impl Conditions {
    /// Prepares a filter for a row. The memory of its values counts until the caller frees it, and
    /// so do [`Conditions::set_bytes`].
    pub(super) fn new(slot: Slot, filter: &[Code], row: &Row, run: &mut QueryRun) -> Result<Self> {
        let mut conditions = Self {
            slot,
            quick: Vec::new(),
            partial: Vec::new(),
            attributes: Vec::new(),
            scratch: Row::default(),
            whole: Vec::new(),
        };
        for code in filter {
            if let Some(quick) = quick(slot, code, row, run)? {
                conditions.quick.push(quick);
            } else if let Some(names) = attributes(slot, code) {
                let new = names.into_iter().filter(|name| !conditions.attributes.contains(name));
                let new: Vec<_> = new.collect();
                conditions.attributes.extend(new);
                conditions.partial.push(code.clone());
            } else {
                conditions.whole.push(code.clone());
            }
        }
        if !conditions.partial.is_empty() {
            conditions.scratch = row.clone();
        }
        Ok(conditions)
    }

    /// The memory of the sets that were made for long lists so far.
    pub(super) fn set_bytes(&self) -> usize {
        self.quick.iter().map(|quick| quick.set_bytes).sum()
    }

    /// True if all conditions hold that can be checked on the stored form of a document.
    pub(super) fn early(&mut self, document: Ref<'_>, run: &mut QueryRun) -> Result<bool> {
        for quick in &mut self.quick {
            if !quick.holds(document, run)? {
                return Ok(false);
            }
        }
        if self.partial.is_empty() {
            return Ok(true);
        }
        let mut object = ObjectBuilder::new();
        for name in &self.attributes {
            if let Some(value) = document.as_object().and_then(|object| object.get(name)) {
                let value = value.to_value();
                run.bytes_seen += value.size_bytes();
                object.insert(name.clone(), value);
            }
        }
        self.scratch[self.slot] = object.finish()?;
        all_hold(&self.partial, &self.scratch, run)
    }

    /// True if the other conditions hold for a row with the document.
    pub(super) fn late(&self, row: &Row, run: &mut QueryRun) -> Result<bool> {
        all_hold(&self.whole, row, run)
    }
}

fn all_hold(codes: &[Code], row: &Row, run: &mut QueryRun) -> Result<bool> {
    for code in codes {
        if !code.holds(row, run)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn quick(
    slot: Slot,
    code: &Code,
    row: &Row,
    run: &mut QueryRun,
) -> Result<Option<AttributeComparison>> {
    let Code::Binary(operator, operands) = code else { return Ok(None) };
    if !operator.compares() {
        return Ok(None);
    }
    for (own, other, is_turned) in
        [(&operands.0, &operands.1, false), (&operands.1, &operands.0, true)]
    {
        if let Code::Path(of, names) = own
            && *of == slot
            && is_as_stored(names)
            && other.is_pure()
            && !other.slots().contains(&slot)
        {
            let other = comparand(other, row, run)?;
            return Ok(Some(AttributeComparison {
                names: names.clone(),
                operator: *operator,
                other,
                is_turned,
                place: 0,
                compared: 0,
                set: None,
                set_bytes: 0,
            }));
        }
    }
    Ok(None)
}

/// True if the stored form of a document has the final value at this path.
fn is_as_stored(names: &[Arc<str>]) -> bool {
    names.first().is_some_and(|first| !matches!(&**first, "_id" | "_rev"))
}

/// The attributes of the document that a condition reads; `None` if it reads the whole document.
fn attributes(slot: Slot, code: &Code) -> Option<Vec<Text>> {
    let (mut names, mut is_partial) = (Vec::new(), true);
    code.walk(&mut |part| match part {
        Code::Path(of, path) if *of == slot => {
            is_partial &= is_as_stored(path);
            names.extend(path.first().map(|name| Text::from(&**name)));
        }
        Code::Subquery(pipeline) => is_partial &= !pipeline.slots_read().contains(&slot),
        _ => {}
    });
    is_partial.then_some(names)
}

/// A visitor that collects rows with the documents for which the filter holds.
pub(super) struct RowCollector<'a> {
    pub(super) row: &'a Row,
    pub(super) filter: &'a mut Conditions,
    pub(super) run: &'a mut QueryRun,
    pub(super) out: &'a mut Vec<Row>,
    /// The number of rows in `out` at which it stops.
    pub(super) want: usize,
    /// The number of documents at which it stops.
    pub(super) most: usize,
    /// The number of documents that it was shown.
    pub(super) seen: usize,
    /// The error that stopped it.
    pub(super) failed: Option<QueryError>,
}

impl RowCollector<'_> {
    pub(super) fn fail(&mut self, error: QueryError) -> ControlFlow<()> {
        self.failed = Some(error);
        ControlFlow::Break(())
    }

    fn go_on(&self) -> ControlFlow<()> {
        let is_full = self.run.memory.is_batch_full() || self.run.is_too_heavy();
        let is_enough = self.out.len() >= self.want || self.seen >= self.most || is_full;
        if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Adds a row with a document of this size, which `open` makes.
    pub(super) fn take(
        &mut self,
        document_bytes: usize,
        open: impl FnOnce() -> Result<Value>,
    ) -> ControlFlow<()> {
        match self.row_with(document_bytes, open) {
            Ok(()) => self.go_on(),
            Err(error) => self.fail(error),
        }
    }

    fn row_with(
        &mut self,
        document_bytes: usize,
        open: impl FnOnce() -> Result<Value>,
    ) -> Result<()> {
        let bytes = bytes_of_copy(self.row) + document_bytes;
        self.run.memory.take_for_batch(bytes)?;
        let mut row = self.row.clone();
        row[self.filter.slot] = open()?;
        if self.filter.late(&row, self.run)? {
            self.out.push(row);
        } else {
            self.run.memory.free_of_batch(bytes);
            self.run.stats.filtered += 1;
        }
        Ok(())
    }
}

impl Visitor for RowCollector<'_> {
    fn wants(&mut self, document: Ref<'_>) -> ControlFlow<(), bool> {
        self.seen += 1;
        match self.filter.early(document, self.run) {
            Ok(true) => ControlFlow::Continue(true),
            Ok(false) => {
                self.run.stats.filtered += 1;
                self.go_on()?;
                ControlFlow::Continue(false)
            }
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn visit(&mut self, document: &[u8]) -> ControlFlow<()> {
        self.run.bytes_seen += document.len();
        self.take(document.len(), || {
            let damaged = |damage: Damage| QueryError::new(number::INTERNAL, damage.to_string());
            Value::open(document).map_err(damaged)
        })
    }
}
