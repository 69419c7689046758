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

/// The interval at which expired documents are removed, in steps of [`REST`].
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
    let (mut step, mut refusal) = (0, None);
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
        if let Err(error) = look_after(&documents, step == 0) {
            log.write(&format!("the upkeep of documents failed: {error}"));
        }
    })
}

fn look_after(documents: &Arc<Documents>, expires: bool) -> pellucid_document::Result<()> {
    let mut ended = remove_garbage(documents);
    if expires {
        let now_seconds = WallTime::now().unix_ms() as f64 / 1e3;
        for _ in 0..STEPS_MAX {
            let (removed, step) = pellucid_document::remove_expired(documents, now_seconds);
            ended = ended.and(step);
            if removed == 0 {
                break;
            }
        }
    }
    ended
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
        CollectionDefinition, IndexDefinition, IndexKind, TABLE, WriteOptions, attempt_to_end,
        create_index,
    };
    use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
    use pellucid_store::{Acknowledgement, Operation, Store};
    use pellucid_value::{DuplicateRule, Ref, json, packed};

    /// Regression: the upkeep ended at the first document that it could not remove, so that each
    /// index got one step in 30 s.
    #[test]
    fn documents_expire_beside_one_that_cannot_be_removed() {
        const COUNT: u64 = 500;
        let folder = tempfile::TempDir::new().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let documents = Arc::new(Documents::open_named(Arc::clone(&store), "test").unwrap());
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
            for number in 0..COUNT {
                let text = format!(r#"{{"_key":"k{number}","at":{number}}}"#);
                let body = json::parse_packed(text.as_bytes(), DuplicateRule::Refuse).unwrap();
                let body = packed::open(&body).ok().and_then(Ref::as_object).unwrap();
                transaction.insert(&collection, body, &WriteOptions::default(), timeline)?;
            }
            Ok(())
        })
        .unwrap();
        let key = [collection.shape().documents_prefix(), b"k0"].concat();
        let damage = Operation::plain(&key, Some(b"damaged"));
        let table = store.table(TABLE).unwrap();
        store.write(table, &[damage], Acknowledgement::Os, &mut timeline).wait().unwrap();
        let error = look_after(&documents, true).unwrap_err();
        assert!(error.message.contains("document c/k0"), "{error}");
        assert_eq!(collection.count(), 1);
    }
}
