//! Definitions of databases, collections and indexes, as the store keeps them.

use serde::{Deserialize, Serialize};

/// A database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseDefinition {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
}

/// The contents of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CollectionKind {
    /// Documents.
    Documents,
    /// Documents with `_from` and `_to`.
    Edges,
}

impl CollectionKind {
    /// ArangoDB's number of the kind.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            CollectionKind::Documents => 2,
            CollectionKind::Edges => 3,
        }
    }
}

/// A collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectionDefinition {
    /// Its number.
    pub id: u64,
    /// The number of its database.
    pub database: u64,
    /// Its name.
    pub name: String,
    /// Its contents.
    pub kind: CollectionKind,
    /// It was made as a system collection.
    pub is_system: bool,
    /// Each write waits for the medium.
    pub wait_for_sync: bool,
    /// Documents may come with a key of their own.
    pub allow_user_keys: bool,
    /// The number of its contents in the store.
    pub storage: u64,
    /// Its indexes besides that of keys, oldest first.
    pub indexes: Vec<IndexDefinition>,
}

/// A collection to make.
#[derive(Clone, Debug)]
pub struct NewCollection {
    /// Its name.
    pub name: String,
    /// Its contents.
    pub kind: CollectionKind,
    /// Its name may begin with an underscore.
    pub is_system: bool,
    /// Each write waits for the medium.
    pub wait_for_sync: bool,
    /// Documents may come with a key of their own.
    pub allow_user_keys: bool,
}

/// The use of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexKind {
    /// Finding documents by the values of fields, in their order.
    Persistent,
    /// The same on one field with a time, after which a document is removed.
    Ttl,
    /// Finding edges by one of their ends; made with each edge collection.
    Edge,
}

/// The progress of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexState {
    /// It is complete.
    #[default]
    Ready,
    /// It is being filled: writers keep it up, and nobody reads it. One that is found so when the
    /// store is opened was never finished, and is removed.
    Filling,
}

/// An index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexDefinition {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its use.
    pub kind: IndexKind,
    /// Paths of attributes, with dots between; `[*]` behind an attribute stands for each element.
    pub fields: Vec<String>,
    /// No two documents may have the same values.
    pub unique: bool,
    /// Documents are left out that lack one of the fields, or have null there.
    pub sparse: bool,
    /// A document may have the same value twice in an array.
    pub deduplicate: bool,
    /// Seconds after the time in the field until a document is removed.
    pub expire_after_seconds: Option<f64>,
    /// Its progress.
    #[serde(default)]
    pub state: IndexState,
}

impl IndexDefinition {
    /// A persistent index on these fields that is still to be made, neither unique nor sparse.
    #[must_use]
    pub fn persistent(fields: &[&str]) -> IndexDefinition {
        IndexDefinition {
            id: 0,
            name: String::new(),
            kind: IndexKind::Persistent,
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            unique: false,
            sparse: false,
            deduplicate: true,
            expire_after_seconds: None,
            state: IndexState::Ready,
        }
    }

    /// True if `other`, not made yet, would be the same index.
    #[must_use]
    pub fn is_same_as(&self, other: &IndexDefinition) -> bool {
        self.kind == other.kind
            && self.fields == other.fields
            && self.unique == other.unique
            && self.sparse == other.sparse
            && self.expire_after_seconds == other.expire_after_seconds
    }
}

/// The numbers of the two indexes of an edge collection, which drivers see as one.
pub(crate) const EDGE_INDEXES: [(u64, &str); 2] = [(1, "_from"), (2, "_to")];

/// The indexes that an edge collection has from the beginning.
pub(crate) fn edge_indexes() -> Vec<IndexDefinition> {
    let index = |(id, field): (u64, &str)| IndexDefinition {
        id,
        name: format!("edge{field}"),
        kind: IndexKind::Edge,
        ..IndexDefinition::persistent(&[field])
    };
    EDGE_INDEXES.into_iter().map(index).collect()
}
