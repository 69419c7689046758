//! Tests of [`contents`]: the parts of a store that count as documents.

use pellucid_io::simulated::SimulatedFileSystem;
use pellucid_store::{Acknowledgement, Operation};

use super::{Step, apply, make, open};
use crate::layout::documents_prefix;
use crate::{Documents, contents};

fn told(documents: &Documents) -> Option<String> {
    contents(documents.store().as_ref()).unwrap()
}

#[test]
fn the_system_database_and_garbage_do_not_count_as_contents() {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    assert_eq!(told(&documents), None);
    let collection = make(&documents).unwrap();
    apply(&documents, &collection, &Step::Insert("k".to_owned(), serde_json::json!({}))).unwrap();
    assert_eq!(told(&documents).as_deref(), Some("the collection `c`"));
    let database = documents.database("_system").unwrap();
    documents.drop_collection(&database, &collection).unwrap();
    assert_eq!(told(&documents), None, "its document is given up");
    documents.create_database("mine").unwrap();
    assert_eq!(told(&documents).as_deref(), Some("the database `mine`"));
    documents.drop_database("mine").unwrap();
    // As on a node of a cluster that holds documents of others: the definitions are elsewhere.
    let key = [documents_prefix(u64::MAX), b"k".to_vec()].concat();
    documents.storage().write(&[Operation::plain(&key, Some(b"x"))], Acknowledgement::Os).unwrap();
    assert_eq!(told(&documents).as_deref(), Some("documents"));
}
