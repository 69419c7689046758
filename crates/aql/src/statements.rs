//! Queries that were asked before: their texts need not be read again, nor planned, where another
//! value of a bind variable makes no difference to the plan.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use pellucid_thread::Mutex;
use pellucid_value::Value;

use crate::plan::Reuse;
use crate::{KillSwitch, Parsed, Plan, QueryOptions, Result, Source, parse_within};

/// Queries that are kept. Beyond it, all are forgotten, and those that are asked come back.
const STATEMENTS_MAX: usize = 512;

/// The longest text that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// The number of bytes that they may have together; beyond it, all are forgotten, too.
const STATEMENTS_BYTES_MAX: usize = 32 << 20;

/// The number of bytes that a plan may have that serves again.
const PLAN_BYTES_MAX: usize = 64 << 10;

/// The queries that were asked of late.
#[derive(Debug, Default)]
pub struct Statements {
    known: Mutex<Known>,
}

/// Queries by their texts.
#[derive(Debug, Default)]
struct Known {
    statements: HashMap<Arc<str>, Arc<Statement>>,
    bytes: usize,
}

impl Known {
    fn add(&mut self, statement: &Arc<Statement>) {
        let bytes = statement.text.len() + statement.parsed.bytes;
        if statement.text.len() > TEXT_BYTES_MAX || bytes > STATEMENTS_BYTES_MAX {
            return;
        }
        let is_full = self.statements.len() >= STATEMENTS_MAX;
        if is_full || self.bytes + bytes > STATEMENTS_BYTES_MAX {
            self.statements.clear();
            self.bytes = 0;
        }
        // Two may have read the same at once.
        if self.statements.insert(Arc::clone(&statement.text), Arc::clone(statement)).is_none() {
            self.bytes += bytes;
        }
    }
}

/// A query that was read, and the plan that served it last.
#[derive(Debug)]
pub struct Statement {
    text: Arc<str>,
    parsed: Parsed,
    reusable: Mutex<Option<Arc<ReusablePlan>>>,
}

/// A plan that serves again.
#[derive(Debug)]
struct ReusablePlan {
    plan: Arc<Plan>,
    reuse: Reuse,
    /// True if it is light, as far as is known.
    is_light: AtomicBool,
}

impl Statements {
    /// The query of this text, read if it was not before.
    ///
    /// # Errors
    /// As [`parse_within`].
    pub fn read(&self, text: &str, options: &QueryOptions) -> Result<Arc<Statement>> {
        if let Some(known) = self.find(text) {
            return Ok(known);
        }
        let parsed = parse_within(text, options)?;
        let statement = Statement { text: text.into(), parsed, reusable: Mutex::new(None) };
        let statement = Arc::new(statement);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).add(&statement);
        Ok(statement)
    }

    /// The query of this text, if it was read of late.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Arc<Statement>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).statements.get(text).cloned()
    }
}

impl Statement {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    fn ready(&self, binds: &Value, source: &dyn Source) -> Option<Arc<ReusablePlan>> {
        let reusable = self.reusable.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        reusable.reuse.serves(binds, source).then_some(reusable)
    }

    /// The plan that is there, if it serves for these values and is light ([`Plan::is_light`]).
    #[must_use]
    pub fn light(&self, binds: &Value, source: &dyn Source) -> Option<Arc<Plan>> {
        let reusable = self.ready(binds, source)?;
        reusable.is_light.load(Ordering::Relaxed).then(|| Arc::clone(&reusable.plan))
    }

    /// Takes note that the plan that is there turned out not to be light.
    pub fn note_heavy(&self) {
        let reusable = self.reusable.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reusable) = &*reusable {
            reusable.is_light.store(false, Ordering::Relaxed);
        }
    }

    /// A plan for these values: the one that is there, if it serves, or a new one.
    ///
    /// # Errors
    /// As [`Plan::killable`].
    pub fn plan(
        &self,
        binds: &Value,
        source: &Arc<dyn Source>,
        options: &QueryOptions,
        kill: &KillSwitch,
    ) -> Result<Arc<Plan>> {
        if let Some(reusable) = self.ready(binds, &**source) {
            return Ok(Arc::clone(&reusable.plan));
        }
        let (plan, reuse) = Plan::to_serve_again(&self.parsed, binds, source, options, kill)?;
        let plan = Arc::new(plan);
        let mut reusable = self.reusable.lock().unwrap_or_else(PoisonError::into_inner);
        let reuse = reuse.filter(|_| plan.memory_bytes() <= PLAN_BYTES_MAX);
        *reusable = reuse.map(|reuse| {
            let is_light = AtomicBool::new(plan.is_light());
            Arc::new(ReusablePlan { plan: Arc::clone(&plan), reuse, is_light })
        });
        Ok(plan)
    }

    /// A plan for these values alone, as [`Plan::explain`] shows it best.
    ///
    /// # Errors
    /// As [`Plan::killable`].
    pub fn plan_once(
        &self,
        binds: &Value,
        source: &Arc<dyn Source>,
        options: &QueryOptions,
        kill: &KillSwitch,
    ) -> Result<Arc<Plan>> {
        Plan::killable(&self.parsed, binds, source, options, kill).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 512 texts with large trees were kept: 1 GiB.
    #[test]
    fn statements_are_bounded_by_their_bytes() {
        let statements = Statements::default();
        let options = QueryOptions::default();
        let texts: Vec<_> =
            (0..200).map(|number| format!("RETURN [{}{number}]", "{a:1},".repeat(2_000))).collect();
        for text in &texts {
            statements.read(text, &options).unwrap();
            assert!(statements.find(text).is_some());
            assert!(statements.known.lock().unwrap().bytes <= STATEMENTS_BYTES_MAX);
        }
        assert!(statements.find(&texts[0]).is_none());
        // One that was read is counted once.
        let bytes = statements.known.lock().unwrap().bytes;
        statements.read(&texts[199], &options).unwrap();
        assert_eq!(statements.known.lock().unwrap().bytes, bytes);
    }
}
