//! Functions that cast values and check their types.

use pellucid_value::{Kind, Ref, Value, to_number};

use super::function::{ARGUMENTS_MAX, Function, is_array, is_object, wrong_type};
use super::makers::{ListMaker, TextMaker};
use super::value_set::compare;
use crate::Result;
use crate::query_run::QueryRun;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("TO_STRING", 1, 1, |run, arguments| {
        if arguments[0].kind() == Kind::String {
            return Ok(arguments[0].clone());
        }
        let mut made = TextMaker::new(run);
        made.value(arguments[0].view())?;
        made.finish()
    }),
    Function::pure("TO_NUMBER", 1, 1, |_, arguments| {
        Ok(Value::number(to_number(arguments[0].view())))
    }),
    Function::pure("TO_BOOL", 1, 1, |_, arguments| Ok(Value::Bool(arguments[0].is_true()))),
    Function::pure("TO_ARRAY", 1, 1, |run, arguments| array(run, &arguments[0])),
    Function::pure("TO_LIST", 1, 1, |run, arguments| array(run, &arguments[0])),
    Function::pure("IS_NULL", 1, 1, |_, arguments| is(arguments, Kind::Null)),
    Function::pure("IS_BOOL", 1, 1, |_, arguments| is(arguments, Kind::Bool)),
    Function::pure("IS_NUMBER", 1, 1, |_, arguments| is(arguments, Kind::Number)),
    Function::pure("IS_STRING", 1, 1, |_, arguments| is(arguments, Kind::String)),
    Function::pure("IS_ARRAY", 1, 1, |_, arguments| is(arguments, Kind::Array)),
    Function::pure("IS_LIST", 1, 1, |_, arguments| is(arguments, Kind::Array)),
    Function::pure("IS_OBJECT", 1, 1, |_, arguments| is(arguments, Kind::Object)),
    Function::pure("IS_DOCUMENT", 1, 1, |_, arguments| is(arguments, Kind::Object)),
    Function::pure("TYPENAME", 1, 1, |_, arguments| Ok(Value::from(arguments[0].kind().name()))),
    Function::pure("NOT_NULL", 1, ARGUMENTS_MAX, |_, arguments| {
        first(arguments, |value| value.kind() != Kind::Null)
    }),
    Function::pure("FIRST_LIST", 1, ARGUMENTS_MAX, |_, arguments| first(arguments, is_array)),
    Function::pure("FIRST_DOCUMENT", 1, ARGUMENTS_MAX, |_, arguments| first(arguments, is_object)),
    Function::pure("IS_KEY", 1, 1, is_key),
    Function::pure("IN_RANGE", 5, 5, in_range),
    Function::pure("NOOPT", 1, 1, |_, arguments| Ok(arguments[0].clone())),
    Function::impure("NOEVAL", 1, 1, |_, arguments| Ok(arguments[0].clone())),
];

/// The most bytes of a document's key.
const DOCUMENT_KEY_BYTES_MAX: usize = 254;

/// Casts a value to an array: null becomes empty, an object becomes its values, and any other value
/// becomes the only element.
fn array(run: &mut QueryRun, value: &Value) -> Result<Value> {
    let mut elements = ListMaker::new(run);
    match value.kind() {
        Kind::Array => return Ok(value.clone()),
        Kind::Null => {}
        Kind::Object => {
            for (_, member) in value.each_member(true) {
                elements.push(member)?;
            }
        }
        _ => elements.push(value.clone())?,
    }
    elements.finish()
}

fn is(arguments: &[Value], kind: Kind) -> Result<Value> {
    Ok(Value::Bool(arguments[0].kind() == kind))
}

fn first(arguments: &[Value], fits: impl Fn(&Value) -> bool) -> Result<Value> {
    Ok(arguments.iter().find(|value| fits(value)).cloned().unwrap_or_default())
}

fn is_key(_: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    let is_key = |text: &str| is_document_key(text.as_bytes());
    Ok(Value::Bool(arguments[0].as_str().is_some_and(is_key)))
}

/// True if the key of a document is valid.
#[must_use]
pub fn is_document_key(key: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.@()+,=;$!*'%:".contains(byte);
    (1..=DOCUMENT_KEY_BYTES_MAX).contains(&key.len()) && key.iter().all(is_allowed)
}

fn in_range(run: &mut QueryRun, arguments: &[Value]) -> Result<Value> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let (Ref::Bool(with_low), Ref::Bool(with_high)) = (arguments[3].view(), arguments[4].view())
    else {
        return wrong_type(run, "IN_RANGE");
    };
    let low = compare(arguments[0].view(), arguments[1].view(), run)?;
    let high = compare(arguments[0].view(), arguments[2].view(), run)?;
    let above = low == Greater || (low == Equal && with_low);
    let below = high == Less || (high == Equal && with_high);
    Ok(Value::Bool(above && below))
}
