//! The thread that removes garbage, and expired documents and cursors. While another process serves
//! the documents of the store, it only removes expired cursors and tries to take over.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pellucid_clock::WallTime;
use pellucid_document::Documents;
use pellucid_thread::{Job, PeriodicThread};

use crate::log::Log;

use super::cursors::{Cursors, uptime_ms};

/// The interval at which expired documents are removed, in steps of [`REST`]. While more are left
/// than one step removes, the next one goes on.
const STEPS_BETWEEN_EXPIRIES: u32 = 30;

/// The time between two steps.
const REST: Duration = Duration::from_secs(1);

/// The most removals in a row within one step.
const STEPS_MAX: usize = 64;

/// Starts the thread.
pub(super) fn start(
    documents: &Arc<Documents>,
    cursors: &Arc<Cursors>,
    log: Log,
) -> io::Result<PeriodicThread> {
    static UPKEEP: Job = Job::new("upkeep");
    let (documents, cursors) = (Arc::clone(documents), Arc::clone(cursors));
    let (mut step, mut is_behind, mut refusal) = (0, false, None);
    PeriodicThread::start("pellucid-upkeep", &UPKEEP, REST, move || {
        cursors.remove_expired(uptime_ms());
        step = (step + 1) % STEPS_BETWEEN_EXPIRIES;
        let refused = documents.serve().err().map(|error| error.to_string());
        if refused != refusal {
            let served = "the documents of the store are served by this server now";
            log.write(refused.as_deref().unwrap_or(served));
            refusal = refused;
        }
        if refusal.is_some() {
            return;
        }
        for name in documents.take_orphans() {
            log.write(&format!(
                "the collection {name} is left out: the store has no definition of its database"
            ));
        }
        let (more, ended) = look_after(&documents, step == 0 || is_behind);
        is_behind = more;
        if let Err(error) = ended {
            log.write(&format!("the upkeep of documents failed: {error}"));
        }
    })
}

/// Removes garbage, and expired documents if `expires`. Returns true if more of these may be left.
fn look_after(documents: &Arc<Documents>, expires: bool) -> (bool, pellucid_document::Result<()>) {
    let (mut is_behind, mut ended) = (expires, remove_garbage(documents));
    let now_seconds = WallTime::now().unix_ms() as f64 / 1e3;
    for _ in 0..STEPS_MAX {
        if !is_behind {
            break;
        }
        let (removed, step) = pellucid_document::remove_expired(documents, now_seconds);
        (is_behind, ended) = (removed > 0, ended.and(step));
    }
    (is_behind, ended)
}

fn remove_garbage(documents: &Arc<Documents>) -> pellucid_document::Result<()> {
    for _ in 0..STEPS_MAX {
        if !documents.remove_garbage()? {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_account::Timeline;
    use pellucid_document::{
        Collection, CollectionDefinition, IndexDefinition, IndexKind, TABLE, WriteOptions,
        attempt_to_end, create_index,
    };
    use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
    use pellucid_store::{Acknowledgement, Operation, Store};
    use pellucid_value::{DuplicateRule, Ref, json, packed};

    /// A store with a collection `c` of as many documents, which are all expired.
    fn with_expired(count: u64) -> (tempfile::TempDir, Arc<Documents>, Arc<Collection>) {
        let folder = tempfile::TempDir::new().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let documents = Arc::new(Documents::open_named(store, "test").unwrap());
        let system = documents.database("_system").unwrap();
        let new = CollectionDefinition::named("c");
        let collection = documents.create_collection(&system, new).unwrap();
        let ttl = IndexDefinition {
            kind: IndexKind::Ttl,
            expire_after_seconds: Some(0.0),
            sparse: true,
            ..IndexDefinition::persistent(&["at"])
        };
        create_index(&documents, &collection, ttl).unwrap();
        let (os, mut timeline) = (Acknowledgement::Os, Timeline::off());
        attempt_to_end(&documents, os, false, &mut timeline, |transaction, timeline| {
            for number in 0..count {
                let text = format!(r#"{{"_key":"k{number}","at":{number}}}"#);
                let body = json::parse_packed(text.as_bytes(), DuplicateRule::Refuse).unwrap();
                let body = packed::open(&body).ok().and_then(Ref::as_object).unwrap();
                transaction.insert(&collection, body, &WriteOptions::default(), timeline)?;
            }
            Ok(())
        })
        .unwrap();
        (folder, documents, collection)
    }

    /// Regression: the upkeep ended at the first document that it could not remove, so that each
    /// index got one step in 30 s.
    #[test]
    fn documents_expire_beside_one_that_cannot_be_removed() {
        let (_folder, documents, collection) = with_expired(500);
        let key = [collection.shape().documents_prefix(), b"k0"].concat();
        let damage = Operation::plain(&key, Some(b"damaged"));
        let (store, mut timeline) = (documents.store(), Timeline::off());
        let table = store.table(TABLE).unwrap();
        store.write(table, &[damage], Acknowledgement::Os, &mut timeline).wait().unwrap();
        let error = look_after(&documents, true).1.unwrap_err();
        assert!(error.message.contains("document c/k0"), "{error}");
        assert_eq!(collection.count(), 1);
    }

    /// Regression: after 12,800 documents, the upkeep rested for 30 s, so that a collection that
    /// expired faster grew for ever.
    #[test]
    fn the_upkeep_tells_that_more_documents_are_expired() {
        let (_folder, documents, collection) = with_expired(13_000);
        assert_eq!(look_after(&documents, true), (true, Ok(())));
        assert!(collection.count() > 0);
        assert_eq!(look_after(&documents, true), (false, Ok(())));
        assert_eq!(collection.count(), 0);
    }
}
