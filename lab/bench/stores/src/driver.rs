//! The baseline of the comparison: the `scylla` driver without Pellucid, with the statements, the
//! consistency and the compression of the store.

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::frame::Compression;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::runtime::{Builder, Runtime};

use crate::{Outcome, text};

/// The number of threads of the driver; the store has as many.
const THREADS: usize = 2;
/// The number of partitions that the keys are spread over; the store has as many.
const BUCKETS: u16 = 64;

/// A client of the ring that uses the driver directly.
pub struct Driver {
    runtime: Runtime,
    session: Session,
    put: PreparedStatement,
    get: PreparedStatement,
}

impl Driver {
    /// Connects to a ring that has the keyspace.
    pub fn open(nodes: &[&str], keyspace: &str) -> Outcome<Driver> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = runtime.map_err(text)?;
        let (session, put, get) = runtime.block_on(async {
            let builder = SessionBuilder::new().known_nodes(nodes);
            let session = builder.compression(Some(Compression::Lz4)).build().await;
            let session = session.map_err(text)?;
            let prepare = async |statement: String| {
                let mut statement = session.prepare(statement).await.map_err(text)?;
                statement.set_consistency(Consistency::Quorum);
                statement.set_is_idempotent(true);
                Ok::<_, String>(statement)
            };
            let put = prepare(format!(
                "INSERT INTO {keyspace}.contents (space, part, key, version, expires, length, \
                 value) VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?"
            ));
            let put = put.await?;
            let get = prepare(format!(
                "SELECT version, expires, value FROM {keyspace}.contents WHERE space = ? AND \
                 part = ? AND key = ?"
            ));
            let mut get = get.await?;
            // As the store: answers without it carry a description of their columns.
            get.set_use_cached_result_metadata(true);
            Ok::<_, String>((session, put, get))
        })?;
        Ok(Driver { runtime, session, put, get })
    }

    /// Puts an entry if `method` is PUT, otherwise gets it, and waits for the answer.
    pub fn ask(&self, method: &str, key: &str, value: &str) -> Outcome<()> {
        // Keys are `key` and a number. The store hashes the key to find the bucket.
        let number: u16 = key[3..].parse().map_err(text)?;
        let [high, low] = (number % BUCKETS).to_be_bytes();
        let (space, part) = ("driver", vec![b'b', high, low]);
        let (key, value) = (key.as_bytes(), value.as_bytes());
        self.runtime.block_on(async {
            if method == "PUT" {
                let row = (space, part, key, 1_i64, 0_i64, value.len() as i64, value, 0_i32);
                self.session.execute_unpaged(&self.put, row).await.map_err(text)?;
                return Ok(());
            }
            let found = self.session.execute_unpaged(&self.get, (space, part, key)).await;
            let rows = found.map_err(text)?.into_rows_result().map_err(text)?;
            type Row = (Option<i64>, Option<i64>, Option<Vec<u8>>);
            let row = rows.maybe_first_row::<Row>().map_err(text)?;
            row.map(|_| ()).ok_or_else(|| "an entry is missing".to_owned())
        })
    }
}
