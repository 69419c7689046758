//! Functions with effects beyond values: look-up of documents, sleep, and errors.

use std::time::Duration;

use pellucid_value::{Kind, Value, beginning, to_number};

use super::function::{Function, flag, is_array, type_error, wrong_type};
use super::makers::ListMaker;
use crate::query_run::QueryRun;
use crate::source::readable;
use crate::{QueryError, Result, number};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::impure("DOCUMENT", 1, 2, document),
    Function::impure("COLLECTION_COUNT", 1, 1, collection_count),
    Function::impure("SLEEP", 1, 1, sleep),
    Function::impure("FAIL", 0, 1, fail),
    Function::impure("ASSERT", 2, 2, assert),
    Function::impure("WARN", 2, 2, warn),
    Function::impure("VERSION", 0, 0, |run, _| Ok(run.source.reported_version().into())),
];

/// The most bytes of a text of the query in a message.
const SHOWN_BYTES_MAX: usize = 4096;

/// The beginning of a text that is shown in a message.
fn shown(text: &str) -> &str {
    beginning(text, SHOWN_BYTES_MAX)
}

/// The interval at which a sleeping query checks whether it has to end.
const SLEEP_STEP: Duration = Duration::from_millis(20);

/// `DOCUMENT(id)`, `DOCUMENT([id])`, `DOCUMENT(collection, key)`, `DOCUMENT(collection, [key])`.
fn document(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let (collection, keys) = match arguments {
        [collection, keys] => match collection.as_str() {
            Some(collection) => (Some(collection), keys),
            None => return Ok(Value::Null),
        },
        _ => (None, &arguments[0]),
    };
    if !is_array(keys) {
        return by_id(run, collection, keys);
    }
    let mut documents = ListMaker::new(run);
    for key in keys.each() {
        let found = by_id(documents.run, collection, &key)?;
        if found != Value::Null {
            documents.run.memory.take(found.own_bytes())?;
            documents.push(found)?;
        }
    }
    documents.finish()
}

fn by_id(run: &mut QueryRun, collection: Option<&str>, id: &Value) -> Result<Value> {
    run.tick()?;
    let id = if id.kind() == Kind::Object { id.attribute("_id") } else { id.clone() };
    let Some(text) = id.as_str() else { return Ok(Value::Null) };
    let (name, key) = match (text.split_once('/'), collection) {
        (Some((name, key)), None) => (name, key),
        (Some((name, key)), Some(collection)) if name == collection => (name, key),
        (None, Some(collection)) => (collection, text),
        _ => return Ok(Value::Null),
    };
    let Some(collection) = readable(&*run.source, name)? else {
        let message = format!("collection or view not found: {}", shown(name));
        return run.warn_null(number::COLLECTION_NOT_FOUND, message);
    };
    run.stats.document_lookups += 1;
    Ok(run.source.document(collection.id, key)?.unwrap_or_default())
}

fn collection_count(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let name = arguments[0].as_str().ok_or_else(|| type_error("COLLECTION_COUNT"))?;
    let Some(collection) = readable(&*run.source, name)? else {
        let message = format!("collection or view not found: {}", shown(name));
        return Err(QueryError::new(number::COLLECTION_NOT_FOUND, message));
    };
    let count = run.source.count(collection.id)?;
    Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn sleep(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let seconds = to_number(arguments[0].view()).to_double();
    let Ok(whole) = Duration::try_from_secs_f64(seconds) else { return wrong_type(run, "SLEEP") };
    let is_long = whole >= SLEEP_STEP;
    if is_long {
        run.source.rest(true);
    }
    let slept = sleep_for(run, whole);
    if is_long {
        run.source.rest(false);
    }
    slept.map(|()| Value::Null)
}

fn sleep_for(run: &QueryRun, whole: Duration) -> Result<()> {
    let stopwatch = run.timing.stopwatch();
    loop {
        run.check()?;
        let passed = Duration::from_nanos(stopwatch.elapsed_ns());
        match whole.checked_sub(passed) {
            None | Some(Duration::ZERO) => return Ok(()),
            Some(left) => std::thread::sleep(left.min(SLEEP_STEP)),
        }
    }
}

fn fail(_: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let message = arguments.first().and_then(Value::as_str).unwrap_or_default();
    Err(QueryError::new(number::FAIL_CALLED, format!("FAIL({}) called", shown(message))))
}

fn assert(_: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    if flag(arguments, 0) {
        return Ok(Value::Bool(true));
    }
    let message = arguments[1].as_str().unwrap_or_default();
    Err(QueryError::new(USER_ASSERT, shown(message)))
}

/// The error number of a failed `ASSERT`.
const USER_ASSERT: u16 = 1593;
/// The warning number of `WARN`.
const USER_WARN: u16 = 1594;

fn warn(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    if flag(arguments, 0) {
        return Ok(Value::Bool(true));
    }
    run.warn(USER_WARN, shown(arguments[1].as_str().unwrap_or_default()))?;
    Ok(Value::Bool(false))
}
