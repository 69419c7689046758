//! Functions that compute one number from an array of numbers.

use std::cmp::Ordering;

use pellucid_value::{Number, Ref, Value};

use super::function::{Function, elements_of, typed, wrong_type};
use super::makers::room_for;
use super::value_set::{compare, sort_numbers};
use crate::Result;
use crate::query_run::QueryRun;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("SUM", 1, 1, sum),
    Function::pure("PRODUCT", 1, 1, product),
    typed!(first_is_array, "MIN", 1, 1, |run, arguments| extreme(run, arguments, true)),
    typed!(first_is_array, "MAX", 1, 1, |run, arguments| extreme(run, arguments, false)),
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

/// Calls `add` with the numbers of an array, without nulls. Returns false if there are other
/// values.
fn numbers(run: &mut QueryRun, list: &Value, mut add: impl FnMut(Number)) -> Result<bool> {
    let Some(elements) = list.view().as_array() else { return Ok(false) };
    for element in elements.iter() {
        run.tick()?;
        match element {
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
        return wrong_type(run, "SUM");
    }
    Ok(whole.map_or(Value::from(sum), |whole| Value::number(Number::from_wide(whole))))
}

fn product(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    match doubles(run, &arguments[0])? {
        Some(numbers) => Ok(Value::from(numbers.iter().product::<f64>())),
        None => wrong_type(run, "PRODUCT"),
    }
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
        None => wrong_type(run, "AVERAGE"),
    }
}

fn median(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let Some(mut numbers) = doubles(run, &arguments[0])? else { return wrong_type(run, "MEDIAN") };
    sort_numbers(&mut numbers, run)?;
    let middle = numbers.len() / 2;
    Ok(match numbers.len() {
        0 => Value::Null,
        odd if odd % 2 == 1 => Value::from(numbers[middle]),
        _ => Value::from(f64::midpoint(numbers[middle - 1], numbers[middle])),
    })
}

fn percentile(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let Some(mut numbers) = doubles(run, &arguments[0])? else {
        return wrong_type(run, "PERCENTILE");
    };
    let percent = match arguments[1].view() {
        Ref::Number(number) => number.to_double(),
        _ => f64::NAN,
    };
    let is_interpolated = match arguments.get(2).map(Value::as_str) {
        None | Some(Some("rank")) => false,
        Some(Some("interpolation")) => true,
        _ => return wrong_type(run, "PERCENTILE"),
    };
    if !(percent > 0.0 && percent <= 100.0) {
        return wrong_type(run, "PERCENTILE");
    }
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
        return Ok(Value::Null);
    }
    let (below, above) = (numbers[rank - 1], numbers[rank]);
    Ok(Value::from(below + place.fract() * (above - below)))
}

/// The variance, or its square root. The divisor is the number of values minus `missing`.
fn variance(
    run: &mut QueryRun,
    arguments: &[Value],
    missing: usize,
    is_root: bool,
) -> Result<Value> {
    let Some(numbers) = doubles(run, &arguments[0])? else { return wrong_type(run, "VARIANCE") };
    if numbers.len() <= missing {
        return Ok(Value::Null);
    }
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let variance = squares / (numbers.len() - missing) as f64;
    Ok(Value::from(if is_root { variance.sqrt() } else { variance }))
}
