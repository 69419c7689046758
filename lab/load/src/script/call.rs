//! The calls from the event loop into a script, which happen for every request.
//!
//! They use LuaJIT's C interface, because the safe one costs several times the call itself: a
//! hundred thousand times a second, that is a tenth of a core. Three rules keep this sound. A state
//! belongs to one thread at a time. Every function of the script is called protected. Outside of
//! such calls, there are only plain accesses that raise no errors (short of running out of memory,
//! which ends the process).

use std::ffi::c_int;

use mlua::{Lua, ffi};

use super::state;
use pellucid_client::http::CapturedResponse;

/// The largest number of places on Lua's stack that a call needs.
const STACK_PLACES: c_int = 12;

/// The raw stack of a state.
#[derive(Debug)]
struct Stack(*mut ffi::lua_State);

// SAFETY: the pointer moves to another thread only inside `ScriptFunctions`, next to the `Lua` that
// owns the state, and nobody else has that `Lua` while the thread runs (`ThreadSlot` gives it
// away).
unsafe impl Send for Stack {}

/// The functions of a script, ready to be called.
#[derive(Debug)]
pub(super) struct ScriptFunctions {
    stack: Stack,
    /// The reference in the registry of the function that turns errors into text.
    describe: c_int,
    /// Keeps the state alive.
    _lua: Lua,
}

impl ScriptFunctions {
    pub(super) fn new(lua: &Lua) -> mlua::Result<ScriptFunctions> {
        let describe_function = state::internal(lua, "describe")?;
        let (mut stack, mut describe) = (std::ptr::null_mut(), 0);
        // SAFETY: the closure runs protected, with the function as the only value on the stack,
        // and `luaL_ref` takes it from there.
        unsafe {
            lua.exec_raw::<()>(describe_function, |state| {
                stack = state;
                describe = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX);
            })?;
        }
        Ok(ScriptFunctions { stack: Stack(stack), describe, _lua: lua.clone() })
    }

    /// Calls `request` and appends its result to `out`. Returns false if it returned nothing.
    #[inline]
    pub(super) fn request(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        let state = self.stack.0;
        // SAFETY: see `Frame`; the string is copied while it is on the stack, which keeps it alive.
        unsafe {
            let frame = Frame::enter(state, self.describe);
            if !push_global(state, b"request") {
                ffi::lua_settop(state, -2);
                push_default_request(state)?;
            }
            frame.call(0, 1)?;
            let kind = ffi::lua_type(state, -1);
            if kind == ffi::LUA_TNIL {
                return Ok(false);
            }
            if kind != ffi::LUA_TSTRING {
                let kind = type_name(state, kind);
                return Err(format!("request() must return a string, it returned {kind}"));
            }
            let mut length = 0;
            let bytes = ffi::lua_tolstring(state, -1, &raw mut length);
            out.extend_from_slice(std::slice::from_raw_parts(bytes.cast::<u8>(), length));
        }
        Ok(true)
    }

    /// Passes an answer to `response`, if the script still has one.
    #[inline]
    pub(super) fn response(
        &mut self,
        status: u16,
        answer: &CapturedResponse,
    ) -> Result<(), String> {
        let state = self.stack.0;
        // SAFETY: see `Frame`; the table is on the stack while its fields are set.
        unsafe {
            let frame = Frame::enter(state, self.describe);
            if !push_global(state, b"response") {
                return Ok(());
            }
            ffi::lua_pushinteger(state, ffi::lua_Integer::from(status));
            ffi::lua_createtable(state, 0, EXPECTED_HEADERS);
            for (name, value) in header_lines(&answer.head) {
                push_bytes(state, name);
                push_bytes(state, value);
                ffi::lua_rawset(state, -3);
            }
            push_bytes(state, &answer.body);
            frame.call(3, 0)
        }
    }

    /// Calls `delay` for the number of milliseconds to wait.
    #[inline]
    pub(super) fn delay_ms(&mut self) -> Result<f64, String> {
        let state = self.stack.0;
        // SAFETY: see `Frame`.
        unsafe {
            let frame = Frame::enter(state, self.describe);
            if !push_global(state, b"delay") {
                return Ok(0.0);
            }
            frame.call(0, 1)?;
            Ok(ffi::lua_tonumber(state, -1))
        }
    }
}

