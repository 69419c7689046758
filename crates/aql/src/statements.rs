//! Queries that were asked before: their texts need not be read again, nor planned, where another
//! value of a bind variable makes no difference to the plan.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use pellucid_thread::Mutex;
use pellucid_value::Value;

use crate::plan::Reuse;
use crate::{KillSwitch, Parsed, Plan, QueryError, QueryOptions, Source, parse};

/// Queries that are kept. Beyond it, all are forgotten, and those that are asked come back.
const STATEMENTS_MAX: usize = 512;

/// The longest text that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// The queries that were asked of late.
#[derive(Debug, Default)]
pub struct Statements {
    kept: Mutex<HashMap<Arc<str>, Arc<Statement>>>,
}

/// A query that was read, and the plan that served it last.
#[derive(Debug)]
pub struct Statement {
    text: Arc<str>,
    parsed: Parsed,
    kept: Mutex<Option<Arc<Kept>>>,
}

/// A plan that serves again.
#[derive(Debug)]
struct Kept {
    plan: Arc<Plan>,
    reuse: Reuse,
    /// Whether it is light, as far as is known.
    is_light: AtomicBool,
}

impl Statements {
    /// The query of this text, read if it was not before.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn read(&self, text: &str) -> Result<Arc<Statement>, QueryError> {
        if let Some(known) = self.find(text) {
            return Ok(known);
        }
        let (parsed, text) = (parse(text)?, Arc::<str>::from(text));
        let statement = Statement { text: Arc::clone(&text), parsed, kept: Mutex::new(None) };
        let statement = Arc::new(statement);
        if text.len() <= TEXT_BYTES_MAX {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= STATEMENTS_MAX {
                kept.clear();
            }
            kept.insert(text, Arc::clone(&statement));
        }
        Ok(statement)
    }

    /// The query of this text, if it was read of late.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Arc<Statement>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(text).cloned()
    }
}

impl Statement {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    fn ready(&self, binds: &Value, source: &dyn Source) -> Option<Arc<Kept>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        kept.reuse.serves(&kept.plan, binds, source).then_some(kept)
    }

    /// The plan that is there, if it serves for these values and is light ([`Plan::is_light`]).
    #[must_use]
    pub fn light(&self, binds: &Value, source: &dyn Source) -> Option<Arc<Plan>> {
        let kept = self.ready(binds, source)?;
        kept.is_light.load(Ordering::Relaxed).then(|| Arc::clone(&kept.plan))
    }

    /// Takes note that the plan that is there turned out not to be light.
    pub fn note_heavy(&self) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*kept {
            kept.is_light.store(false, Ordering::Relaxed);
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
    ) -> Result<Arc<Plan>, QueryError> {
        if let Some(kept) = self.ready(binds, &**source) {
            return Ok(Arc::clone(&kept.plan));
        }
        let (plan, reuse) = Plan::to_serve_again(&self.parsed, binds, source, options, kill)?;
        let plan = Arc::new(plan);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = reuse.map(|reuse| {
            let is_light = AtomicBool::new(plan.is_light());
            Arc::new(Kept { plan: Arc::clone(&plan), reuse, is_light })
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
    ) -> Result<Arc<Plan>, QueryError> {
        Plan::killable(&self.parsed, binds, source, options, kill).map(Arc::new)
    }
}
