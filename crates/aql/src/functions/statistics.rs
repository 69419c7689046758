//! Functions that compute one number from an array of numbers.

use std::cmp::Ordering;

use pellucid_value::{Number, Ref, Value};

use super::function::{Function, elements_of, no_array, typed, wrong_type};
use super::makers::room_for;
use super::value_set::{compare, sort_numbers};
use crate::query_run::QueryRun;
use crate::{Result, number};

/// A function of an array, which is its only argument. `$warned_as` is as in `typed`.
macro_rules! of_array {
    ($name:literal, $body:expr) => {
        of_array!($name, $body, $name)
    };
    ($name:literal, $body:expr, $warned_as:literal) => {
        typed!(no_array: first_is_array, $name, 1, 1, $body, $warned_as)
    };
}

/// A function with the body `variance`.
macro_rules! variance_of {
    ($name:literal, $missing:literal, $is_root:literal, $warned_as:literal) => {
        of_array!(
            $name,
            |run, arguments| variance(run, arguments, $missing, $is_root, $warned_as),
            $warned_as
        )
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    of_array!("SUM", sum),
    of_array!("PRODUCT", product),
    of_array!("MIN", |run, arguments| extreme(run, arguments, true)),
    of_array!("MAX", |run, arguments| extreme(run, arguments, false)),
    of_array!("AVG", average, "AVERAGE"),
    of_array!("AVERAGE", average),
    of_array!("MEDIAN", median),
    typed!(no_array: first_is_array, "PERCENTILE", 2, 3, percentile),
    variance_of!("VARIANCE", 0, false, "VARIANCE_POPULATION"),
    variance_of!("VARIANCE_POPULATION", 0, false, "VARIANCE_POPULATION"),
    variance_of!("VARIANCE_SAMPLE", 1, false, "VARIANCE_SAMPLE"),
    variance_of!("STDDEV", 0, true, "STDDEV_POPULATION"),
    variance_of!("STDDEV_POPULATION", 0, true, "STDDEV_POPULATION"),
    variance_of!("STDDEV_SAMPLE", 1, true, "STDDEV_SAMPLE"),
];

/// Returns null, with the warning that an element of an array is no number.
fn no_number(run: &mut QueryRun, name: &str) -> Result<Value> {
    let message = format!("in function '{name}()': invalid arithmetic value");
    run.warn_null(number::INVALID_ARITHMETIC_VALUE, message)
}

/// Calls `add` with the numbers of an array, without nulls. Returns false if there are other
/// values.
fn numbers(run: &mut QueryRun, list: &Value, mut add: impl FnMut(Number)) -> Result<bool> {
    for element in list.each() {
        run.tick()?;
        match element.view() {
            Ref::Null => {}
            Ref::Number(number) => add(number),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// The numbers of an array, without nulls; `None` if there are other values.
fn doubles(run: &mut QueryRun, list: &Value) -> Result<Option<Vec<f64>>> {
    let mut doubles = room_for(run, elements_of(list))?;
    let are_numbers = numbers(run, list, |number| doubles.push(number.to_double()))?;
    Ok(are_numbers.then_some(doubles))
}

fn sum(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let (mut whole, mut sum) = (Some(0_i128), 0.0);
    let are_numbers = numbers(run, &arguments[0], |number| {
        sum += number.to_double();
        whole = whole.and_then(|whole| whole.checked_add(number.wide()?));
    })?;
    if !are_numbers {
        return Ok(Value::Null);
    }
    Ok(whole.map_or(Value::from(sum), |whole| Value::number(Number::from_wide(whole))))
}

fn product(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let numbers = doubles(run, &arguments[0])?;
    Ok(numbers.map_or(Value::Null, |numbers| Value::from(numbers.iter().product::<f64>())))
}

fn extreme(run: &mut QueryRun, arguments: &[Value], is_least: bool) -> Result<Value> {
    // Among equal values, the first counts as the least and the last as the greatest.
    let mut found = Value::Null;
    for element in arguments[0].each() {
        run.tick()?;
        let is_better = match (element.view(), found.view()) {
            (Ref::Null, _) => false,
            (_, Ref::Null) => true,
            (own, best) => match compare(own, best, run)? {
                Ordering::Less => is_least,
                Ordering::Equal | Ordering::Greater => !is_least,
            },
        };
        if is_better {
            found = element;
        }
    }
    Ok(found)
}

fn average(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    match doubles(run, &arguments[0])? {
        Some(numbers) if numbers.is_empty() => Ok(Value::Null),
        Some(numbers) => Ok(Value::from(numbers.iter().sum::<f64>() / numbers.len() as f64)),
        None => no_array(run, "AVERAGE"),
    }
}

fn median(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let Some(mut numbers) = doubles(run, &arguments[0])? else { return no_number(run, "MEDIAN") };
    sort_numbers(&mut numbers, run)?;
    let middle = numbers.len() / 2;
    Ok(match numbers.len() {
        0 => Value::Null,
        odd if odd % 2 == 1 => Value::from(numbers[middle]),
        _ => Value::from(f64::midpoint(numbers[middle - 1], numbers[middle])),
    })
}

fn percentile(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let percent = match arguments[1].view() {
        Ref::Number(number) => number.to_double(),
        _ => f64::NAN,
    };
    let is_interpolated = match arguments.get(2).map(Value::as_str) {
        None | Some(Some("rank")) => false,
        Some(Some("interpolation")) => true,
        _ => return wrong_type(run, "PERCENTILE"),
    };
    if !(0.0..=100.0).contains(&percent) {
        return wrong_type(run, "PERCENTILE");
    }
    let Some(mut numbers) = doubles(run, &arguments[0])? else {
        return no_number(run, "PERCENTILE");
    };
    sort_numbers(&mut numbers, run)?;
    let Some(last) = numbers.last().copied() else { return Ok(Value::Null) };
    // The products are divided last, because a hundredth is not exact.
    let count = numbers.len() as f64;
    if !is_interpolated {
        let rank = (percent * count / 100.0).ceil().max(1.0) as usize;
        return Ok(Value::from(numbers[rank - 1]));
    }
    let place = percent * (count + 1.0) / 100.0;
    let rank = place.floor() as usize;
    if numbers.len() == 1 || rank >= numbers.len() {
        return Ok(Value::from(last));
    }
    if rank == 0 {
        return Ok(Value::from(numbers[0]));
    }
    let (below, above) = (numbers[rank - 1], numbers[rank]);
    Ok(Value::from(below + place.fract() * (above - below)))
}

/// The variance, or its square root. The divisor is the number of values minus `missing`. A warning
/// has the function's `name`.
fn variance(
    run: &mut QueryRun,
    arguments: &[Value],
    missing: usize,
    is_root: bool,
    name: &str,
) -> Result<Value> {
    let Some(numbers) = doubles(run, &arguments[0])? else { return no_number(run, name) };
    if numbers.len() <= missing {
        return Ok(Value::Null);
    }
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let variance = squares / (numbers.len() - missing) as f64;
    Ok(Value::from(if is_root { variance.sqrt() } else { variance }))
}
