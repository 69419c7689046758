//! The socket side of a connection: its socket, its TLS, and its output.

use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::time::Duration;

use mio::net::TcpStream;
use pellucid_account::Phase;
use pellucid_clock::{Clock, Ticks};
use pellucid_thread::{LOOP_PHASE, set_phase};

use crate::abort_reason::AbortReason;
use crate::accounts::{Accounts, TurnTimestamps};
use crate::disconnects::DisconnectReason;
use crate::limits::Limits;
use crate::output::Output;
use crate::pace::Pace;
use crate::ready_list::PeerState;
use crate::socket::{ReadOutcome, receive, receive_some, send};
use crate::tls::{Session, WriteResult, add};

/// The most capacity that a buffer of the event loop keeps between two uses.
pub(crate) const OUTPUT_KEPT_BYTES: usize = 1024 * 1024;

/// The error of a connection that must be closed, with the ending of its requests under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionError(pub(crate) AbortReason);

/// The result of a step of a connection's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There may be more to do.
    Again,
    /// There is nothing to do until the next event.
    Blocked,
}

/// The result of a step, or of a part of one.
pub(crate) type StepResult<T = Step> = Result<T, ConnectionError>;

/// The socket side of one connection.
pub(crate) struct Transport {
    socket: TcpStream,
    /// The TLS session; none on a listener without TLS.
    tls: Option<Box<Session>>,
    pub(crate) output: Output,
    /// The last time at which anything went in, or at which output that waited went out or began to
    /// wait.
    pub(crate) progress_at: Ticks,
    /// The pace at which the client takes its responses.
    pub(crate) pace: Pace,
    /// The moment at which the end of the peer's input became known.
    pub(crate) ended_at: Option<Ticks>,
    /// True if the peer neither sends nor receives: the connection was reset, or closed by both.
    pub(crate) is_gone: bool,
    /// True if all bytes that the kernel had were read, and no event has come since: another read
    /// would be a wasted system call.
    pub(crate) is_drained: bool,
}

/// True if more than `limit` has passed between `since` and `now`.
pub(crate) fn is_longer(clock: &Clock, since: Ticks, limit: Duration, now: Ticks) -> bool {
    let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    clock.nanoseconds(now.since(since)) > limit_ns
}

impl Transport {
    pub(crate) fn new(socket: TcpStream, tls: Option<Box<Session>>, now: Ticks) -> Transport {
        Transport {
            socket,
            tls,
            output: Output::default(),
            progress_at: now,
            pace: Pace::default(),
            ended_at: None,
            is_gone: false,
            is_drained: false,
        }
    }

    pub(crate) fn into_socket(self) -> TcpStream {
        self.socket
    }

    /// Notes an event: the state of the peer, and that there may be something to read.
    #[inline]
    pub(crate) fn note_event(&mut self, peer: PeerState, woke: Ticks) {
        if peer != PeerState::Open {
            self.ended_at.get_or_insert(woke);
            self.is_gone |= peer == PeerState::Gone;
        }
        self.is_drained = false;
    }

