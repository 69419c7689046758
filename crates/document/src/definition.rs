//! Definitions of databases, collections and indexes, in their stored form.

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
    /// True if it was created as a system collection, whose name may begin with an underscore.
    pub is_system: bool,
    /// True if each write waits until it is on the disk.
    pub wait_for_sync: bool,
    /// True if a new document may name its own key.
    pub allow_user_keys: bool,
    /// The storage number, which is part of the keys of its contents in the store.
    pub storage: u64,
    /// Its indexes besides the primary one, oldest first.
    pub indexes: Vec<IndexDefinition>,
    /// The newest sequence number of the store's changes before it was created, or last truncated
    /// or renamed. A follower that has seen no later one does not know of that. Zero if the store
    /// tells none.
    pub emptied_at: u64,
}

impl CollectionDefinition {
    /// The definition of a new collection of documents. It has no numbers yet.
    #[must_use]
    pub fn named(name: &str) -> CollectionDefinition {
        CollectionDefinition {
            id: 0,
            database: 0,
            name: name.to_owned(),
            kind: CollectionKind::Documents,
            is_system: false,
            wait_for_sync: false,
            allow_user_keys: true,
            storage: 0,
            indexes: Vec::new(),
            emptied_at: 0,
        }
    }
}

/// The kind of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexKind {
    /// An ordered index on the values of one or more fields.
    Persistent,
    /// An index on one field with a time, after which the document is removed.
    Ttl,
    /// An index on one end of edges, which each edge collection has from the beginning.
    Edge,
}

/// The state of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexState {
    /// It is complete, and queries may use it.
    Ready,
    /// It is being filled: writers maintain it, and queries do not use it. If it is in this state
    /// when the store is opened, its build was interrupted, and it is removed.
    Filling,
}

/// An index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexDefinition {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: IndexKind,
    /// Paths of attributes, joined by dots; `[*]` behind an attribute stands for each element of an
    /// array.
    pub fields: Vec<String>,
    /// True if no two documents may have the same values.
    pub unique: bool,
    /// True if documents in which one of the fields is missing or null have no entry.
    pub sparse: bool,
    /// True if a document may have the same value twice in an array of a unique index.
    pub deduplicate: bool,
    /// Seconds after the time in the field until a document is removed.
    pub expire_after_seconds: Option<f64>,
    /// Its state.
    pub state: IndexState,
}

impl IndexDefinition {
    /// The definition of a new persistent index on these fields, neither unique nor sparse.
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

    /// True if `other` describes the same index. Number, name, state and `deduplicate` may differ.
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

/// The definitions of the two indexes of a new edge collection.
pub(crate) fn edge_indexes() -> Vec<IndexDefinition> {
    let index = |(id, field): (u64, &str)| IndexDefinition {
        id,
        name: format!("edge{field}"),
        kind: IndexKind::Edge,
        ..IndexDefinition::persistent(&[field])
    };
    EDGE_INDEXES.into_iter().map(index).collect()
}
