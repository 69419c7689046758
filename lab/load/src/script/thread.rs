//! The objects by which scripts see a thread of the run.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mlua::{Lua, Table, Value};
use pellucid_thread::Mutex;

use super::state::internal;
use super::transfer;
use crate::control::ThreadControl;
use pellucid_client::http::Address;

/// The slot for a thread's state while the thread does not run. While it runs, the slot is empty,
/// so that nobody else can use the state.
#[derive(Debug)]
pub(super) struct ThreadSlot {
    lua: Mutex<Option<Lua>>,
    shared: Arc<ThreadContext>,
}

/// The part of a thread that its own state refers to. It does not hold the state, which would then
/// hold itself.
#[derive(Debug)]
struct ThreadContext {
    address: Mutex<Address>,
    control: Arc<ThreadControl>,
}

impl ThreadSlot {
    pub(super) fn new(lua: Lua, address: Address, control: Arc<ThreadControl>) -> ThreadSlot {
        let shared = Arc::new(ThreadContext { address: Mutex::new(address), control });
        ThreadSlot { lua: Mutex::new(Some(lua)), shared }
    }

    /// A handle to the state; `None` while the thread runs.
    pub(super) fn lua(&self) -> Option<Lua> {
        self.lua.lock().clone()
    }

    /// Takes the state out, to run the thread or to drop the state.
    pub(super) fn take(&self) -> Option<Lua> {
        self.lua.lock().take()
    }

    pub(super) fn put_back(&self, lua: Lua) {
        self.lua.lock().replace(lua);
    }

    pub(super) fn address(&self) -> Address {
        self.shared.address.lock().clone()
    }
}

/// The object that `setup` receives, which the script may keep until `done`.
pub(super) fn other_thread(lua: &Lua, slot: &Arc<ThreadSlot>) -> mlua::Result<Value> {
    const RUNNING: &str = "the thread is running: its state is out of reach";
    let reach = shared_functions(lua, &slot.shared)?;
    let (to_get, to_set) = (Arc::clone(slot), Arc::clone(slot));
    let get = move |lua: &Lua, name: String| {
        let Some(other) = to_get.lua() else { return Ok(Err(RUNNING.to_owned())) };
        transfer::copy(&other.globals().raw_get(name)?, lua)
    };
    let set = move |_: &Lua, (name, value): (String, Value)| {
        let Some(other) = to_set.lua() else { return Ok(Err(RUNNING.to_owned())) };
        Ok(match transfer::copy(&value, &other)? {
            Ok(value) => Ok(other.globals().raw_set(name, value)?),
            Err(text) => Err(text),
        })
    };
    reach.set("get", lua.create_function(get)?)?;
    reach.set("set", lua.create_function(set)?)?;
    internal(lua, "new_thread")?.call(reach)
}

/// The object `wrk.thread`: the thread in its own state.
pub(super) fn own_thread(lua: &Lua, slot: &ThreadSlot) -> mlua::Result<Value> {
    let reach = shared_functions(lua, &slot.shared)?;
    let get = |lua: &Lua, name: String| lua.globals().raw_get::<Value>(name);
    let set = |lua: &Lua, (name, value): (String, Value)| lua.globals().raw_set(name, value);
    reach.set("get", lua.create_function(get)?)?;
    reach.set("set", lua.create_function(set)?)?;
    internal(lua, "new_thread")?.call(reach)
}

fn shared_functions(lua: &Lua, shared: &Arc<ThreadContext>) -> mlua::Result<Table> {
    let reach = lua.create_table()?;
    let of = Arc::clone(shared);
    let address = move |_: &Lua, (): ()| Ok(of.address.lock().to_string());
    let of = Arc::clone(shared);
    let set_address = move |_: &Lua, text: String| {
        if let Ok(address) = text.parse() {
            *of.address.lock() = address;
        }
        Ok(())
    };
    let of = Arc::clone(shared);
    let stop = move |_: &Lua, (): ()| {
        of.control.stop.store(true, Ordering::Relaxed);
        Ok(())
    };
    reach.set("address", lua.create_function(address)?)?;
    reach.set("set_address", lua.create_function(set_address)?)?;
    reach.set("stop", lua.create_function(stop)?)?;
    Ok(reach)
}
