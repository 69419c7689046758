//! Arithmetic beyond the operators.

use pellucid_value::{Number, Ref, Value, to_number};

use super::function::{Function, wrong_type};
use crate::Result;
use crate::query_run::QueryRun;

macro_rules! of_one {
    ($name:literal, $compute:expr) => {
        Function::pure($name, 1, 1, |_, arguments| {
            let compute: fn(f64) -> f64 = $compute;
            Ok(Value::from(compute(to_number(arguments[0].view()).to_double())))
        })
    };
}

/// As `of_one`, for a function that rounds. Whole numbers are returned unchanged, because a large
/// one is not exact as a double.
macro_rules! to_whole {
    ($name:literal, $compute:expr) => {
        Function::pure($name, 1, 1, |_, arguments| {
            let compute: fn(f64) -> f64 = $compute;
            Ok(match to_number(arguments[0].view()) {
                Number::Double(value) if value.fract() != 0.0 => Value::from(compute(value)),
                whole => Value::number(whole),
            })
        })
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    to_whole!("CEIL", f64::ceil),
    to_whole!("FLOOR", f64::floor),
    // Halves are rounded up, also below zero.
    to_whole!("ROUND", |value| (value + 0.5).floor()),
    of_one!("SQRT", f64::sqrt),
    of_one!("EXP", f64::exp),
    of_one!("EXP2", f64::exp2),
    of_one!("LOG", f64::ln),
    of_one!("LOG2", f64::log2),
    of_one!("LOG10", f64::log10),
    of_one!("SIN", f64::sin),
    of_one!("COS", f64::cos),
    of_one!("TAN", f64::tan),
    of_one!("ASIN", f64::asin),
    of_one!("ACOS", f64::acos),
    of_one!("ATAN", f64::atan),
    of_one!("DEGREES", f64::to_degrees),
    of_one!("RADIANS", f64::to_radians),
    Function::pure("ABS", 1, 1, abs),
    Function::pure("ATAN2", 2, 2, |_, arguments| {
        Ok(Value::from(double(&arguments[0]).atan2(double(&arguments[1]))))
    }),
    Function::pure("POW", 2, 2, pow),
    Function::pure("PI", 0, 0, |_, _| Ok(Value::from(std::f64::consts::PI))),
    Function::impure("RAND", 0, 0, random),
    Function::impure("RANDOM", 0, 0, random),
    Function::pure("BIT_AND", 1, 2, |run, arguments| bits(run, arguments, "BIT_AND", |l, r| l & r)),
    Function::pure("BIT_OR", 1, 2, |run, arguments| bits(run, arguments, "BIT_OR", |l, r| l | r)),
    Function::pure("BIT_XOR", 1, 2, |run, arguments| bits(run, arguments, "BIT_XOR", |l, r| l ^ r)),
    Function::pure("BIT_POPCOUNT", 1, 1, |run, arguments| match bit_operand(arguments[0].view()) {
        Some(value) => Ok(Value::Int(i64::from(value.count_ones()))),
        None => wrong_type(run, "BIT_POPCOUNT"),
    }),
];

fn double(value: &Value) -> f64 {
    to_number(value.view()).to_double()
}

fn abs(_: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    Ok(match to_number(arguments[0].view()) {
        Number::Int(value) => Value::number(Number::Uint(value.unsigned_abs())),
        Number::Uint(value) => Value::number(Number::Uint(value)),
        Number::Double(value) => Value::from(value.abs()),
    })
}

fn pow(_: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    Ok(Value::from(double(&arguments[0]).powf(double(&arguments[1]))))
}

fn random(run: &mut QueryRun, _: &[Value]) -> Result<Value> {
    // A double has 53 significant bits.
    Ok(Value::from((run.random() >> 11) as f64 / (1_u64 << 53) as f64))
}

/// The operand of a bit operation: a number of 32 bits, without its fraction; `None` for other
/// values.
fn bit_operand(value: Ref<'_>) -> Option<u32> {
    match value {
        Ref::Number(number) if number.to_double() >= 0.0 => u32::try_from(number.to_int()).ok(),
        _ => None,
    }
}

fn bits(
    run: &mut QueryRun,
    arguments: &[Value],
    name: &str,
    both: fn(u32, u32) -> u32,
) -> Result<Value> {
    let mut total: Option<u32> = None;
    let mut add = |operand: Ref<'_>| {
        let value = bit_operand(operand);
        if let Some(value) = value {
            total = Some(total.map_or(value, |total| both(total, value)));
        }
        value.is_some()
    };
    let are_numbers = match arguments {
        [list] => {
            let Some(elements) = list.view().as_array() else { return wrong_type(run, name) };
            let mut are_numbers = true;
            for element in elements.iter() {
                run.tick()?;
                are_numbers &= matches!(element, Ref::Null) || add(element);
            }
            are_numbers
        }
        operands => operands.iter().all(|operand| add(operand.view())),
    };
    if !are_numbers {
        return wrong_type(run, name);
    }
    Ok(total.map_or(Value::Null, |total| Value::Int(i64::from(total))))
}
