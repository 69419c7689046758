//! The cache of queries: a query that was asked before is not parsed again, and not planned again
//! if the plan does not depend on the values of its bind variables.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pellucid_thread::Mutex;
use pellucid_value::Value;

use crate::plan::ReuseConditions;
use crate::{KillSwitch, ParsedQuery, Plan, QueryOptions, Result, Source, parse_within};

/// The most cached queries. If there would be more, the cache is emptied and fills again.
const STATEMENTS_MAX: usize = 512;

/// The most bytes of the text of a cached query.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// The most bytes of all cached queries. If there would be more, the cache is emptied as well.
const STATEMENTS_BYTES_MAX: usize = 32 << 20;

/// The most bytes of a plan that is kept for reuse.
const PLAN_BYTES_MAX: usize = 64 << 10;

/// The cache of queries.
#[derive(Debug, Default)]
pub struct StatementCache {
    known: Mutex<CachedStatements>,
}

/// Queries by their texts.
#[derive(Debug, Default)]
struct CachedStatements {
    statements: HashMap<Arc<str>, Arc<Statement>>,
    bytes: usize,
}

impl CachedStatements {
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
        // Two threads may have parsed the same text at once.
        if self.statements.insert(Arc::clone(&statement.text), Arc::clone(statement)).is_none() {
            self.bytes += bytes;
        }
    }
}

/// A parsed query, and its last reusable plan.
#[derive(Debug)]
pub struct Statement {
    text: Arc<str>,
    parsed: ParsedQuery,
    reusable: Mutex<Option<Arc<ReusablePlan>>>,
}

/// A plan that can be reused.
#[derive(Debug)]
struct ReusablePlan {
    plan: Arc<Plan>,
    reuse: ReuseConditions,
    /// True unless the plan or an execution showed that it is not light.
    is_light: AtomicBool,
}

impl StatementCache {
    /// The query of this text; parses it if it is not in the cache.
    ///
    /// # Errors
    /// Those of [`parse_within`].
    pub fn read(&self, text: &str, options: &QueryOptions) -> Result<Arc<Statement>> {
        if let Some(known) = self.find(text) {
            return Ok(known);
        }
        let parsed = parse_within(text, options)?;
        let statement = Statement { text: text.into(), parsed, reusable: Mutex::new(None) };
        let statement = Arc::new(statement);
        self.known.lock().add(&statement);
        Ok(statement)
    }

    /// The query of this text, if it is in the cache.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Arc<Statement>> {
        self.known.lock().statements.get(text).cloned()
    }
}

impl Statement {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The parsed query.
    #[must_use]
    pub fn parsed(&self) -> &ParsedQuery {
        &self.parsed
    }

    fn ready(&self, binds: &Value, source: &dyn Source) -> Option<Arc<ReusablePlan>> {
        let reusable = self.reusable.lock().clone()?;
        reusable.reuse.serves(binds, source).then_some(reusable)
    }

    /// The reusable plan, if it fits these values and is light ([`Plan::is_light`]).
    #[must_use]
    pub fn light(&self, binds: &Value, source: &dyn Source) -> Option<Arc<Plan>> {
        let reusable = self.ready(binds, source)?;
        reusable.is_light.load(Ordering::Relaxed).then(|| Arc::clone(&reusable.plan))
    }

    /// Notes that the reusable plan turned out not to be light.
    pub fn note_heavy(&self) {
        let reusable = self.reusable.lock();
        if let Some(reusable) = &*reusable {
            reusable.is_light.store(false, Ordering::Relaxed);
        }
    }

    /// A plan for these values: the reusable one if it fits, or a new one.
    ///
    /// # Errors
    /// Those of [`Plan::new`].
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
        let mut reusable = self.reusable.lock();
        let reuse = reuse.filter(|_| plan.memory_bytes() <= PLAN_BYTES_MAX);
        *reusable = reuse.map(|reuse| {
            let is_light = AtomicBool::new(plan.is_light());
            Arc::new(ReusablePlan { plan: Arc::clone(&plan), reuse, is_light })
        });
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: only the number of cached queries was bounded, so that 512 large ones took 1
    /// GiB.
    #[test]
    fn statements_are_bounded_by_their_bytes() {
        let statements = StatementCache::default();
        let options = QueryOptions::default();
        let texts: Vec<_> =
            (0..200).map(|number| format!("RETURN [{}{number}]", "{a:1},".repeat(2_000))).collect();
        for text in &texts {
            statements.read(text, &options).unwrap();
            assert!(statements.find(text).is_some());
            assert!(statements.known.lock().bytes <= STATEMENTS_BYTES_MAX);
        }
        assert!(statements.find(&texts[0]).is_none());
        // A query that is cached already is not counted again.
        let bytes = statements.known.lock().bytes;
        statements.read(&texts[199], &options).unwrap();
        assert_eq!(statements.known.lock().bytes, bytes);
    }
}
