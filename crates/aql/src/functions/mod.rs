//! The functions of the language, by family.
//!
//! A wrong argument is no error: the function gives null and leaves a warning. So queries go on
//! over documents of which some are odd.

mod arrays;
mod dates;
mod digests;
mod documents;
mod encodings;
mod numbers;
mod objects;
mod recursive;
mod regular;
mod sets;
mod statistics;
mod strings;
mod substitute;
mod time;
mod types;

use std::collections::HashMap;
use std::sync::LazyLock;

use pellucid_value::Value;

use crate::plan::Aggregator;
use crate::run::Run;
use crate::{QueryError, number};

/// How many arguments a function may have that takes any number of them.
const ARGUMENTS_MAX: usize = 1000;
/// How many bytes a string may have that a function makes.
const TEXT_BYTES_MAX: usize = 64 << 20;

type Body = fn(&mut Run, &[Value]) -> Result<Value, QueryError>;

/// A function.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// How many arguments it takes.
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// Whether it gives the same for the same arguments, and does nothing else.
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

/// An array.
fn array(elements: Vec<Value>) -> Result<Value, QueryError> {
    Ok(Value::array(elements)?)
}

/// Whether a value is an array.
fn is_array(value: &Value) -> bool {
    value.view().as_array().is_some()
}

/// Whether a value is an object.
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

/// A text whose length was not bounded by its arguments is too long.
fn too_long() -> QueryError {
    let message = format!("a string would be longer than {TEXT_BYTES_MAX} bytes");
    QueryError::new(number::RESOURCE_LIMIT, message)
}
