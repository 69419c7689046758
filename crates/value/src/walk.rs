//! Traversal of values without recursion, for documents of any depth. Older stores have documents
//! that are deeper than the present limit.

use crate::{ArrayRef, Members, ObjectRef, Ref};

/// A step of a traversal.
pub(crate) enum Step<'a> {
    /// The name of the next member.
    Name(&'a str),
    /// A value; the parts of an array or object follow it.
    Value(Ref<'a>),
    /// The end of an array.
    EndArray,
    /// The end of an object.
    EndObject,
}

/// A traversal of a value and all its parts, depth first.
pub(crate) struct Walk<'a> {
    next: Option<Ref<'a>>,
    open: Vec<OpenContainer<'a>>,
    sorted: bool,
}

enum OpenContainer<'a> {
    Array(ArrayRef<'a>, usize),
    Object(Members<'a>),
}

impl<'a> Walk<'a> {
    /// Begins a traversal with the members of objects in the order of insertion.
    pub(crate) fn new(value: Ref<'a>) -> Self {
        Self { next: Some(value), open: Vec::new(), sorted: false }
    }

    /// Begins a traversal with the members of objects sorted by name.
    pub(crate) fn sorted(value: Ref<'a>) -> Self {
        Self { sorted: true, ..Self::new(value) }
    }

    fn members(&self, object: ObjectRef<'a>) -> Members<'a> {
        if self.sorted { object.sorted() } else { object.iter() }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Step<'a>;

    fn next(&mut self) -> Option<Step<'a>> {
        if self.next.is_none() {
            match self.open.last_mut()? {
                OpenContainer::Array(array, place) if *place < array.len() => {
                    self.next = Some(array.get(*place).unwrap_or(Ref::Null));
                    *place += 1;
                }
                OpenContainer::Array(..) => {
                    self.open.pop();
                    return Some(Step::EndArray);
                }
                OpenContainer::Object(members) => match members.next() {
                    Some((name, member)) => {
                        self.next = Some(member);
                        return Some(Step::Name(name));
                    }
                    None => {
                        self.open.pop();
                        return Some(Step::EndObject);
                    }
                },
            }
        }
        let value = self.next.take()?;
        match value {
            Ref::Array(array) => self.open.push(OpenContainer::Array(array, 0)),
            Ref::Object(object) => self.open.push(OpenContainer::Object(self.members(object))),
            _ => {}
        }
        Some(Step::Value(value))
    }
}