/// The number of headers for which a table has room at first; it grows for more.
const EXPECTED_HEADERS: c_int = 8;

/// A scope on Lua's stack: at its end, the stack has the height that it had before.
struct Frame {
    state: *mut ffi::lua_State,
    top: c_int,
}

impl Frame {
    /// Puts the error handler on the stack.
    ///
    /// # Safety
    /// `state` must be alive and must not be used by anyone else until the frame ends, and
    /// `describe` must be its reference to a function.
    unsafe fn enter(state: *mut ffi::lua_State, describe: c_int) -> Frame {
        // SAFETY: as promised by the caller; these calls raise no errors.
        unsafe {
            let top = ffi::lua_gettop(state);
            let room = ffi::lua_checkstack(state, STACK_PLACES);
            assert_ne!(room, 0, "Lua's stack has room for a call from outside");
            ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, describe);
            Frame { state, top }
        }
    }

    /// Calls the function that lies below its arguments, protected.
    ///
    /// # Safety
    /// The function and its arguments must be on the stack, above the error handler.
    unsafe fn call(&self, arguments: c_int, results: c_int) -> Result<(), String> {
        // SAFETY: as promised by the caller; the handler is the first value of the frame.
        unsafe {
            if ffi::lua_pcall(self.state, arguments, results, self.top + 1) == 0 {
                return Ok(());
            }
            let mut length = 0;
            let text = ffi::lua_tolstring(self.state, -1, &raw mut length);
            if text.is_null() {
                return Err("an error that has no text".to_owned());
            }
            let bytes = std::slice::from_raw_parts(text.cast::<u8>(), length);
            Err(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: the state lives as long as the frame, and its stack is at least this high.
        unsafe { ffi::lua_settop(self.state, self.top) };
    }
}

/// Pushes a global without looking at metatables. Returns true if it is a function.
///
/// # Safety
/// The state must be alive and have room on its stack.
#[inline]
unsafe fn push_global(state: *mut ffi::lua_State, name: &[u8]) -> bool {
    // SAFETY: as promised by the caller.
    unsafe {
        push_bytes(state, name);
        ffi::lua_rawget_(state, ffi::LUA_GLOBALSINDEX);
        ffi::lua_type(state, -1) == ffi::LUA_TFUNCTION
    }
}

/// Pushes `wrk.request`, which exists unless the script has removed it.
///
/// # Safety
/// The state must be alive and have room on its stack.
#[cold]
unsafe fn push_default_request(state: *mut ffi::lua_State) -> Result<(), String> {
    // SAFETY: as promised by the caller; only a table is looked into.
    unsafe {
        push_global(state, b"wrk");
        if ffi::lua_type(state, -1) == ffi::LUA_TTABLE {
            push_bytes(state, b"request");
            ffi::lua_rawget_(state, -2);
            ffi::lua_remove(state, -2);
            if ffi::lua_type(state, -1) == ffi::LUA_TFUNCTION {
                return Ok(());
            }
        }
    }
    Err("neither request nor wrk.request is a function".to_owned())
}

/// # Safety
/// The state must be alive and have room on its stack.
#[inline]
unsafe fn push_bytes(state: *mut ffi::lua_State, bytes: &[u8]) {
    // SAFETY: as promised by the caller; Lua copies the bytes.
    unsafe { ffi::lua_pushlstring_(state, bytes.as_ptr().cast(), bytes.len()) };
}

/// # Safety
/// The state must be alive.
unsafe fn type_name(state: *mut ffi::lua_State, kind: c_int) -> String {
    // SAFETY: as promised by the caller; the name is a static C string.
    let name = unsafe { std::ffi::CStr::from_ptr(ffi::lua_typename(state, kind)) };
    name.to_string_lossy().into_owned()
}

/// The names and values of the header lines after the status line; lines without a colon are left
/// out.
fn header_lines(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    head.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_lines_are_split() {
        let head = b"HTTP/1.1 200 OK: fine\r\nA: 1\r\nB:2:3 \r\nno colon\r\n\r\n";
        let lines: Vec<_> = header_lines(head).collect();
        assert_eq!(lines, [(&b"A"[..], &b"1"[..]), (b"B", b"2:3")]);
    }
}
