//! One number out of an array of them.

use pellucid_value::{Kind, Number, Value, compare, to_number};

use super::{Function, is_array, wrong};
use crate::QueryError;
use crate::run::Run;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("SUM", 1, 1, sum),
    Function::pure("PRODUCT", 1, 1, product),
    Function::pure("MIN", 1, 1, |run, arguments| extreme(run, arguments, "MIN", true)),
    Function::pure("MAX", 1, 1, |run, arguments| extreme(run, arguments, "MAX", false)),
    Function::pure("AVG", 1, 1, average),
    Function::pure("AVERAGE", 1, 1, average),
    Function::pure("MEDIAN", 1, 1, median),
    Function::pure("PERCENTILE", 2, 3, percentile),
    Function::pure("VARIANCE", 1, 1, |run, arguments| variance(run, arguments, 0, false)),
    Function::pure("VARIANCE_POPULATION", 1, 1, |run, arguments| {
        variance(run, arguments, 0, false)
    }),
    Function::pure("VARIANCE_SAMPLE", 1, 1, |run, arguments| variance(run, arguments, 1, false)),
    Function::pure("STDDEV", 1, 1, |run, arguments| variance(run, arguments, 0, true)),
    Function::pure("STDDEV_POPULATION", 1, 1, |run, arguments| variance(run, arguments, 0, true)),
    Function::pure("STDDEV_SAMPLE", 1, 1, |run, arguments| variance(run, arguments, 1, true)),
];

/// The numbers of an array but for nulls; nothing if there is anything else.
fn numbers(list: &Value) -> Option<Vec<Number>> {
    if !is_array(list) {
        return None;
    }
    let mut numbers = Vec::new();
    for element in list.elements() {
        match element.kind() {
            Kind::Null => {}
            Kind::Number => numbers.push(to_number(element.view())),
            _ => return None,
        }
    }
    Some(numbers)
}

fn doubles(list: &Value) -> Option<Vec<f64>> {
    numbers(list).map(|numbers| numbers.into_iter().map(Number::to_double).collect())
}

fn sum(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let Some(numbers) = numbers(&arguments[0]) else { return wrong(run, "SUM") };
    let whole = numbers.iter().try_fold(0_i128, |sum, number| match number {
        Number::Int(value) => Some(sum + i128::from(*value)),
        Number::Uint(value) => Some(sum + i128::from(*value)),
        Number::Double(_) => None,
    });
    Ok(match whole {
        Some(sum) => Value::number(Number::from_wide(sum)),
        None => Value::from(numbers.iter().map(|number| number.to_double()).sum::<f64>()),
    })
}

fn product(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    match doubles(&arguments[0]) {
        Some(numbers) => Ok(Value::from(numbers.iter().product::<f64>())),
        None => wrong(run, "PRODUCT"),
    }
}

fn extreme(
    run: &mut Run,
    arguments: &[Value],
    name: &str,
    is_least: bool,
) -> Result<Value, QueryError> {
    if !is_array(&arguments[0]) {
        return wrong(run, name);
    }
    let elements = arguments[0].elements().into_iter();
    let values = elements.filter(|element| element.kind() != Kind::Null);
    let by_order = |left: &Value, right: &Value| compare(left.view(), right.view());
    let found = if is_least { values.min_by(by_order) } else { values.max_by(by_order) };
    Ok(found.unwrap_or_default())
}

fn average(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    match doubles(&arguments[0]) {
        Some(numbers) if numbers.is_empty() => Ok(Value::Null),
        Some(numbers) => Ok(Value::from(numbers.iter().sum::<f64>() / numbers.len() as f64)),
        None => wrong(run, "AVERAGE"),
    }
}

fn median(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let Some(mut numbers) = doubles(&arguments[0]) else { return wrong(run, "MEDIAN") };
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    Ok(match numbers.len() {
        0 => Value::Null,
        odd if odd % 2 == 1 => Value::from(numbers[middle]),
        _ => Value::from(f64::midpoint(numbers[middle - 1], numbers[middle])),
    })
}

fn percentile(run: &mut Run, arguments: &[Value]) -> Result<Value, QueryError> {
    let Some(mut numbers) = doubles(&arguments[0]) else { return wrong(run, "PERCENTILE") };
    let share = to_number(arguments[1].view()).to_double() / 100.0;
    if !(share > 0.0 && share <= 1.0) {
        return wrong(run, "PERCENTILE");
    }
    numbers.sort_by(f64::total_cmp);
    let Some(last) = numbers.last().copied() else { return Ok(Value::Null) };
    let is_interpolated =
        arguments.get(2).and_then(Value::as_str).is_some_and(|method| method == "interpolation");
    if !is_interpolated {
        let rank = (share * numbers.len() as f64).ceil().max(1.0) as usize;
        return Ok(Value::from(numbers[rank - 1]));
    }
    let place = share * (numbers.len() as f64 + 1.0);
    if place < 1.0 {
        return Ok(Value::from(numbers[0]));
    }
    let rank = place.floor() as usize;
    if rank >= numbers.len() {
        return Ok(Value::from(last));
    }
    let (below, above) = (numbers[rank - 1], numbers[rank]);
    Ok(Value::from(below + place.fract() * (above - below)))
}

/// The variance, or its root; `missing` is what the number of values is lessened by.
fn variance(
    run: &mut Run,
    arguments: &[Value],
    missing: usize,
    is_root: bool,
) -> Result<Value, QueryError> {
    let Some(numbers) = doubles(&arguments[0]) else { return wrong(run, "VARIANCE") };
    if numbers.len() <= missing {
        return Ok(Value::Null);
    }
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let variance = squares / (numbers.len() - missing) as f64;
    Ok(Value::from(if is_root { variance.sqrt() } else { variance }))
}
