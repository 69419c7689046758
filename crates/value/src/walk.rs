//! Values part by part and without recursion, for documents of any depth: older stores have some
//! that are deeper than values may be now.

use crate::{ArrayRef, Members, ObjectRef, Ref};

/// A part of a value.
pub(crate) enum Step<'a> {
    /// The name of the member that comes next.
    Name(&'a str),
    /// A value; the parts of an array or object follow it.
    Value(Ref<'a>),
    /// The end of an array.
    EndArray,
    /// The end of an object.
    EndObject,
}

/// Goes through a value and all that lies in it.
pub(crate) struct Walk<'a> {
    next: Option<Ref<'a>>,
    open: Vec<Open<'a>>,
    sorted: bool,
}

enum Open<'a> {
    Array(ArrayRef<'a>, usize),
    Object(Members<'a>),
}

impl<'a> Walk<'a> {
    /// With the members of objects as they were inserted.
    pub(crate) fn new(value: Ref<'a>) -> Self {
        Self { next: Some(value), open: Vec::new(), sorted: false }
    }

    /// With the members of objects by name.
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
                Open::Array(array, place) if *place < array.len() => {
                    self.next = Some(array.get(*place).unwrap_or(Ref::Null));
                    *place += 1;
                }
                Open::Array(..) => {
                    self.open.pop();
                    return Some(Step::EndArray);
                }
                Open::Object(members) => match members.next() {
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
            Ref::Array(array) => self.open.push(Open::Array(array, 0)),
            Ref::Object(object) => self.open.push(Open::Object(self.members(object))),
            _ => {}
        }
        Some(Step::Value(value))
    }
}
