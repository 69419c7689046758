//! The functions of the language, by family.
//!
//! A wrong argument is no error: the function gives null and leaves a warning. So queries go on
//! over documents of which some are odd.

mod arrays;
mod case;
mod dates;
mod digests;
mod documents;
mod encodings;
mod make;
mod numbers;
mod objects;
mod recursive;
mod regular;
mod search;
mod set;
mod sets;
mod statistics;
mod strings;
mod substitute;
mod time;
mod types;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) use arrays::whole_range;
pub(crate) use case::lower;
pub(crate) use make::{STEP_BYTES, room_for, text};
pub(crate) use set::{Set, compare, equal};

use pellucid_value::Value;

use crate::plan::Aggregator;
use crate::run::Run;
use crate::{QueryError, number};

/// The number of arguments that a function may have that takes any number of them.
const ARGUMENTS_MAX: usize = 1000;

type Body = fn(&mut Run, &[Value]) -> Result<Value, QueryError>;

/// A function.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// The number of arguments that it takes.
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// True if it gives the same for the same arguments, and does nothing else.
    pub(crate) is_pure: bool,
    pub(crate) body: Body,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

impl Function {
    const fn pure(name: &'static str, least: usize, most: usize, body: Body) -> Self {
        Self { name, least, most, is_pure: true, body }
    }

    const fn impure(name: &'static str, least: usize, most: usize, body: Body) -> Self {
        Self { name, least, most, is_pure: false, body }
    }
}

static ALL: LazyLock<HashMap<&'static str, &'static Function>> = LazyLock::new(|| {
    let families = [
        arrays::FUNCTIONS,
        case::FUNCTIONS,
        dates::FUNCTIONS,
        digests::FUNCTIONS,
        documents::FUNCTIONS,
        encodings::FUNCTIONS,
        numbers::FUNCTIONS,
        objects::FUNCTIONS,
        recursive::FUNCTIONS,
        regular::FUNCTIONS,
        sets::FUNCTIONS,
        statistics::FUNCTIONS,
        strings::FUNCTIONS,
        substitute::FUNCTIONS,
        types::FUNCTIONS,
    ];
    families.into_iter().flatten().map(|function| (function.name, function)).collect()
});

/// The function of that name in upper case.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    ALL.get(name).copied()
}

/// The name of each function, and how many arguments it takes at least and at most.
pub fn functions() -> impl Iterator<Item = (&'static str, usize, usize)> {
    ALL.values().map(|function| (function.name, function.least, function.most))
}

/// The value of an aggregate that needs all values at once.
pub(crate) fn aggregate(
    aggregator: Aggregator,
    values: Value,
    run: &mut Run,
) -> Result<Value, QueryError> {
    let name = match aggregator {
        Aggregator::StddevPopulation => "STDDEV_POPULATION",
        Aggregator::StddevSample => "STDDEV_SAMPLE",
        Aggregator::VariancePopulation => "VARIANCE_POPULATION",
        Aggregator::VarianceSample => "VARIANCE_SAMPLE",
        Aggregator::BitAnd => "BIT_AND",
        Aggregator::BitOr => "BIT_OR",
        Aggregator::BitXor => "BIT_XOR",
        _ => return Ok(values),
    };
    match find(name) {
        Some(function) => (function.body)(run, &[values]),
        None => Ok(Value::Null),
    }
}

/// Null, with the warning that an argument has the wrong type.
fn wrong(run: &mut Run, name: &str) -> Result<Value, QueryError> {
    let message = format!("invalid argument type in call to function '{name}()'");
    run.warn_null(number::FUNCTION_ARGUMENT_TYPE, message)
}

/// True if a value is an array.
fn is_array(value: &Value) -> bool {
    value.view().as_array().is_some()
}

/// True if a value is an object.
fn is_object(value: &Value) -> bool {
    value.view().as_object().is_some()
}

/// An argument that may be left out, as true or false.
fn flag(arguments: &[Value], place: usize) -> bool {
    arguments.get(place).is_some_and(Value::is_true)
}

/// A number as the whole number that it is about.
fn whole(value: &Value) -> i64 {
    pellucid_value::to_number(value.view()).to_int()
}

/// The number of elements that an array has; 0 for all else.
fn elements_of(value: &Value) -> usize {
    value.view().as_array().map_or(0, pellucid_value::ArrayRef::len)
}

/// An argument that says how many at most: all if it is missing or null, nothing if it is negative.
fn most(arguments: &[Value], place: usize) -> Option<usize> {
    match arguments.get(place).filter(|value| **value != Value::Null) {
        Some(value) => usize::try_from(whole(value)).ok(),
        None => Some(usize::MAX),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use crate::run::Run;
    use crate::{
        Collection, CollectionId, Index, IndexRequest, KillSwitch, QueryError, QueryOptions, Scan,
        Source, WriteBatch,
    };

    /// A source without collections.
    struct Nothing;

    impl Source for Nothing {
        fn collection(&self, _: &str) -> Option<Collection> {
            None
        }

        fn count(&self, _: CollectionId) -> Result<u64, QueryError> {
            unreachable!("there is no collection")
        }

        fn scan(&self, _: CollectionId) -> Result<Box<dyn Scan>, QueryError> {
            unreachable!("there is no collection")
        }

        fn indexes(&self, _: CollectionId) -> Vec<Index> {
            Vec::new()
        }

        fn index_scan(
            &self,
            _: CollectionId,
            _: &IndexRequest,
        ) -> Result<Box<dyn Scan>, QueryError> {
            unreachable!("there is no collection")
        }

        fn document(
            &self,
            _: CollectionId,
            _: &str,
        ) -> Result<Option<pellucid_value::Value>, QueryError> {
            unreachable!("there is no collection")
        }

        fn begin_writes(&self) -> Result<Box<dyn WriteBatch>, QueryError> {
            unreachable!("there is no collection")
        }
    }

    /// A query that has all the time and memory.
    pub(crate) fn run() -> Run {
        Run::new(Arc::new(Nothing), QueryOptions::default(), KillSwitch::default())
    }
}
