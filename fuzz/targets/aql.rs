//! AQL queries. Any text is parsed or refused. A parsed query is planned, and runs over a few
//! documents with indexes, within limits of memory and time. If the result does not depend on the
//! order of rows, it must be the same with and without indexes.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use pellucid_account::Timeline;
use pellucid_aql::{
    Collection, CollectionId, Execution, Index, IndexKind, IndexRequest, KillSwitch, ParsedQuery,
    Plan, QueryError, QueryOptions, Scan, Source, WriteBatch, parse,
};
use pellucid_document::{
    CollectionKind, Documents, ImportForm, ImportOptions, QueryData, SYSTEM_DATABASE, import,
};
use pellucid_fuzz::documents::{collection, empty, index};
use pellucid_store::Acknowledgement;
use pellucid_value::{DuplicateRule, ObjectBuilder, Value};

const DOCUMENTS: &str = r#"[
    {"_key":"a","a":1,"u":"one","s":"abc","b":{"c":null},"t":[{"x":1},2]},
    {"_key":"b","a":1.5,"u":"two","s":"abd","b":{"c":[1]},"t":[]},
    {"_key":"c","a":"1","s":"ab","b":{"c":"x"},"t":"no array"},
    {"_key":"d","a":null,"s":"1e3","t":[null,"y"]},
    {"_key":"e","a":true,"u":3,"s":1000},
    {"_key":"f","a":[1,null],"s":"tr","b":7},
    {"_key":"g","a":{"x":1},"s":true,"b":{"c":{"d":-0.0}}},
    {"_key":"h","a":-0.0,"s":12345678901234567890,"b":{"c":1e300}}
]"#;

const EDGES: &str = r#"[
    {"_key":"1","_from":"c/a","_to":"c/b","w":1},
    {"_key":"2","_from":"c/b","_to":"c/c","w":2},
    {"_key":"3","_from":"c/b","_to":"c/nothing","w":"3"}
]"#;

/// Values for bind variables, used in turn.
const VALUES: [&str; 6] = ["1", "\"abc\"", "null", "[1, \"1\", null]", "{\"a\": 1}", "\"a\""];

/// Parts of the names of functions whose results may differ between runs.
const UNSTEADY: [&str; 6] = ["RAND", "UUID", "NOW", "SLEEP", "PASSTHRU", "_REV"];

thread_local! {
    /// The documents; discarded after a query that writes.
    static WORLD: RefCell<Option<Arc<Documents>>> = const { RefCell::new(None) };
}

fn world() -> Arc<Documents> {
    let documents = empty();
    let options =
        ImportOptions { form: ImportForm::Array, complete: true, ..ImportOptions::default() };
    let of_c = vec![
        index(&["a", "b.c"], false),
        index(&["s"], false),
        index(&["u"], true),
        index(&["t[*]"], false),
    ];
    let of_e = vec![index(&["w", "_to"], false)];
    for (name, kind, indexes, text) in [
        ("c", CollectionKind::Documents, of_c, DOCUMENTS),
        ("e", CollectionKind::Edges, of_e, EDGES),
    ] {
        let made = collection(&documents, name, kind, indexes);
        let report =
            import(&documents, &made, text.as_bytes(), &options, &|| Ok(()), &mut Timeline::off());
        assert_eq!(report.expect("these are documents").errors, 0);
    }
    documents
}

/// The data with the primary index only.
struct PrimaryIndexSource(Arc<dyn Source>);

impl Source for PrimaryIndexSource {
    fn collection(&self, name: &str) -> Option<Collection> {
        self.0.collection(name)
    }

    fn count(&self, collection: CollectionId) -> Result<u64, QueryError> {
        self.0.count(collection)
    }

    fn scan(&self, collection: CollectionId) -> Result<Box<dyn Scan>, QueryError> {
        self.0.scan(collection)
    }

