//! A Lua state with the table `wrk` and the script in it.
//!
//! All objects that a script sees are made in Lua, by the prelude, around plain functions. None is
//! a userdata type of the binding: its finalizers leave the upper half of the register in which
//! they return undefined, as the calling convention allows, but LuaJIT reads all of it and crashes
//! when such an object is collected (seen with mlua 0.12.2 on x86-64).

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};

use super::address;
use crate::options::LoadOptions;
use pellucid_client::http::Address;

const PRELUDE: &str = include_str!("prelude.lua");
/// The name in the registry of the table with the prelude's functions that scripts do not see.
const INTERNALS: &str = "pellucid.internals";

/// A script file that was read: its path and its code.
pub(super) struct ScriptSource<'a> {
    pub(super) path: &'a Path,
    pub(super) code: &'a [u8],
}

/// Creates a state and runs the script in it.
pub(super) fn create(options: &LoadOptions, file: &ScriptSource<'_>) -> mlua::Result<Lua> {
    let lua_options = LuaOptions::new().catch_rust_panics(false);
    // SAFETY: scripts may use all libraries, also those that can break the process (`ffi`,
    // `debug`, modules in C), because those who give a script run it as their own program, just
    // as with wrk.
    let lua = unsafe { Lua::unsafe_new_with(StdLib::ALL, lua_options) };
    let native = lua.create_table()?;
    native.set("lookup", lua.create_function(address::lookup)?)?;
    native.set("connect", lua.create_function(address::connect)?)?;
    native.set("time_us", lua.create_function(time_us)?)?;
    let (wrk, internals): (Table, Table) = lua.load(PRELUDE).set_name("=wrk").call(native)?;
    lua.set_named_registry_value(INTERNALS, internals)?;
    let target = &options.target;
    wrk.set("scheme", if target.is_tls() { "https" } else { "http" })?;
    wrk.set("host", target.host())?;
    wrk.set("port", target.port().map(|port| port.to_string()))?;
    wrk.set("path", target.path())?;
    let headers: Table = wrk.get("headers")?;
    for header in &options.headers {
        // The prelude adds a `Host` unless there is one of exactly this name.
        let is_host = header.name.eq_ignore_ascii_case("host");
        let name = if is_host { "Host" } else { &header.name };
        headers.set(name, header.value.as_str())?;
    }
    lua.globals().set("wrk", &wrk)?;
    let loaded: Table = lua.globals().get::<Table>("package")?.get("loaded")?;
    loaded.set("wrk", wrk)?;
    let name = format!("@{}", file.path.display());
    lua.load(file.code).set_name(name).into_function()?.call::<()>(())?;
    Ok(lua)
}

/// A function of the prelude that scripts do not see.
pub(super) fn internal(lua: &Lua, name: &str) -> mlua::Result<Function> {
    lua.named_registry_value::<Table>(INTERNALS)?.get(name)
}

/// Sets `wrk.addrs` to the address that was found reachable.
pub(super) fn set_addresses(lua: &Lua, address: &Address) -> mlua::Result<()> {
    let object: Value = internal(lua, "new_address")?.call(address.to_string())?;
    let addresses = lua.create_sequence_from([object])?;
    lua.globals().get::<Table>("wrk")?.set("addrs", addresses)
}

fn time_us(_: &Lua, (): ()) -> mlua::Result<f64> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(since_epoch.as_micros() as f64)
}
