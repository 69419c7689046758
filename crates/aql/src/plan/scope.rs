//! The names that are visible at a point of a query.

use crate::tree::{Code, Slot};
use crate::{QueryError, Result, number};

/// The most variables that are visible at a point of a query.
const VISIBLE_MAX: usize = 4000;
/// The most nested subqueries.
const SUBQUERIES_MAX: usize = 60;

/// A name, and the expression that it stands for.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) code: Code,
}

/// The visible names.
#[derive(Default)]
pub(super) struct Scope {
    /// The innermost last.
    bindings: Vec<Binding>,
    /// The number of enclosing brackets with `CURRENT`.
    brackets: usize,
    /// `CURRENT` outside of brackets, in the filter of `UPSERT`.
    current_document: Option<Slot>,
    /// The names that are visible outside each of the enclosing queries.
    around: Vec<Vec<Binding>>,
}

impl Scope {
    /// Begins a query or subquery. All outer names stay visible in it.
    pub(super) fn begin_query(&mut self) -> Result<()> {
        if self.around.len() > SUBQUERIES_MAX {
            let message = format!("more than {SUBQUERIES_MAX} subqueries within each other");
            return Err(QueryError::new(number::TOO_MUCH_NESTING, message));
        }
        self.around.push(self.bindings.clone());
        Ok(())
    }

    /// The bytes of the visible names, which [`Self::begin_query`] copies.
    pub(super) fn size_bytes(&self) -> usize {
        let of = |own: &Binding| size_of_val(own) + own.name.len() + own.code.names_bytes();
        self.bindings.iter().map(of).sum()
    }

    /// Ends a query. Its own names are not visible any more.
    pub(super) fn end_query(&mut self) {
        self.bindings = self.around.pop().unwrap_or_default();
    }

    /// Makes a name visible.
    pub(super) fn declare(&mut self, name: &str, code: Code) -> Result<()> {
        if self.find(name).is_some() {
            let message = format!("variable '{name}' is assigned multiple times");
            return Err(QueryError::new(number::VARIABLE_REDECLARED, message));
        }
        if self.bindings.len() >= VISIBLE_MAX {
            let message =
                format!("too much nesting or too many objects: over {VISIBLE_MAX} variables");
            return Err(QueryError::new(number::TOO_MUCH_NESTING, message));
        }
        self.bindings.push(Binding { name: name.to_owned(), code });
        Ok(())
    }

    /// Declares a name, replacing an existing declaration.
    pub(super) fn redeclare(&mut self, name: &str, slot: Slot) {
        self.bindings.retain(|binding| binding.name != name);
        self.bindings.push(Binding { name: name.to_owned(), code: Code::Path(slot, Vec::new()) });
    }

    pub(super) fn find(&self, name: &str) -> Option<&Code> {
        let found = self.bindings.iter().rev().find(|binding| binding.name == name);
        found.map(|binding| &binding.code)
    }

    /// The names that the current query has declared itself.
    pub(super) fn own(&self) -> &[Binding] {
        &self.bindings[self.visible_around()..]
    }

    pub(super) fn forget_own(&mut self) {
        self.bindings.truncate(self.visible_around());
    }

    fn visible_around(&self) -> usize {
        self.around.last().map_or(0, Vec::len)
    }

    pub(super) fn open_brackets(&mut self) {
        self.brackets += 1;
    }

    pub(super) fn close_brackets(&mut self) {
        self.brackets -= 1;
    }

    /// Sets what `CURRENT` is outside of brackets.
    pub(super) fn set_current_document(&mut self, document: Option<Slot>) {
        self.current_document = document;
    }

    /// `CURRENT` of the innermost brackets, or else the current document.
    pub(super) fn current(&self) -> Option<Code> {
        let document = self.current_document.map(|slot| Code::Path(slot, Vec::new()));
        self.brackets.checked_sub(1).map(Code::Local).or(document)
    }
}