    fn indexes(&self, collection: CollectionId) -> Vec<Index> {
        let indexes = self.0.indexes(collection).into_iter();
        indexes.filter(|index| index.kind == IndexKind::Primary).collect()
    }

    fn index_scan(
        &self,
        collection: CollectionId,
        request: &IndexRequest,
    ) -> Result<Box<dyn Scan>, QueryError> {
        self.0.index_scan(collection, request)
    }

    fn document(&self, collection: CollectionId, key: &str) -> Result<Option<Value>, QueryError> {
        self.0.document(collection, key)
    }

    fn begin_writes(&self) -> Result<Box<dyn WriteBatch>, QueryError> {
        self.0.begin_writes()
    }
}

/// A value for each bind variable.
fn bind_variables(parsed: &ParsedQuery) -> Value {
    let mut binds = ObjectBuilder::new();
    for (place, name) in parsed.bind_names().iter().enumerate() {
        let value = match name.starts_with('@') {
            true => ["\"c\"", "\"e\""][place % 2],
            false => VALUES[place % VALUES.len()],
        };
        let value = pellucid_value::json::parse_value(value.as_bytes(), DuplicateRule::Refuse);
        binds.insert(name.as_str(), value.expect("it is JSON"));
    }
    binds.finish().expect("values are small")
}

/// Runs a query. Returns the plan, and the sorted result if the query completed; `None` if it could
/// not be planned.
fn run(
    parsed: &ParsedQuery,
    binds: &Value,
    source: Arc<dyn Source>,
) -> Option<(Arc<Plan>, Option<Vec<String>>)> {
    let options = QueryOptions {
        memory_bytes_max: 8 << 20,
        runtime_max: Some(Duration::from_millis(50)),
        ..QueryOptions::default()
    };
    let kill = KillSwitch::default();
    let plan = Arc::new(Plan::new(parsed, binds, &source, &options, &kill).ok()?);
    let mut execution = Execution::new(Arc::clone(&plan), binds, source, options, kill);
    let mut result = Vec::new();
    while !execution.is_done() {
        let Ok(values) = execution.next(100, usize::MAX) else { return Some((plan, None)) };
        result.extend(values.iter().map(Value::to_json));
        drop(values);
        execution.free_kept();
    }
    result.sort_unstable();
    Some((plan, Some(result)))
}

/// Returns true if the values of the result do not depend on the order in which rows are read.
fn is_of_any_order(plan: &Plan, text: &str) -> bool {
    let nodes = plan.explain().attribute("nodes").elements();
    let is_plain = |node: &Value| {
        let kind = node.attribute("type");
        let is_distinct = node.attribute("distinct").is_true();
        !is_distinct
            && matches!(
                kind.as_str().unwrap_or_default(),
                "SingletonNode"
                    | "EnumerateCollectionNode"
                    | "IndexNode"
                    | "EnumerateListNode"
                    | "CalculationNode"
                    | "FilterNode"
                    | "SortNode"
                    | "ReturnNode"
            )
    };
    let text = text.to_uppercase();
    nodes.iter().all(is_plain) && !UNSTEADY.iter().any(|word| text.contains(word))
}

pub(crate) fn fuzz(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(parsed) = parse(text) else { return };
    WORLD.with_borrow_mut(|slot| {
        let documents = slot.get_or_insert_with(world);
        let database = documents.database(SYSTEM_DATABASE).expect("it is always there");
        let data = || Arc::new(QueryData::new(documents, &database, Acknowledgement::Os));
        let binds = bind_variables(&parsed);
        let Some((plan, found)) = run(&parsed, &binds, data()) else { return };
        assert!(!plan.explain().attribute("nodes").elements().is_empty());
        if plan.is_modification() {
            *slot = None;
            return;
        }
        let Some(found) = found.filter(|_| is_of_any_order(&plan, text)) else { return };
        if let Some((_, Some(expected))) =
            run(&parsed, &binds, Arc::new(PrimaryIndexSource(data())))
        {
            assert_eq!(found, expected);
        }
    });
}
