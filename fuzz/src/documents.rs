//! A document store in memory, for fuzz targets.

use std::path::Path;
use std::sync::Arc;

use pellucid_document::{
    Collection, CollectionDefinition, CollectionKind, Documents, IndexDefinition, SYSTEM_DATABASE,
    TABLE, create_index, lookup_prefix,
};
use pellucid_embedded::{EmbeddedOptions, EmbeddedStore, EngineOptions, PrefixRule};
use pellucid_io::simulated::SimulatedFileSystem;
use pellucid_store::HandOverPolicy;

/// Opens an empty store.
pub fn empty() -> Arc<Documents> {
    let engine_options = EngineOptions {
        segment_size_bytes: 256 << 10,
        background: false,
        file_system: Arc::new(SimulatedFileSystem::new()),
        prefix_rules: vec![PrefixRule { table: TABLE, prefix_of: lookup_prefix }],
        ..EngineOptions::default()
    };
    let options = EmbeddedOptions {
        memory_bytes: 8 << 20,
        hand_over: HandOverPolicy::Never,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open_with(Path::new("/store"), options, engine_options);
    let store = Arc::new(store.expect("an empty folder can be opened"));
    Arc::new(Documents::open_named(store, "test").expect("an empty store can be opened"))
}

/// Makes a collection with these indexes.
pub fn collection(
    documents: &Arc<Documents>,
    name: &str,
    kind: CollectionKind,
    indexes: Vec<IndexDefinition>,
) -> Arc<Collection> {
    let database = documents.database(SYSTEM_DATABASE).expect("it is always there");
    let new = CollectionDefinition { kind, ..CollectionDefinition::named(name) };
    let collection = documents.create_collection(&database, new).expect("the name is free");
    for index in indexes {
        create_index(documents, &collection, index).expect("the index is new");
    }
    collection
}

/// An index over these fields. A unique index is also sparse.
pub fn index(fields: &[&str], unique: bool) -> IndexDefinition {
    IndexDefinition { unique, sparse: unique, ..IndexDefinition::persistent(fields) }
}
