//! The definition of a function, and helpers to check arguments.

use pellucid_value::{Kind, Value};

use crate::query_run::QueryRun;
use crate::{QueryError, Result, number};

/// The most arguments of a variadic function.
pub(super) const ARGUMENTS_MAX: usize = 1000;

pub(super) type Body = fn(&mut QueryRun, &[Value]) -> Result<Value>;

pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) arguments_min: usize,
    pub(crate) arguments_max: usize,
    /// True if it returns the same for the same arguments, has no effects and fails only at limits.
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
/// The warning is that of `$refuse` if given, else of `wrong_type`. It names the function by
/// `$warned_as` if given (an alias warns under the main name), else by `$name`.
macro_rules! typed {
    ($accepts:ident, $($rest:tt)+) => {
        typed!(wrong_type: $accepts, $($rest)+)
    };
    ($refuse:ident: $accepts:ident, $name:literal, $min:expr, $max:expr, $body:expr) => {
        typed!($refuse: $accepts, $name, $min, $max, $body, $name)
    };
    (
        $refuse:ident: $accepts:ident,
        $name:literal, $min:expr, $max:expr, $body:expr, $warned_as:literal
    ) => {
        $crate::functions::function::Function::pure($name, $min, $max, |run, arguments| {
            let body: $crate::functions::function::Body = $body;
            if !$crate::functions::function::$accepts(arguments) {
                return $crate::functions::function::$refuse(run, $warned_as);
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

fn type_message(name: &str) -> String {
    format!("invalid argument type in call to function '{name}()'")
}

/// Makes the error for an argument that has a wrong type, of a function that does not only warn.
pub(super) fn type_error(name: &str) -> QueryError {
    QueryError::new(number::FUNCTION_ARGUMENT_TYPE, type_message(name))
}

/// Returns null, with the warning that an argument has a wrong type.
pub(super) fn wrong_type(run: &mut QueryRun, name: &str) -> Result<Value> {
    run.warn_null(number::FUNCTION_ARGUMENT_TYPE, type_message(name))
}

/// Returns null, with the warning that an argument is no array.
pub(super) fn no_array(run: &mut QueryRun, name: &str) -> Result<Value> {
    run.warn_null(number::ARRAY_EXPECTED, format!("in function '{name}()': array expected"))
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

/// A number from 0 on, cut to a whole one; `None` for other values.
pub(super) fn natural(value: &Value) -> Option<usize> {
    if value.kind() == Kind::Number { usize::try_from(whole(value)).ok() } else { None }
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
