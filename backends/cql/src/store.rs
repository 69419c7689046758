//! The store of kind `cql`: the interface of a store over a ring.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pellucid_account::{LateParts, Timeline};
use pellucid_store::{
    Acknowledgement, Answer, Condition, CurrentView, Head, Object, Operation, PartitionFunction,
    Properties, Range, ReplicaQuorum, ReplicatedStore, Result, Scan, Snapshot, Store, StoreError,
    Table, Workers, WriteOutcome,
};
use scylla::response::query_result::QueryResult;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};

use crate::conditional_write::ConditionalWrite;
use crate::consistency::{level_of, majority};
use crate::options::CqlOptions;
use crate::partitioned_table::{PartitionScheme, PartitionedTable};
use crate::parts;
use crate::plain_write::{self, entries_of};
use crate::read::{bound, find};
use crate::ring::Ring;
use crate::rows;
use crate::scan::scan;
use crate::schema::unexpected;

/// The number of buckets in the table `spaces` that means a table in parts.
const IN_PARTS: i32 = 0;
/// Number of threads that wait for pages of ranges in place of event loops.
const WORKERS: usize = 4;
const WORKER: &str = "pellucid-range";

/// A store over a ring of Cassandra or ScyllaDB nodes.
#[derive(Clone)]
pub struct CqlStore {
    ring: Arc<Ring>,
    workers: Arc<Workers>,
    level: Consistency,
    /// Number of copies that have to answer.
    ack: u32,
}

impl CqlStore {
    /// Connects to the ring, and creates the keyspace and its tables if they are missing.
    ///
    /// # Errors
    /// If no node can be reached, or the keyspace cannot be created or used.
    pub fn open(options: &CqlOptions) -> Result<CqlStore> {
        let ring = Ring::open(options)?;
        let ack = majority(ring.replication);
        let level = level_of(ReplicaQuorum { ack, from: ring.replication }, ring.replication)?;
        let workers = Workers::start(WORKER, WORKERS, options.in_flight_max)?;
        Ok(CqlStore { ring, workers: Arc::new(workers), level, ack })
    }

    /// Opens the table with this name and placement. A new table is added to the ring's list.
    ///
    /// # Errors
    /// If the table has another placement, or there are too many tables.
    fn space(&self, name: &str, placing: PartitionScheme) -> Result<Table> {
        let find =
            |spaces: &[Arc<PartitionedTable>]| spaces.iter().position(|space| space.name == name);
        let spaces = &self.ring.spaces;
        if let Some(at) = find(&spaces.read()) {
            return Ok(Table::of_number(at as u16));
        }
        let (ring, owned) = (Arc::clone(&self.ring), name.to_owned());
        let wanted = match placing {
            PartitionScheme::Buckets(buckets) => i32::from(buckets),
            PartitionScheme::Parts(_) => IN_PARTS,
        };
        let buckets = self.ring.wait(async move { agree(&ring, &owned, wanted).await })?;
        let placing = match (buckets, placing) {
            (IN_PARTS, PartitionScheme::Parts(part_of)) => PartitionScheme::Parts(part_of),
            (1.., PartitionScheme::Buckets(_)) => PartitionScheme::Buckets(buckets as u16),
            _ => {
                return Err(StoreError::Failed(format!("the table {name} is placed otherwise")));
            }
        };
        let mut spaces = spaces.write();
        let at = find(&spaces).unwrap_or(spaces.len());
        let Ok(number) = u16::try_from(at) else {
            return Err(StoreError::Unacceptable("there are too many tables".to_owned()));
        };
        if at == spaces.len() {
            spaces.push(Arc::new(PartitionedTable { name: name.to_owned(), placing }));
        }
        Ok(Table::of_number(number))
    }

