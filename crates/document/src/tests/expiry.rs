//! Tests of the removal of expired documents of which some cannot be removed.

use pellucid_io::simulated::SimulatedFileSystem;
use pellucid_store::{Acknowledgement, Operation};

use super::{Step, apply, index, make, open};
use crate::{IndexDefinition, IndexKind, create_index, remove_expired};

/// Regression: the removal began at the first expired document each time. One that could not be
/// removed kept all later ones from their removal, for ever.
#[test]
fn documents_that_cannot_be_removed_are_left_out() {
    const DAMAGED: usize = 25;
    const SOUND: usize = 450;
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    let collection = make(&documents).unwrap();
    let ttl = IndexDefinition {
        kind: IndexKind::Ttl,
        expire_after_seconds: Some(0.0),
        ..index(&["at"], false, true)
    };
    create_index(&documents, &collection, ttl).unwrap();
    for number in 0..DAMAGED + SOUND {
        let document = serde_json::json!({"at": number, "u": number});
        apply(&documents, &collection, &Step::Insert(format!("k{number}"), document)).unwrap();
    }
    for number in 0..DAMAGED {
        let key = collection.shape().document_key(format!("k{number}").as_bytes());
        let damage = [Operation::plain(&key, Some(b"damaged"))];
        documents.storage().write(&damage, Acknowledgement::Os).unwrap();
    }
    let (mut removed, mut failures) = (0, Vec::new());
    for _ in 0..6 {
        let (gone, ended) = remove_expired(&documents, 1e6);
        removed += gone;
        failures.extend(ended.err().map(|error| error.message));
    }
    assert_eq!((removed, collection.count()), (SOUND, DAMAGED as u64));
    assert!(
        failures.len() >= 3 && failures[0].contains("document c/k0 is left out"),
        "{failures:?}"
    );
}
