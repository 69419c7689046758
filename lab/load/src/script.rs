//! Scripts of wrk and wrk2, in an embedded LuaJIT.
//!
//! The script file runs once in its own Lua state for `setup` and `done`, and once in the state of
//! every thread for `init`, `request`, `response` and `delay`, as in wrk. The states of the threads
//! go to their threads for the run and come back afterwards, so that `done` can read what they have
//! counted.
//!
//! Deliberate differences from wrk: an error ends the run with its file and line, instead of being
//! printed and ignored; a `request` that returns nothing ends its thread, instead of leaving a
//! connection without a request; and with a rate `delay` is not called, as in wrk2, because the
//! rate sets the times of the sends. As in wrk, `math.random` begins with the same seed in every
//! thread.

mod address;
mod call;
mod count;
mod state;
mod statistics;
mod thread;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use mlua::{Function, Lua, Table};

use crate::control::ThreadControl;
use crate::error::LoadError;
use crate::error_counts::ErrorCounts;
use crate::histograms::in_microseconds;
use crate::options::{LoadOptions, ScriptOptions};
use call::ScriptFunctions;
use pellucid_client::http::{Address, CapturedResponse};
use state::ScriptSource;
use thread::ThreadSlot;

/// The Lua state for `setup` and `done`, with the slots to which the states of the threads return.
#[derive(Debug)]
pub(crate) struct Script {
    lua: Lua,
    slots: Vec<Arc<ThreadSlot>>,
}

impl Drop for Script {
    /// Drops the states of the threads before the state that has handles to them: otherwise they
    /// would end within its garbage collection.
    fn drop(&mut self) {
        self.slots.iter().for_each(|slot| drop(slot.take()));
    }
}

/// The Lua state of one thread.
#[derive(Debug)]
pub(crate) struct ThreadScript {
    lua: Lua,
    calls: ScriptFunctions,
    address: Address,
    requests_per_send: usize,
    makes_requests: bool,
    wants_responses: bool,
    has_delay: bool,
    has_ended: bool,
}

/// A script after the run.
#[derive(Debug)]
pub(crate) struct FinishedScript(Script);

/// The figures that `done` receives.
pub(crate) struct Summary<'a> {
    pub(crate) duration: Duration,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: &'a ErrorCounts,
    pub(crate) response_time: &'a Histogram<u64>,
    pub(crate) request_rates: &'a Histogram<u64>,
}

impl Script {
    /// Loads the script of a run, if it has one, and calls `setup` and `init` for every thread.
    pub(crate) fn load(
        options: &LoadOptions,
        address: &Address,
        controls: &[Arc<ThreadControl>],
    ) -> Result<Option<(Script, Vec<ThreadScript>)>, LoadError> {
        let Some(script) = &options.script else { return Ok(None) };
        let code = std::fs::read(&script.path).map_err(|reason| {
            LoadError::Script(format!("cannot read {}: {reason}", script.path.display()))
        })?;
        let file = ScriptSource { path: &script.path, code: &code };
        let lua = state::create(options, &file).map_err(script_error)?;
        state::set_addresses(&lua, address).map_err(script_error)?;
        let mut main = Script { lua, slots: Vec::new() };
        for control in controls {
            let thread_lua = state::create(options, &file).map_err(script_error)?;
            let slot = ThreadSlot::new(thread_lua.clone(), address.clone(), Arc::clone(control));
            let slot = Arc::new(slot);
            main.slots.push(Arc::clone(&slot));
            begin_thread(&main.lua, &slot, &thread_lua, options, script).map_err(script_error)?;
        }
        let mut threads = Vec::new();
        let mut requests_per_send = 1;
        for (index, slot) in main.slots.iter().enumerate() {
            let thread_lua = slot.take().expect("no thread runs yet");
            let mut thread = ThreadScript::new(thread_lua, slot.address())?;
            if index == 0 {
                requests_per_send = thread.count_requests()?;
            }
            thread.requests_per_send = requests_per_send;
            threads.push(thread);
        }
        flush_output();
        Ok(Some((main, threads)))
    }

    /// Takes back the states of the threads, for `done`.
    pub(crate) fn finish(self, threads: Vec<ThreadScript>) -> FinishedScript {
        for (slot, thread) in self.slots.iter().zip(threads) {
            slot.put_back(thread.lua);
        }
        FinishedScript(self)
    }
}

/// Calls `setup` in the state of the script and `init` in the state of the thread.
fn begin_thread(
    lua: &Lua,
    slot: &Arc<ThreadSlot>,
    thread_lua: &Lua,
    options: &LoadOptions,
    script: &ScriptOptions,
) -> mlua::Result<()> {
    let thread_wrk: Table = thread_lua.globals().get("wrk")?;
    thread_wrk.set("thread", thread::own_thread(thread_lua, slot)?)?;
    let wrk: Table = lua.globals().get("wrk")?;
    wrk.get::<Function>("setup")?.call::<()>(thread::other_thread(lua, slot)?)?;
    // As in wrk, the URL is at index 0 and the arguments begin at 1.
    let arguments = thread_lua.create_table()?;
    arguments.raw_set(0, options.target.url())?;
    for (index, argument) in script.arguments.iter().enumerate() {
        arguments.raw_set(index + 1, argument.as_str())?;
    }
    thread_wrk.get::<Function>("init")?.call::<()>(arguments)
}