    fn find<T: Send + 'static>(
        &self,
        statement: &PreparedStatement,
        (table, key): (Table, &[u8]),
        timeline: &mut Timeline,
        decode: fn(QueryResult) -> Result<Option<T>>,
    ) -> Answer<Option<T>> {
        told(find(&self.ring, (statement, self.level), table, key, timeline, decode))
    }

    fn begin_write(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        timeline: &mut Timeline,
    ) -> Result<Answer<WriteOutcome>> {
        let space = self.ring.space(table)?;
        let entries = entries_of(self.ring.value_bytes_max, &space, operations)?;
        let (is_in_parts, count) = (space.is_in_parts(), operations.len());
        if !is_in_parts && operations.iter().all(|each| each.condition == Condition::None) {
            return plain_write::write(&self.ring, self.level, space, entries, count, timeline);
        }
        if entries.iter().any(|entry| entry.place != entries[0].place) {
            let what = "the ring takes conditions only for keys of one part: divide the batch";
            return Err(StoreError::Unacceptable(what.to_owned()));
        }
        // A transaction commits at a majority, so the read before it needs one as well.
        let is_less = self.ack < majority(self.ring.replication);
        let level = if is_less { Consistency::Quorum } else { self.level };
        let ring = Arc::clone(&self.ring);
        let conditional = ConditionalWrite { ring, table, space, level, entries, count };
        let answer = self.ring.later(timeline, |_, laps| conditional.run(laps))?;
        // Writers to a table in parts retry a refused write themselves, on a thread that may block.
        // So the wait is here.
        Ok(if is_in_parts { Answer::Now(answer.wait_for(timeline)) } else { answer })
    }
}

/// The answer of a request, or the error because of which it was not sent.
fn told<T>(asked: Result<Answer<T>>) -> Answer<T> {
    asked.unwrap_or_else(|error| Answer::Now(Err(error)))
}

/// The placement of a table that all servers agree on: the one in the ring, or `wanted` if the ring
/// has none yet.
async fn agree(ring: &Arc<Ring>, name: &str, wanted: i32) -> Result<i32> {
    let mut laps = ring.no_laps();
    let mut look = bound(&ring.statements.space, &(name,))?;
    let found = async |statement, laps: &mut _| {
        let rows = ring.answer(statement, laps).await?.into_rows_result().map_err(unexpected)?;
        let row = rows.maybe_first_row::<(Option<i32>,)>().map_err(unexpected)?;
        Ok::<_, StoreError>(row.and_then(|(buckets,)| buckets))
    };
    if let Some(buckets) = found(look.clone(), &mut laps).await? {
        return Ok(buckets);
    }
    let mut note = bound(&ring.statements.note_space, &(name, wanted))?;
    // Whatever happened, a serial read follows.
    note.set_is_idempotent(true);
    note.set_serial_consistency(Some(SerialConsistency::Serial));
    ring.answer(note, &mut laps).await?;
    look.set_consistency(Consistency::Serial);
    found(look, &mut laps).await?.ok_or_else(|| unexpected("a table was noted and is not there"))
}

impl Store for CqlStore {
    fn table(&self, name: &str) -> Result<Table> {
        self.space(name, PartitionScheme::Buckets(self.ring.buckets))
    }

    fn table_in_parts(&self, name: &str, part_of: PartitionFunction) -> Result<Table> {
        self.space(name, PartitionScheme::Parts(part_of))
    }

    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>> {
        self.find(&self.ring.statements.get, (table, key), timeline, rows::object)
    }

    fn head(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>> {
        self.find(&self.ring.statements.head, (table, key), timeline, rows::head)
    }

    fn write(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        _: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<WriteOutcome> {
        told(self.begin_write(table, operations, timeline))
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        scan(&self.ring, self.level, table, range)
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let (sequence, store) = (self.ring.versions.now(), self.clone());
        Ok(Arc::new(CurrentView { store, sequence }))
    }

    fn properties(&self) -> Properties {
        Properties {
            copies: self.ring.replication,
            value_bytes_max: self.ring.value_bytes_max,
            part_names: &parts::NAMES,
            ranges_wait: true,
        }
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = vec![
            ("cql_requests_total", self.ring.asked.load(Ordering::Relaxed)),
            ("cql_requests_in_flight", self.ring.in_flight() as u64),
        ];
        figures.extend(self.ring.traces.figures());
        figures
    }

    fn workers(&self) -> Option<&Workers> {
        Some(&self.workers)
    }

    fn close(&self) -> Result<()> {
        self.ring.close();
        Ok(())
    }

    fn replicated(&self) -> Option<&dyn ReplicatedStore> {
        Some(self)
    }
}

impl ReplicatedStore for CqlStore {
    fn waiting_for(&self, copies: ReplicaQuorum) -> Result<Option<Arc<dyn Store>>> {
        let level = level_of(copies, self.ring.replication)?;
        if level == self.level {
            return Ok(None);
        }
        Ok(Some(Arc::new(CqlStore { level, ack: copies.ack, ..self.clone() })))
    }

    fn late_parts(&self) -> Vec<LateParts> {
        self.ring.traces.late_parts()
    }

    fn sequence_now(&self) -> Option<u64> {
        Some(self.ring.versions.now())
    }
}
