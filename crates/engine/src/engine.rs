//! The engine: what an embedder holds.

use std::ops::Bound;
use std::path::Path;

use pellucid_account::Timeline;
use pellucid_clock::Ticks;

use crate::{
    Acknowledgement, Batch, EngineOptions, EngineStats, Error, Head, Object, Operation, Result,
    TableId, Written,
};

/// When the sync that made a write durable began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncTimes {
    /// The beginning, on the engine's clock.
    pub begun: Ticks,
    /// The end.
    pub ended: Ticks,
}

/// Called once a write is durable, or cannot be any more.
pub type DurableCallback = Box<dyn FnOnce(Result<SyncTimes>) + Send>;

/// A store that is open. Clones are the same store.
#[derive(Clone)]
pub struct Engine {}

#[expect(missing_docs, unused_variables, reason = "signatures first; being built")]
impl Engine {
    pub fn open(directory: impl AsRef<Path>, options: EngineOptions) -> Result<Engine> {
        unreachable!("being built")
    }
    pub fn table(&self, name: &str) -> Result<TableId> {
        unreachable!("being built")
    }
    pub fn tables(&self) -> Vec<(String, TableId)> {
        unreachable!("being built")
    }
    pub fn get(
        &self,
        table: TableId,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Result<Option<Object>> {
        unreachable!("being built")
    }
    pub fn head(
        &self,
        table: TableId,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Result<Option<Head>> {
        unreachable!("being built")
    }
    pub fn write(
        &self,
        batch: &Batch<'_>,
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Result<Written> {
        unreachable!("being built")
    }
    pub fn write_operations(
        &self,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Result<Written> {
        unreachable!("being built")
    }
    pub fn put(
        &self,
        table: TableId,
        key: &[u8],
        head: &[u8],
        value: &[u8],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Result<Written> {
        unreachable!("being built")
    }
    pub fn delete(
        &self,
        table: TableId,
        key: &[u8],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Result<Written> {
        unreachable!("being built")
    }
    pub fn wait_durable(&self, sequence: u64) -> Result<SyncTimes> {
        unreachable!("being built")
    }
    pub fn when_durable(&self, sequence: u64, callback: DurableCallback) {
        unreachable!("being built")
    }
    pub fn snapshot(&self) -> Snapshot {
        unreachable!("being built")
    }
    pub fn scan(
        &self,
        table: TableId,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<Scan> {
        unreachable!("being built")
    }
    pub fn flush(&self) -> Result<()> {
        unreachable!("being built")
    }
    pub fn compact(&self) -> Result<()> {
        unreachable!("being built")
    }
    pub fn close(&self) -> Result<()> {
        unreachable!("being built")
    }
    pub fn stats(&self) -> EngineStats {
        unreachable!("being built")
    }
}

/// The store as it was at one moment.
pub struct Snapshot {}

#[expect(missing_docs, unused_variables, reason = "signatures first; being built")]
impl Snapshot {
    pub fn sequence(&self) -> u64 {
        unreachable!("being built")
    }
    pub fn get(
        &self,
        table: TableId,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Result<Option<Object>> {
        unreachable!("being built")
    }
    pub fn head(
        &self,
        table: TableId,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Result<Option<Head>> {
        unreachable!("being built")
    }
    pub fn scan(
        &self,
        table: TableId,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<Scan> {
        unreachable!("being built")
    }
}

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key to the largest.
    Forward,
    /// From the largest key to the smallest.
    Backward,
}

/// The keys of a range, one after another.
pub struct Scan {}

#[expect(missing_docs, reason = "signatures first; being built")]
impl Scan {
    #[expect(clippy::should_implement_trait, reason = "it lends the key, which Iterator cannot")]
    pub fn next(&mut self) -> Result<Option<(&[u8], Object)>> {
        unreachable!("being built")
    }
    pub fn next_head(&mut self) -> Result<Option<(&[u8], Head)>> {
        unreachable!("being built")
    }
}

#[expect(unused, reason = "being built")]
type Unused = Error;
