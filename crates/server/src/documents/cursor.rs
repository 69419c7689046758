//! Cursors: results of queries that are returned in batches.

use pellucid_aql::{Execution, QueryError};
use pellucid_budget::Share;
use pellucid_document::{CommitSequences, DocumentError, ErrorNumber, QueryData};
use pellucid_store::StoreError;
use pellucid_value::{Number, Value, json};

use super::encoding::Encoding;
use super::memory::over_budget;
use super::owner::Owner;
use super::query_extra::{PlannedQuery, trailer};
use super::running_queries::QueryRegistration;

/// The bytes at which a batch ends, even if more values were asked for: 16 MiB.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// The bytes of a cursor in memory besides its result.
const CURSOR_BYTES: usize = 1 << 10;

/// The beginning of a batch before its values.
pub(super) const RESULT_BEGIN: &[u8] = b"{\"result\":[";

/// The most bytes of a batch besides its values and its trailer.
const ENVELOPE_BYTES_MAX: usize = 256;

/// The rest of a result.
pub(super) enum ResultRemainder {
    /// The result is computed, and takes `bytes` bytes of memory.
    Ready { values: std::vec::IntoIter<Value>, bytes: usize },
    /// The result is computed batch by batch.
    Stream(Box<StreamedQuery>),
}

/// A streamed query: each batch is computed when it is asked for.
pub(super) struct StreamedQuery {
    pub(super) execution: Execution,
    pub(super) query: PlannedQuery,
}

/// A result that is returned in batches.
pub(super) struct Cursor {
    pub(super) id: u64,
    /// The number of its database: a later one of the same name is another.
    pub(super) database: u64,
    pub(super) owner: Owner,
    /// The collections whose documents may be in further batches.
    pub(super) collections: Vec<String>,
    /// The text of a streamed query; empty for others.
    pub(super) text: String,
    pub(super) rest: ResultRemainder,
    pub(super) batch_size: usize,
    /// The number of the next batch.
    pub(super) next_batch: u64,
    /// The members of each batch besides its values.
    pub(super) trailer: Vec<u8>,
    pub(super) ttl_ms: u64,
    /// The time at which it expires, by [`super::cursors::uptime_ms`].
    pub(super) expires_at_ms: u64,
    /// The number and the body of the last batch, if it may be asked for again.
    pub(super) last_batch: Option<(u64, Vec<u8>)>,
    pub(super) may_retry: bool,
    pub(super) is_exhausted: bool,
    /// The commit of the query's writes, whose revisions replace provisional ones in the result.
    pub(super) committed: Option<CommitSequences>,
    /// The entry in the list of running queries, if the result is streamed.
    pub(super) listed: Option<QueryRegistration>,
    /// The share of memory for the cursor itself, without that of a streamed query.
    pub(super) memory: Share,
}

impl Cursor {
    /// The approximate bytes of memory that it takes.
    pub(super) fn size_bytes(&self) -> usize {
        let of_query = match &self.rest {
            ResultRemainder::Ready { .. } => 0,
            ResultRemainder::Stream(streamed) => streamed.execution.memory_bytes(),
        };
        of_query + self.own_bytes()
    }

    /// The bytes of [`Self::size_bytes`] without those that a streamed query has taken itself.
    fn own_bytes(&self) -> usize {
        let rest = match &self.rest {
            ResultRemainder::Ready { bytes, .. } => *bytes,
            ResultRemainder::Stream(_) => 0,
        };
        let last_batch = self.last_batch.as_ref().map_or(0, |(_, body)| body.capacity());
        CURSOR_BYTES + rest + last_batch + self.text.len() + self.trailer.len()
    }

    /// Adjusts its share of memory to the bytes that it takes now.
    ///
    /// # Errors
    /// 32 if there is not enough memory.
    pub(super) fn settle_memory(&mut self) -> Result<(), DocumentError> {
        let (held, own) = (self.memory.held_bytes(), self.own_bytes());
        if own > held {
            return self.memory.take(own - held).map_err(over_budget);
        }
        self.memory.give_back(held - own);
        Ok(())
    }

