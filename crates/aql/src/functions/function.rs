//! The definition of a function, and helpers to check arguments.

use pellucid_value::Value;

use crate::query_run::QueryRun;
use crate::{Result, number};

/// The most arguments of a variadic function.
pub(super) const ARGUMENTS_MAX: usize = 1000;

pub(super) type Body = fn(&mut QueryRun, &[Value]) -> Result<Value>;

pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) arguments_min: usize,
    pub(crate) arguments_max: usize,
    /// True if it returns the same for the same arguments, and has no effects.
    pub(crate) is_pure: bool,
    pub(crate) body: Body,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

impl Function {
    pub(super) const fn pure(name: &'static str, min: usize, max: usize, body: Body) -> Self {
        Self { name, arguments_min: min, arguments_max: max, is_pure: true, body }
    }

    pub(super) const fn impure(name: &'static str, min: usize, max: usize, body: Body) -> Self {
        Self { name, arguments_min: min, arguments_max: max, is_pure: false, body }
    }
}

/// Makes a pure function that returns null with a warning unless `$accepts` accepts its arguments.
/// The warning names the function by `$warned_as` if given (an alias warns under the main name),
/// else by `$name`.
macro_rules! typed {
    ($accepts:ident, $name:literal, $min:expr, $max:expr, $body:expr) => {
        typed!($accepts, $name, $min, $max, $body, $name)
    };
    ($accepts:ident, $name:literal, $min:expr, $max:expr, $body:expr, $warned_as:literal) => {
        $crate::functions::function::Function::pure($name, $min, $max, |run, arguments| {
            let body: $crate::functions::function::Body = $body;
            if !$crate::functions::function::$accepts(arguments) {
                return $crate::functions::function::wrong_type(run, $warned_as);
            }
            body(run, arguments)
        })
    };
}
pub(super) use typed;

/// True if the first argument is an array.
pub(super) fn first_is_array(arguments: &[Value]) -> bool {
    is_array(&arguments[0])
}

/// True if the first argument is an array, or null, which counts as an empty one.
pub(super) fn first_is_array_or_null(arguments: &[Value]) -> bool {
    first_is_array(arguments) || arguments[0] == Value::Null
}

/// True if the first argument is an object.
pub(super) fn first_is_object(arguments: &[Value]) -> bool {
    is_object(&arguments[0])
}

/// True if all arguments are arrays.
pub(super) fn all_are_arrays(arguments: &[Value]) -> bool {
    arguments.iter().all(is_array)
}

/// Returns null, with the warning that an argument has a wrong type.
pub(super) fn wrong_type(run: &mut QueryRun, name: &str) -> Result<Value> {
    let message = format!("invalid argument type in call to function '{name}()'");
    run.warn_null(number::FUNCTION_ARGUMENT_TYPE, message)
}

/// True if a value is an array.
pub(super) fn is_array(value: &Value) -> bool {
    value.view().as_array().is_some()
}

/// True if a value is an object.
pub(super) fn is_object(value: &Value) -> bool {
    value.view().as_object().is_some()
}

/// An optional argument as a boolean; false if it is missing.
pub(super) fn flag(arguments: &[Value], index: usize) -> bool {
    arguments.get(index).is_some_and(Value::is_true)
}

/// An optional argument; `None` if it is missing or null.
pub(super) fn given(arguments: &[Value], index: usize) -> Option<&Value> {
    arguments.get(index).filter(|value| **value != Value::Null)
}

/// A value cast to an integer: rounded towards zero, and clamped to `i64`.
pub(super) fn whole(value: &Value) -> i64 {
    pellucid_value::to_number(value.view()).to_int()
}

/// The number of elements of an array; 0 for other values.
pub(super) fn elements_of(value: &Value) -> usize {
    value.view().as_array().map_or(0, pellucid_value::ArrayRef::len)
}

/// The result of a search: the index or -1 if `wants_place`, otherwise true or false.
pub(super) fn position_or_boolean(found: Option<usize>, wants_place: bool) -> Value {
    match wants_place {
        true => found.map_or(Value::Int(-1), Value::count),
        false => Value::Bool(found.is_some()),
    }
}

/// An optional limit: `usize::MAX` if it is missing or null, `None` if it is negative.
pub(super) fn limit(arguments: &[Value], index: usize) -> Option<usize> {
    match given(arguments, index) {
        Some(value) => usize::try_from(whole(value)).ok(),
        None => Some(usize::MAX),
    }
}
