//! Responses on their way to the kernel, and the end of their accounts.

use std::collections::VecDeque;
use std::io::ErrorKind;

use mio::net::TcpStream;
use pellucid_account::{Phase, Record};
use pellucid_budget::{Budget, OverBudget, Share};
use pellucid_thread::{LOOP_PHASE, set_phase};

use crate::connection::{Connection, Finished};
use crate::cuts::Cut;
use crate::event_loop::{EventLoop, Fate};
use crate::limits::{BATCH_CONNECTIONS_MAX, OUTPUT_BYTES_FREE, RESPONSE_BYTES_FREE};
use crate::service::{Handled, Service};
use crate::socket::send;
use crate::tls::Sent;

/// An output buffer that has grown beyond this is given back.
pub(crate) const OUTPUT_KEPT_BYTES: usize = 1024 * 1024;

/// Queues of responses that a loop keeps for its connections: as many as a batch may need, and one.
pub(crate) const SPARE_QUEUES_MAX: usize = BATCH_CONNECTIONS_MAX + 1;

/// A queue that has grown beyond this many responses, by pipelining, is given back.
const QUEUE_KEPT_RESPONSES: usize = 16;

impl<S: Service> EventLoop<S> {
    /// Notes a response that is encoded up to `end` of what follows the connection's output: it is
    /// recorded when it is out.
    #[inline]
    pub(crate) fn finish(
        &mut self,
        connection: &mut Connection,
        record: Option<Record>,
        end: usize,
    ) {
        if connection.finished.capacity() == 0
            && let Some(spare) = self.spare_queues.pop()
        {
            connection.finished = spare;
        }
        let encrypted_ticks = connection.encrypted_ticks();
        let end = connection.output.len() + end;
        connection.finished.push_back(Finished { record, end, encrypted_ticks });
    }

    /// Keeps the queue of a connection whose responses are all out.
    #[inline]
    fn keep_queue(&mut self, queue: VecDeque<Finished>) {
        let is_small = queue.capacity() <= QUEUE_KEPT_RESPONSES;
        if is_small && self.spare_queues.len() < SPARE_QUEUES_MAX {
            self.spare_queues.push(queue);
        }
    }

    /// Writes `out`, which ends with the responses in `connection.finished`, and records those that
    /// are out. What the kernel does not take stays with the connection.
    pub(crate) fn flush(&mut self, connection: &mut Connection, out: &mut Vec<u8>) -> Fate {
        if connection.has_unsent() || out.len() <= OUTPUT_KEPT_BYTES {
            return self.send_behind(connection, out);
        }
        // So large a buffer is not kept for others, so the rest need not be copied.
        let Some(sent) = self.send_out(connection, out) else { return Fate::Drop };
        out.drain(..sent);
        connection.output = std::mem::take(out);
        self.count_output(connection)
    }

    /// Writes `bytes` behind what the connection has unsent: where there is something, they wait
    /// until that is out.
    pub(crate) fn send_behind(&mut self, connection: &mut Connection, bytes: &[u8]) -> Fate {
        let mut sent = 0;
        if !connection.has_unsent() {
            let Some(count) = self.send_out(connection, bytes) else { return Fate::Drop };
            sent = count;
        }
        connection.output.extend_from_slice(&bytes[sent..]);
        self.count_output(connection)
    }

    /// Takes memory for what the connection has unsent. Where there is none, a client that does not
    /// take its responses is cut.
    #[inline]
    fn count_output(&mut self, connection: &mut Connection) -> Fate {
        if connection.output.len() <= OUTPUT_BYTES_FREE {
            connection.output_memory = None;
            return Fate::Keep;
        }
        let memory = &self.limits.memory;
        let share = connection.output_memory.get_or_insert_with(|| memory.share(usize::MAX));
        let (bytes, held) = (connection.output.capacity(), share.held_bytes());
        if bytes <= held {
            share.give_back(held - bytes);
        } else if share.take(bytes - held).is_err() {
            self.shared.cuts.connection(Cut::Memory);
            return Fate::Drop;
        }
        Fate::Keep
    }