    /// Writes the next batch to `out`, and moves on. `note` is called after a step of a streamed
    /// query.
    ///
    /// # Errors
    /// 32 without memory, 1500 if the call was ended, and errors of a streamed query.
    pub(super) fn write_batch(
        &mut self,
        status: u16,
        out: &mut Encoding<'_>,
        note: impl FnOnce(&str, &Execution, &QueryData),
    ) -> Result<(), DocumentError> {
        out.bytes(RESULT_BEGIN)?;
        let has_more = match self.rest {
            ResultRemainder::Ready { .. } => self.write_ready(out)?,
            ResultRemainder::Stream(_) => self.write_streamed(out, note)?,
        };
        if let Some(committed) = self.committed {
            committed.settle_revisions(out.body_mut());
        }
        let number = self.next_batch;
        out.reserve(self.trailer.len() + ENVELOPE_BYTES_MAX)?;
        let next = has_more.then_some((self.id, number + 1));
        let trailer = |out: &mut Vec<u8>| match self.trailer.is_empty() {
            true => out.extend_from_slice(b",\"extra\":{\"warnings\":[],\"stats\":{}}"),
            false => out.extend_from_slice(&self.trailer),
        };
        end_result(next, trailer, status, out.body_mut());
        self.next_batch += 1;
        self.is_exhausted = !has_more;
        if self.may_retry {
            self.memory.take(out.len()).map_err(over_budget)?;
            self.last_batch = Some((number, out.body_mut().clone()));
        }
        Ok(())
    }

    /// Writes the next values of a computed result. Returns true if there are more.
    fn write_ready(&mut self, out: &mut Encoding<'_>) -> Result<bool, DocumentError> {
        let ResultRemainder::Ready { values, bytes } = &mut self.rest else { return Ok(false) };
        let before = values.len().max(1);
        let mut given = 0;
        while given < self.batch_size && (given == 0 || out.len() < BATCH_BYTES_MAX) {
            let Some(value) = values.next() else { break };
            if given > 0 {
                out.bytes(b",")?;
            }
            out.value(&value)?;
            given += 1;
        }
        // The memory of the written values is free. Assume that all values are equally large.
        let share = values.len() as f64 / before as f64;
        *bytes = (*bytes as f64 * share) as usize;
        Ok(values.len() > 0)
    }

    /// Computes and writes the next values of a streamed result. Returns true if there are more.
    fn write_streamed(
        &mut self,
        out: &mut Encoding<'_>,
        note: impl FnOnce(&str, &Execution, &QueryData),
    ) -> Result<bool, DocumentError> {
        let ResultRemainder::Stream(streamed) = &mut self.rest else { return Ok(false) };
        let StreamedQuery { execution, query } = &mut **streamed;
        let next = execution.next(self.batch_size, BATCH_BYTES_MAX);
        note(&self.text, execution, &query.data);
        let values = next.map_err(|error| running_error(&error))?;
        for (place, value) in values.iter().enumerate() {
            if place > 0 {
                out.bytes(b",")?;
            }
            out.value(value)?;
        }
        drop(values);
        execution.free_kept();
        let more = !execution.is_done();
        match more {
            true => execution.release(),
            false => self.trailer = trailer(None, execution, query),
        }
        Ok(more)
    }
}

/// Appends the end of a batch behind its values. `next` is the id of the cursor and the number of
/// the next batch, if there is one.
pub(super) fn end_result(
    next: Option<(u64, u64)>,
    write_trailer: impl FnOnce(&mut Vec<u8>),
    status: u16,
    out: &mut Vec<u8>,
) {
    match next {
        None => out.extend_from_slice(b"],\"hasMore\":false"),
        Some((id, next)) => {
            let next = format!("],\"hasMore\":true,\"id\":\"{id}\",\"nextBatchId\":\"{next}\"");
            out.extend_from_slice(next.as_bytes());
        }
    }
    out.extend_from_slice(b",\"cached\":false");
    write_trailer(out);
    out.extend_from_slice(b",\"error\":false,\"code\":");
    json::write_number(Number::Uint(status.into()), out);
    out.push(b'}');
}

/// Makes the error of a query that failed while it ran.
pub(super) fn running_error(error: &QueryError) -> DocumentError {
    let number = ErrorNumber(error.number());
    // Errors of queries have no cause, but only stores fail with this number.
    let cause = (number == ErrorNumber::INTERNAL).then(|| StoreError::Failed(error.to_string()));
    let message = format!("AQL: {error} (while executing)");
    DocumentError { cause: cause.map(Box::new), ..DocumentError::new(number, message) }
}
