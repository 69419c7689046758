//! Control of the calls that workers execute: other threads can end and describe them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use pellucid_aql::KillSwitch;
use pellucid_clock::Stopwatch;
use pellucid_document::{DocumentError, ErrorNumber};
use pellucid_thread::Mutex;
use pellucid_value::beginning;

use super::running_queries::{RunningQuery, stopwatch};

/// The most bytes of a query's text in a description.
const TEXT_BYTES_MAX: usize = 200;

/// The control of a call under way. Clones control the same call.
#[derive(Clone)]
pub(crate) struct Control(Arc<State>);

struct State {
    kill: KillSwitch,
    since: Stopwatch,
    /// The longest time that the call may take.
    longest: Option<Duration>,
    /// Method and path.
    path: String,
    /// The query that the call runs.
    query: Mutex<Option<Arc<RunningQuery>>>,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Control").field(&self.0.path).finish()
    }
}

impl Control {
    /// Makes the control of a call that begins now. It may take at most `longest`; zero means no
    /// limit.
    pub(crate) fn new(path: String, longest: Duration) -> Control {
        Control(Arc::new(State {
            kill: KillSwitch::default(),
            since: stopwatch(),
            longest: (!longest.is_zero()).then_some(longest),
            path,
            query: Mutex::default(),
        }))
    }

    /// Ends the call, and the query that it runs, soon.
    pub(crate) fn end(&self) {
        self.0.kill.kill();
        if let Some(query) = &*self.0.query.lock() {
            query.kill.kill();
        }
    }

    /// The switch that ends the call, for work that checks it itself.
    pub(crate) fn kill_switch(&self) -> KillSwitch {
        self.0.kill.clone()
    }

    /// Notes the query that the call runs from now on, so that both end together.
    pub(crate) fn runs(&self, query: &Arc<RunningQuery>) {
        *self.0.query.lock() = Some(Arc::clone(query));
        if self.0.kill.is_killed() {
            query.kill.kill();
        }
    }

    /// Checks that the call was not ended and has not taken too long. Long work calls this
    /// regularly.
    ///
    /// # Errors
    /// 1500 if it was ended, has taken too long, or its query was killed.
    pub(crate) fn check(&self) -> Result<(), DocumentError> {
        let State { kill, since, longest, query, .. } = &*self.0;
        if kill.is_killed() {
            return Err(DocumentError::new(ErrorNumber::QUERY_KILLED, "call ended"));
        }
        let elapsed_ns = || u128::from(since.elapsed_ns());
        if longest.is_some_and(|longest| elapsed_ns() > longest.as_nanos()) {
            let message = "call ended: it took too long";
            return Err(DocumentError::new(ErrorNumber::QUERY_KILLED, message));
        }
        let query = query.lock();
        match &*query {
            Some(query) => query.check(),
            None => Ok(()),
        }
    }

    /// A description of the call for the log.
    fn describe(&self) -> String {
        let seconds = self.0.since.elapsed_ns() as f64 / 1e9;
        let mut text = format!("{}, for {seconds:.1} s", self.0.path);
        if let Some(query) = &*self.0.query.lock() {
            let (id, database) = (query.id, &query.database);
            let (owner, asked) = (query.owner.name(), beginning(&query.query, TEXT_BYTES_MAX));
            text += &format!(", query {id} of `{owner}` in `{database}`: {asked}");
        }
        text
    }
}

/// The list of calls that workers execute.
#[derive(Default)]
pub(crate) struct Calls {
    listed: Mutex<CallTable>,
}

#[derive(Default)]
struct CallTable {
    calls: HashMap<u64, Control>,
    begun: u64,
    /// True once the server stops: each call that begins from then on is ended at once.
    is_ending: bool,
}

/// The place of a call in the list, until this is dropped.
pub(crate) struct CallRegistration<'a> {
    calls: &'a Calls,
    number: u64,
}

impl Drop for CallRegistration<'_> {
    fn drop(&mut self) {
        self.calls.listed.lock().calls.remove(&self.number);
    }
}

impl Calls {
    /// Adds a call that a worker begins to the list.
    pub(crate) fn begin(&self, control: &Control) -> CallRegistration<'_> {
        let mut listed = self.listed.lock();
        listed.begun += 1;
        let number = listed.begun;
        listed.calls.insert(number, control.clone());
        if listed.is_ending {
            control.end();
        }
        CallRegistration { calls: self, number }
    }

    /// Ends all calls, including those that begin from now on.
    pub(crate) fn end_all(&self) {
        let mut listed = self.listed.lock();
        listed.is_ending = true;
        listed.calls.values().for_each(Control::end);
    }

    /// Descriptions of the calls that workers execute, oldest first.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut calls: Vec<_> =
            self.listed.lock().calls.iter().map(|(number, call)| (*number, call.clone())).collect();
        calls.sort_by_key(|(number, _)| *number);
        calls.iter().map(|(_, call)| call.describe()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_end_by_a_kill_and_by_their_time() {
        let calls = Calls::default();
        let control = Control::new("POST /_api/import".to_owned(), Duration::ZERO);
        let at_work = calls.begin(&control);
        control.check().unwrap();
        assert!(calls.describe()[0].starts_with("POST /_api/import, for "));
        calls.end_all();
        assert_eq!(control.check().unwrap_err().number, ErrorNumber::QUERY_KILLED);
        drop(at_work);
        assert!(calls.describe().is_empty());
        let late = Control::new(String::new(), Duration::ZERO);
        let _at_work = calls.begin(&late);
        assert!(late.check().is_err(), "a server that stops begins nothing");
        let short = Control::new(String::new(), Duration::from_nanos(1));
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(short.check().unwrap_err().number, ErrorNumber::QUERY_KILLED);
    }
}
