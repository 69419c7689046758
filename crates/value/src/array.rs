//! Arrays that a query has built.

use std::ops::Deref;

use crate::Value;
use crate::extent::{Extent, OverLimit};

/// Elements in their order. Made by [`Value::array`], never changed afterwards.
#[derive(Clone, Debug, Default)]
pub struct Array {
    elements: Vec<Value>,
    extent: Extent,
}

impl Array {
    pub(crate) fn new(elements: Vec<Value>) -> Result<Self, OverLimit> {
        let mut extent = Extent::default();
        for element in &elements {
            extent.add(element)?;
        }
        extent.add_bytes((elements.capacity() - elements.len()) * size_of::<Value>())?;
        Ok(Self { elements, extent })
    }

    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// See [`Value::let_go`].
    pub(crate) fn let_go(&mut self) {
        self.elements.iter_mut().for_each(Value::let_go);
    }
}

impl Deref for Array {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.elements
    }
}
