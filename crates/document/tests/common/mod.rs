//! A store in a temporary folder, and helpers of the tests.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_document::{
    Collection, CollectionDefinition, CollectionKind, Database, DocumentOutcome, Documents,
    IndexDefinition, Result, Rewrite, TABLE, Transaction, WriteOptions, attempt_to_end,
    document_of, lookup_prefix,
};
use pellucid_embedded::{EmbeddedOptions, EmbeddedStore, EngineOptions, PrefixRule};
use pellucid_store::{Acknowledgement, HandOverPolicy};
use pellucid_value::{DuplicateRule, Ref, json, packed};
use tempfile::TempDir;

pub(crate) struct TestFixture {
    pub(crate) documents: Arc<Documents>,
    pub(crate) folder: TempDir,
}

pub(crate) fn open(folder: &TempDir) -> Arc<Documents> {
    open_with(folder, EmbeddedOptions::default())
}

fn open_with(folder: &TempDir, options: EmbeddedOptions) -> Arc<Documents> {
    let engine_options = EngineOptions {
        prefix_rules: vec![PrefixRule { table: TABLE, prefix_of: lookup_prefix }],
        ..EngineOptions::default()
    };
    let store = EmbeddedStore::open_with(folder.path(), options, engine_options).unwrap();
    Arc::new(Documents::open_named(Arc::new(store), "test").unwrap())
}

/// The transaction of a query that sees the documents as they are now.
pub(crate) fn begin_query(documents: &Arc<Documents>) -> Transaction {
    Transaction::begin_at(documents, documents.store().snapshot().unwrap())
}

pub(crate) fn world() -> TestFixture {
    let folder = TempDir::new().unwrap();
    TestFixture { documents: open(&folder), folder }
}

/// A world with one collection of documents.
pub(crate) fn world_of(name: &str) -> (TestFixture, Arc<Collection>) {
    let world = world();
    let collection = world.make(name);
    (world, collection)
}

/// A world whose store answers every request on another thread.
pub(crate) fn world_that_hands_over() -> TestFixture {
    let folder = TempDir::new().unwrap();
    let options =
        EmbeddedOptions { hand_over: HandOverPolicy::Always, ..EmbeddedOptions::default() };
    TestFixture { documents: open_with(&folder, options), folder }
}

impl TestFixture {
    /// Closes everything and opens it again.
    pub(crate) fn reopened(self) -> TestFixture {
        let TestFixture { documents, folder } = self;
        documents.store().close().unwrap();
        drop(documents);
        TestFixture { documents: open(&folder), folder }
    }

    pub(crate) fn system(&self) -> Arc<Database> {
        self.documents.database("_system").unwrap()
    }

    pub(crate) fn make(&self, name: &str) -> Arc<Collection> {
        self.make_of(name, CollectionKind::Documents)
    }

    pub(crate) fn make_of(&self, name: &str, kind: CollectionKind) -> Arc<Collection> {
        let new = CollectionDefinition { kind, ..CollectionDefinition::named(name) };
        self.documents.create_collection(&self.system(), new).unwrap()
    }

    pub(crate) fn insert(&self, collection: &Arc<Collection>, text: &str) -> Result<String> {
        self.insert_with(collection, text, &WriteOptions::default()).map(|outcome| outcome.key)
    }

    pub(crate) fn insert_with(
        &self,
        collection: &Arc<Collection>,
        text: &str,
        options: &WriteOptions<'_>,
    ) -> Result<DocumentOutcome> {
        let document = parse(text);
        let body = packed::open(&document).unwrap().as_object().unwrap();
        self.write(|transaction, timeline| transaction.insert(collection, body, options, timeline))
    }

    pub(crate) fn update(&self, collection: &Arc<Collection>, key: &str, text: &str) -> Result<()> {
        let document = parse(text);
        let body = packed::open(&document).unwrap().as_object().unwrap();
        let options = WriteOptions::default();
        let made = self.write(|transaction, timeline| {
            transaction.rewrite(collection, key, body, Rewrite::Update, &options, timeline)
        });
        made.map(drop)
    }

    pub(crate) fn remove(&self, collection: &Arc<Collection>, key: &str) -> Result<()> {
        let options = WriteOptions::default();
        let made = self
            .write(|transaction, timeline| transaction.remove(collection, key, &options, timeline));
        made.map(drop)
    }

    fn write(
        &self,
        make: impl FnMut(&mut Transaction, &mut Timeline) -> Result<DocumentOutcome>,
    ) -> Result<DocumentOutcome> {
        let (os, mut timeline) = (Acknowledgement::Os, Timeline::off());
        attempt_to_end(&self.documents, os, false, &mut timeline, make).map(|(outcome, _)| outcome)
    }

    /// The document as JSON, without `_rev`.
    pub(crate) fn read(&self, collection: &Collection, key: &str) -> Option<serde_json::Value> {
        let shape = collection.shape();
        let found = self.documents.get(&shape, key.as_bytes(), &mut Timeline::off());
        let object = found.wait().unwrap()?;
        let document = document_of(&shape, &object).unwrap();
        let text = json::to_string(packed::open(&document).unwrap_or(Ref::Null));
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value.as_object_mut().unwrap().remove("_rev").unwrap();
        Some(value)
    }

    /// The number of keys of documents and of index entries in the store.
    pub(crate) fn store_keys(&self) -> usize {
        let table = self.documents.store().table("documents").unwrap();
        let range = pellucid_store::Range { start: &[3], end: Some(&[4]), reverse: false };
        let mut scan = self.documents.store().scan(table, range).unwrap();
        let mut count = 0;
        while scan.next().unwrap().is_some() {
            count += 1;
        }
        count
    }
}

pub(crate) fn parse(text: &str) -> Vec<u8> {
    json::parse_packed(text.as_bytes(), DuplicateRule::Refuse).unwrap()
}

pub(crate) fn persistent(fields: &[&str], unique: bool, sparse: bool) -> IndexDefinition {
    IndexDefinition { unique, sparse, ..IndexDefinition::persistent(fields) }
}
