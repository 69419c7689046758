//! Copies values from one Lua state to another.

use mlua::{Lua, Value};

/// The largest depth of nested tables; a table that contains itself ends here.
const MAX_DEPTH: usize = 64;

/// Copies a value into the state `to`. Only nil, booleans, numbers, strings and tables of them can
/// be copied; for others, the inner error says why not.
pub(super) fn copy(value: &Value, to: &Lua) -> mlua::Result<Result<Value, String>> {
    copy_within(value, to, MAX_DEPTH)
}

fn copy_within(value: &Value, to: &Lua, depth: usize) -> mlua::Result<Result<Value, String>> {
    Ok(Ok(match value {
        Value::Nil | Value::Boolean(_) | Value::Integer(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::String(to.create_string(text.as_bytes())?),
        Value::Table(_) if depth == 0 => {
            return Ok(Err("cannot transfer a table that is nested too deeply".to_owned()));
        }
        Value::Table(table) => {
            let copied = to.create_table()?;
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair?;
                // An error in the key ends the copy: a table may be its own key and value.
                let key = match copy_within(&key, to, depth - 1)? {
                    Ok(key) => key,
                    Err(text) => return Ok(Err(text)),
                };
                match copy_within(&value, to, depth - 1)? {
                    Ok(value) => copied.raw_set(key, value)?,
                    Err(text) => return Ok(Err(text)),
                }
            }
            Value::Table(copied)
        }
        other => {
            let kind = other.type_name();
            return Ok(Err(format!("cannot transfer a {kind} to another thread")));
        }
    }))
}
