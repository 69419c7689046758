//! Results of functions for the prelude.

use mlua::{IntoLua, IntoLuaMulti, Lua, MultiValue, Value};

/// The result of a function for the prelude: a value, or nothing and the fault.
pub(super) struct Checked<T>(Result<T, String>);

impl<T> Checked<T> {
    pub(super) fn value(value: T) -> Checked<T> {
        Checked(Ok(value))
    }

    /// Goes on with the value, if there is one.
    pub(super) fn and_then<U>(
        self,
        then: impl FnOnce(T) -> mlua::Result<U>,
    ) -> mlua::Result<Checked<U>> {
        match self.0 {
            Ok(value) => then(value).map(Checked::value),
            Err(text) => Ok(Checked::problem(text)),
        }
    }

    pub(super) fn problem(text: String) -> Checked<T> {
        Checked(Err(text))
    }
}

impl<T: IntoLua> IntoLuaMulti for Checked<T> {
    fn into_lua_multi(self, lua: &Lua) -> mlua::Result<MultiValue> {
        match self.0 {
            Ok(value) => Ok(MultiValue::from_iter([value.into_lua(lua)?])),
            Err(text) => Ok(MultiValue::from_iter([Value::Nil, text.into_lua(lua)?])),
        }
    }
}