impl ThreadScript {
    fn new(lua: Lua, address: Address) -> Result<ThreadScript, LoadError> {
        let calls = ScriptFunctions::new(&lua).map_err(script_error)?;
        let is_function =
            |name: &str| lua.globals().raw_get::<mlua::Value>(name).is_ok_and(|v| v.is_function());
        Ok(ThreadScript {
            calls,
            address,
            requests_per_send: 1,
            makes_requests: is_function("request"),
            wants_responses: is_function("response"),
            has_delay: is_function("delay"),
            has_ended: false,
            lua,
        })
    }

    /// Makes one request, and counts how many the script returns at once.
    fn count_requests(&mut self) -> Result<usize, LoadError> {
        let mut bytes = Vec::new();
        self.request(&mut bytes)?;
        count::count_requests(&bytes).map_err(|reason| {
            LoadError::Script(format!("the script makes a request that is not HTTP: {reason}"))
        })
    }

    /// True if the script has a `request` function, which makes every request.
    pub(crate) fn makes_requests(&self) -> bool {
        self.makes_requests
    }

    /// True if the script has a `response` function, which takes every answer.
    pub(crate) fn wants_responses(&self) -> bool {
        self.wants_responses
    }

    /// True if the script has a `delay` function, which is called before every request.
    pub(crate) fn has_delay(&self) -> bool {
        self.has_delay
    }

    /// The address of the connections of this thread.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The number of requests that `request` returns at once.
    pub(crate) fn requests_per_send(&self) -> usize {
        self.requests_per_send
    }

    /// Appends the result of `request` to `out`. If it returns nothing, that is an error, and
    /// [`ThreadScript::has_ended`] is then true.
    #[inline]
    pub(crate) fn request(&mut self, out: &mut Vec<u8>) -> Result<(), LoadError> {
        if self.calls.request(out).map_err(LoadError::Script)? {
            return Ok(());
        }
        self.has_ended = true;
        Err(LoadError::Script("request() must return a string, it returned nil".to_owned()))
    }

    /// True if `request` has returned nothing, which means that the script has no more requests.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Passes an answer to `response`.
    #[inline]
    pub(crate) fn response(
        &mut self,
        status: u16,
        answer: &CapturedResponse,
    ) -> Result<(), LoadError> {
        self.calls.response(status, answer).map_err(LoadError::Script)
    }

    /// Calls `delay` for the number of milliseconds to wait.
    #[inline]
    pub(crate) fn delay_ms(&mut self) -> Result<f64, LoadError> {
        self.calls.delay_ms().map_err(LoadError::Script)
    }
}

impl FinishedScript {
    /// Calls `done` with the figures of the run.
    pub(crate) fn done(self, figures: &Summary<'_>) -> Result<(), LoadError> {
        let outcome = self.call_done(figures).map_err(script_error);
        flush_output();
        outcome
    }

    fn call_done(&self, figures: &Summary<'_>) -> mlua::Result<()> {
        let lua = &self.0.lua;
        let Ok(done) = lua.globals().raw_get::<Function>("done") else { return Ok(()) };
        let errors = lua.create_table()?;
        errors.set("connect", figures.errors.connect)?;
        errors.set("read", figures.errors.read)?;
        errors.set("write", figures.errors.write)?;
        errors.set("status", figures.errors.status)?;
        errors.set("timeout", figures.errors.timeout)?;
        let summary = lua.create_table()?;
        summary.set("duration", u64::try_from(figures.duration.as_micros()).unwrap_or(u64::MAX))?;
        summary.set("requests", figures.requests)?;
        summary.set("bytes", figures.bytes)?;
        summary.set("errors", errors)?;
        let times_us = in_microseconds(figures.response_time);
        let latency = statistics::statistics(lua, times_us)?;
        let requests = statistics::statistics(lua, figures.request_rates.clone())?;
        done.call::<()>((summary, latency, requests))
    }
}

/// Flushes the output of scripts: they print through the C library, which has its own buffer.
fn flush_output() {
    // SAFETY: a null stream means all of them.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

fn script_error(error: mlua::Error) -> LoadError {
    LoadError::Script(match error {
        mlua::Error::CallbackError { cause, .. } => cause.to_string(),
        mlua::Error::RuntimeError(text) => first_lines(&text).to_owned(),
        other => other.to_string(),
    })
}

/// The message without the stack trace, whose first entry adds nothing.
fn first_lines(text: &str) -> &str {
    text.split("\nstack traceback:").next().unwrap_or(text)
}
