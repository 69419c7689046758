//! Bodies of imports. For any body, every document that exists afterwards must be valid and stored
//! under its own key, and their number must be that of the report.

use std::cell::RefCell;
use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_document::{
    Collection, CollectionKind, Documents, ImportForm, ImportOptions, Overwrite, document_of,
    for_each, import,
};
use pellucid_fuzz::documents::{self, collection, index};
use pellucid_store::Acknowledgement;
use pellucid_value::packed;

/// The number of imports after which a new store is made, because each import grows the journal.
const IMPORTS_MAX: u32 = 200;

/// A store in memory, with a collection that has indexes.
struct TestFixture {
    documents: Arc<Documents>,
    collection: Arc<Collection>,
    imports: u32,
}

thread_local! {
    static WORLD: RefCell<Option<TestFixture>> = const { RefCell::new(None) };
}

fn world() -> TestFixture {
    let documents = documents::empty();
    let indexes = vec![index(&["a"], false), index(&["t[*].x"], false), index(&["u"], true)];
    let collection = collection(&documents, "c", CollectionKind::Documents, indexes);
    TestFixture { documents, collection, imports: 0 }
}

fn options(choice: u8) -> ImportOptions {
    ImportOptions {
        form: match choice & 3 {
            0 => ImportForm::Lines,
            1 => ImportForm::Array,
            2 => ImportForm::Rows,
            _ => ImportForm::Auto,
        },
        on_duplicate: match choice >> 2 & 3 {
            0 => Overwrite::Conflict,
            1 => Overwrite::Update,
            2 => Overwrite::Replace,
            _ => Overwrite::Ignore,
        },
        overwrite: false,
        complete: choice & 16 != 0,
        details: true,
        from_prefix: (choice & 32 != 0).then(|| "p".to_owned()),
        to_prefix: None,
        overwrite_collection_prefix: choice & 64 != 0,
        ignore_missing: choice & 128 != 0,
        acknowledgement: Acknowledgement::Os,
        memory: None,
    }
}

pub(crate) fn fuzz(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    WORLD.with_borrow_mut(|slot| {
        if slot.as_ref().is_some_and(|world| world.imports >= IMPORTS_MAX) {
            *slot = None;
        }
        let TestFixture { documents, collection, imports } = slot.get_or_insert_with(world);
        *imports += 1;
        documents.truncate(collection).expect("the store takes it");
        let before = collection.count();
        assert_eq!(before, 0);
        let report = import(
            documents,
            collection,
            body,
            &options(*choice),
            &|| Ok(()),
            &mut Timeline::off(),
        );
        let shape = collection.shape();
        let mut count = 0;
        let each = for_each(documents, &shape, &|| Ok(()), |key, object| {
            count += 1;
            let document = document_of(&shape, object)?;
            assert!(packed::check(&document));
            let own = packed::open(&document).map(|document| document.attribute("_key").as_str());
            assert_eq!(own.ok().flatten().map(str::as_bytes), Some(key));
            Ok(())
        });
        each.expect("what was written can be read");
        assert_eq!(collection.count(), count);
        match report {
            Ok(report) => assert_eq!(report.created, count),
            // A complete import writes nothing. Others may have written documents before the error.
            Err(_) => assert!(choice & 16 == 0 || count == 0),
        }
    });
}
