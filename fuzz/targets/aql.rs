//! Queries. Any text is read or refused; what is read is planned and run for a moment, over no
//! data, within its bounds of memory and time.
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use pellucid_aql::{
    Collection, CollectionId, Execution, Index, IndexRequest, KillSwitch, Plan, QueryError,
    QueryOptions, Scan, Source, WriteBatch, number, parse,
};
use pellucid_value::Value;

/// No data at all.
struct Nothing;

fn nothing() -> QueryError {
    QueryError::new(number::COLLECTION_NOT_FOUND, "there is nothing")
}

impl Source for Nothing {
    fn collection(&self, _: &str) -> Option<Collection> {
        None
    }

    fn count(&self, _: CollectionId) -> Result<u64, QueryError> {
        Err(nothing())
    }

    fn scan(&self, _: CollectionId) -> Result<Box<dyn Scan>, QueryError> {
        Err(nothing())
    }

    fn indexes(&self, _: CollectionId) -> Vec<Index> {
        Vec::new()
    }

    fn index_scan(&self, _: CollectionId, _: &IndexRequest) -> Result<Box<dyn Scan>, QueryError> {
        Err(nothing())
    }

    fn document(&self, _: CollectionId, _: &str) -> Result<Option<Value>, QueryError> {
        Err(nothing())
    }

    fn begin_writes(&self) -> Result<Box<dyn WriteBatch>, QueryError> {
        Err(nothing())
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(parsed) = parse(text) else { return };
    let source: Arc<dyn Source> = Arc::new(Nothing);
    let options = QueryOptions {
        memory_bytes_max: 8 << 20,
        runtime_max: Some(Duration::from_millis(50)),
        ..QueryOptions::default()
    };
    let Ok(plan) = Plan::new(&parsed, &Value::Null, &source, &options) else { return };
    let plan = Arc::new(plan);
    let shown = plan.explain();
    assert!(!shown.attribute("nodes").elements().is_empty());
    let mut execution = Execution::new(plan, source, options, KillSwitch::default());
    while let Ok((_, true)) = execution.next(100) {}
});
