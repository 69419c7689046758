//! Copies values from one Lua state to another.

use mlua::{Lua, Value};

use super::checked::Checked;

/// The depth to which tables may lie in tables; one that contains itself ends here.
const MAX_DEPTH: usize = 64;

/// Why a value stays where it is.
enum Refusal {
    Problem(String),
    Error(mlua::Error),
}

impl From<mlua::Error> for Refusal {
    fn from(error: mlua::Error) -> Refusal {
        Refusal::Error(error)
    }
}

/// Copies a value into `to`. Only nil, booleans, numbers, strings and tables of them can go.
pub(super) fn copy(value: &Value, to: &Lua) -> mlua::Result<Checked<Value>> {
    match copy_within(value, to, MAX_DEPTH) {
        Ok(copied) => Ok(Checked::value(copied)),
        Err(Refusal::Problem(text)) => Ok(Checked::problem(text)),
        Err(Refusal::Error(error)) => Err(error),
    }
}

fn copy_within(value: &Value, to: &Lua, depth: usize) -> Result<Value, Refusal> {
    match value {
        Value::Nil => Ok(Value::Nil),
        Value::Boolean(flag) => Ok(Value::Boolean(*flag)),
        Value::Integer(number) => Ok(Value::Integer(*number)),
        Value::Number(number) => Ok(Value::Number(*number)),
        Value::String(text) => Ok(Value::String(to.create_string(text.as_bytes())?)),
        Value::Table(_) if depth == 0 => {
            Err(Refusal::Problem("cannot transfer a table that is nested too deeply".to_owned()))
        }
        Value::Table(table) => {
            let copied = to.create_table()?;
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair?;
                let key = copy_within(&key, to, depth - 1)?;
                copied.raw_set(key, copy_within(&value, to, depth - 1)?)?;
            }
            Ok(Value::Table(copied))
        }
        other => {
            let kind = other.type_name();
            Err(Refusal::Problem(format!("cannot transfer a {kind} to another thread")))
        }
    }
}