    /// True if the peer sends no more: then a read returns the rest, the end, or an error.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        self.ended_at.is_some()
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    pub(crate) fn agreed_on_http2(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.agreed_on_http2())
    }

    /// Continues without TLS, for a client that does not speak it: its handshake has failed.
    pub(crate) fn drop_tls(&mut self, accounts: &Accounts) {
        add(&accounts.tls_meter().handshakes_failed, 1);
        self.tls = None;
    }

    /// Begins a turn of this connection in the wake-up at `woke`; there may be several.
    #[inline]
    pub(crate) fn begin_turn(&mut self, woke: Ticks) {
        if let Some(tls) = &mut self.tls {
            tls.wake(woke);
        }
    }

    /// The readings of a turn in which nothing was read yet.
    #[inline]
    pub(crate) fn turn(&self, woke: Ticks, attended: Ticks) -> TurnTimestamps {
        let mut turn = TurnTimestamps::at(woke, attended);
        if let Some(tls) = &self.tls {
            turn.decrypted_before = tls.decrypted_before_ticks();
            turn.decrypted = tls.decrypted_ticks();
        }
        turn
    }

    /// True if output waits until the kernel takes it.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        !self.output.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Reads into `plain`, and notes the times in `turn`. `wire` is the buffer for ciphertext.
    pub(crate) fn read(
        &mut self,
        plain: &mut [u8],
        wire: &mut [u8],
        turn: &mut TurnTimestamps,
        accounts: &mut Accounts,
    ) -> io::Result<ReadOutcome> {
        let Some(tls) = &mut self.tls else { return self.read_plain(plain, turn, accounts) };
        let meter = accounts.tls_meter();
        let read = tls.receive(&self.socket, wire, plain, meter, accounts.clock());
        turn.received = accounts.read_clock();
        turn.decrypted = tls.decrypted_ticks();
        read
    }

    /// Reads like [`Transport::read`], on a connection without TLS.
    #[inline]
    pub(crate) fn read_plain(
        &self,
        plain: &mut [u8],
        turn: &mut TurnTimestamps,
        accounts: &mut Accounts,
    ) -> io::Result<ReadOutcome> {
        let read = receive_some(&self.socket, plain);
        turn.received = accounts.read_clock();
        read
    }

    /// Writes `bytes` behind the unsent bytes of the output, as far as the kernel takes them, and
    /// records the responses that are out. The rest stays in the output; owned bytes are moved
    /// there, if the output is empty, and not copied.
    pub(crate) fn send(&mut self, bytes: Cow<'_, [u8]>, accounts: &mut Accounts) -> StepResult<()> {
        if !self.output.is_empty() {
            self.output.extend(&bytes);
            return self.hold_unsent(accounts);
        }
        set_phase(Phase::Write.label());
        let WriteResult { bytes: sent, progressed, failed } = match &mut self.tls {
            None => write_plain(&self.socket, &bytes),
            Some(tls) => {
                let sent = tls.send(&self.socket, &bytes, accounts.tls_meter(), accounts.clock());
                self.output.note_encrypted(tls.encrypted_ticks());
                sent
            }
        };
        set_phase(LOOP_PHASE);
        if sent > 0 {
            accounts.note_sent(&mut self.output, sent, self.tls.is_some());
        }
        let is_rest = sent < bytes.len();
        if is_rest || self.pace.is_begun() {
            let now = accounts.clock().now();
            // The client has taken all that came before, so its time begins with the wait.
            let begins = self.pace.waiting_since().is_none();
            self.pace.note(sent as u64, is_rest, now);
            if is_rest && (progressed || begins) {
                self.progress_at = now;
            }
        }
        if failed {
            return Err(ConnectionError(AbortReason::ClientGone));
        }
        if is_rest {
            self.output.put_back(bytes, sent);
        }
        self.hold_unsent(accounts)
    }

    /// Writes the unsent bytes, as far as the kernel takes them.
    pub(crate) fn send_rest(&mut self, accounts: &mut Accounts) -> StepResult<()> {
        let unsent = self.output.take();
        self.send(Cow::Owned(unsent), accounts)?;
        if self.output.is_empty() {
            self.progress_at = accounts.clock().now();
        }
        Ok(())
    }

    /// Takes memory from the budget for the unsent bytes. If there is none, the client is cut.
    #[inline]
    fn hold_unsent(&mut self, accounts: &Accounts) -> StepResult<()> {
        self.output.hold_unsent(accounts.memory()).map_err(|_| {
            accounts.shared().cuts.connections.add(DisconnectReason::Memory);
            ConnectionError(DisconnectReason::Memory.into())
        })
    }

    /// The reason to cut the client, if it does not take its responses, or takes them too slowly.
    pub(crate) fn cut_of_reader(
        &self,
        limits: &Limits,
        clock: &Clock,
        now: Ticks,
    ) -> Option<DisconnectReason> {
        if !self.has_unsent() {
            return None;
        }
        if is_longer(clock, self.progress_at, limits.exchange, now) {
            return Some(DisconnectReason::ResponseStalled);
        }
        let rate = limits.response_bytes_per_second;
        let is_slow = self.pace.is_slow(limits.exchange, rate, clock, now);
        is_slow.then_some(DisconnectReason::ResponseSlow)
    }

    /// Tells the client that nothing follows.
    pub(crate) fn end_output(&mut self) {
        self.close_tls();
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    fn close_tls(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&self.socket);
        }
    }

    /// Reads and throws away input; returns how many bytes, zero at the end of the stream.
    pub(crate) fn discard_input(&self, scratch: &mut [u8]) -> io::Result<usize> {
        receive(&self.socket, scratch)
    }

    /// Makes the closing a reset, which is an error to the client: a plain end would look like the
    /// end of the response.
    pub(crate) fn end_with_reset(&self) {
        let _ = socket2::SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
    }

    /// Ends the connection, and ends the accounts of the responses that were not sent.
    pub(crate) fn end(mut self, is_clean: bool, accounts: &Accounts, outcome: u8) {
        if self.is_handshaking() {
            add(&accounts.tls_meter().handshakes_failed, 1);
        } else if is_clean {
            self.close_tls();
        }
        for mut record in self.output.abandon() {
            accounts.end_sealed(&mut record, outcome);
        }
    }
}

fn write_plain(socket: &TcpStream, out: &[u8]) -> WriteResult {
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
    WriteResult { bytes, progressed: bytes > 0, failed }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;

    use pellucid_account::{Account, Accounting, Names};
    use socket2::SockRef;

    use super::*;
    use crate::shared_state::SharedState;

    const NAMES: Names = Names { operations: &[], outcomes: &[], parts: &[], other_parts: &[] };

    /// Regression: a client that had read everything until then was cut as soon as it paused.
    #[test]
    fn a_wait_for_the_client_counts_from_its_beginning() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        SockRef::from(&socket).set_send_buffer_size(4 * 1024).unwrap();
        let account = Account::new(Accounting::Full, Clock::system(), NAMES);
        let limits = Limits::default();
        let shared = Arc::new(SharedState::new(account.clock(), limits.clone(), None, 1));
        let mut accounts = Accounts::new(0, shared, account.recorder());
        let (clock, longer) = (account.clock(), limits.exchange + Duration::from_secs(1));
        let since = |ticks: Ticks| Ticks(ticks.0 + clock.ticks(longer.as_nanos() as u64));
        let mut transport = Transport::new(TcpStream::from_std(socket), None, Ticks(0));
        // A single byte is taken whole or not at all.
        while !transport.has_unsent() {
            transport.send(Cow::Borrowed(b"x"), &mut accounts).unwrap();
        }
        let now = clock.now();
        assert_eq!(transport.cut_of_reader(&limits, &clock, now), None);
        let cut = transport.cut_of_reader(&limits, &clock, since(now));
        assert_eq!(cut, Some(DisconnectReason::ResponseStalled));
    }
}