    /// Takes memory for a response that may have to wait for its client: for `written_bytes` of it,
    /// which its connection holds, and for what its source brings of its own.
    pub(crate) fn hold_response(
        &self,
        connection: &mut Connection,
        written_bytes: usize,
        handled: &Handled,
    ) -> Result<Option<Share>, OverBudget> {
        let memory = &self.limits.memory;
        if written_bytes > RESPONSE_BYTES_FREE {
            let share = connection.output_memory.get_or_insert_with(|| memory.share(usize::MAX));
            share.take(written_bytes)?;
        }
        hold_source(memory, handled)
    }

    /// Writes as much of `out` as the kernel takes, and records the responses that are out. Returns
    /// how many bytes went, or nothing if the socket is of no more use.
    fn send_out(&mut self, connection: &mut Connection, out: &[u8]) -> Option<usize> {
        set_phase(Phase::Write.label());
        let Sent { bytes: sent, progressed, failed } = self.write(connection, out);
        set_phase(LOOP_PHASE);
        if sent > 0 {
            self.record_written(connection, sent);
        }
        let is_rest = sent < out.len();
        if is_rest || connection.taking.is_begun() {
            let now = self.clock.now();
            connection.taking.note(sent as u64, is_rest, now);
            if progressed && is_rest {
                connection.progress_at = now;
            }
        }
        (!failed).then_some(sent)
    }

    /// Writes what the connection has unsent, as far as the kernel takes it.
    pub(crate) fn flush_rest(&mut self, connection: &mut Connection) -> Fate {
        let mut output = std::mem::take(&mut connection.output);
        let Some(sent) = self.send_out(connection, &output) else { return Fate::Drop };
        if sent == output.len() {
            connection.progress_at = self.clock.now();
        } else {
            output.drain(..sent);
            connection.output = output;
        }
        Fate::Keep
    }

    fn write(&mut self, connection: &mut Connection, out: &[u8]) -> Sent {
        let Some(tls) = &mut connection.tls else { return write_all(&connection.socket, out) };
        tls.send(&connection.socket, out, &self.shared.tls[self.index], &self.clock)
    }

    fn record_written(&mut self, connection: &mut Connection, sent: usize) {
        let written = self.read_clock();
        let is_encrypted = connection.tls.is_some();
        let encrypted_ticks = connection.encrypted_ticks();
        let mut queue = std::mem::take(&mut connection.finished);
        let out = queue.iter().take_while(|finished| finished.end <= sent).count();
        // In their places: they are large, and nearly always all of them are out.
        for Finished { record, encrypted_ticks: before, .. } in queue.range_mut(..out) {
            let Some(record) = record else { continue };
            if is_encrypted {
                self.recorder.record_encrypted(record, written, encrypted_ticks - *before);
            } else {
                self.recorder.record_sealed(record, Some(written));
            }
        }
        if out == queue.len() {
            queue.clear();
            self.keep_queue(queue);
        } else {
            queue.drain(..out);
            queue.iter_mut().for_each(|finished| finished.end -= sent);
            connection.finished = queue;
        }
    }
}

/// Takes memory for what a streamed response holds until it is out.
pub(crate) fn hold_source(memory: &Budget, handled: &Handled) -> Result<Option<Share>, OverBudget> {
    match handled {
        Handled::Stream(source) if source.held_bytes() > RESPONSE_BYTES_FREE => {
            let mut share = memory.share(usize::MAX);
            share.take(source.held_bytes())?;
            Ok(Some(share))
        }
        _ => Ok(None),
    }
}

fn write_all(socket: &TcpStream, out: &[u8]) -> Sent {
    let (mut bytes, mut failed) = (0, false);
    while bytes < out.len() {
        match send(socket, &out[bytes..]) {
            Ok(count @ 1..) => bytes += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => {
                failed = true;
                break;
            }
        }
    }
    Sent { bytes, progressed: bytes > 0, failed }
}
