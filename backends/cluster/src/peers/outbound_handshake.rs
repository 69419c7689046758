//! The handshake of a connection to a peer, from the calling side.

use pellucid_clock::Ticks;

use crate::cluster::ClusterEvent;
use crate::handshake::{WELCOME_BYTES_MAX, read_verdict, read_welcome};
use crate::link::{Channel, Connection, HandshakeExchange, Stage};
use crate::peer_status::add;
use crate::sealed_writer::SealedWriter;
use crate::session::KeyShare;
use crate::socket::{ReadOutcome, receive, send_some, tune};

use super::{Peers, READ_BYTES, Sink};

impl<C> Peers<C> {
    /// Starts the handshake once the kernel has connected.
    pub(super) fn greet(
        &mut self,
        node: usize,
        now: Ticks,
        sink: &mut Sink<'_, C>,
    ) -> Result<(), String> {
        let connection = &mut self.links[node].connection;
        let Some(Connection { socket, stage, .. }) = connection else { return Ok(()) };
        if let Ok(Some(error)) | Err(error) = socket.take_error() {
            return Err(error.to_string());
        }
        if socket.peer_addr().is_err() {
            return Ok(());
        }
        tune(socket);
        let share = KeyShare::new()?;
        let hello = self.cluster.hello(node, &share);
        *stage = Stage::Greeting(Box::new(HandshakeExchange {
            hello,
            sent: 0,
            share,
            input: Vec::new(),
        }));
        self.meet(node, now, sink)
    }

    /// Continues the handshake: sends the HTTP request and reads its response, then sends this
    /// node's proof.
    pub(super) fn meet(
        &mut self,
        node: usize,
        now: Ticks,
        sink: &mut Sink<'_, C>,
    ) -> Result<(), String> {
        let link = &mut self.links[node];
        let Some(Connection { socket, stage, .. }) = &mut link.connection else { return Ok(()) };
        let Stage::Greeting(greeting) = stage else { return Ok(()) };
        let HandshakeExchange { hello, sent, input, .. } = &mut **greeting;
        *sent += send_some(socket, &hello[*sent..]).map_err(|error| error.to_string())?;
        let mut is_over = false;
        loop {
            match receive(socket, &mut self.scratch).map_err(|error| error.to_string())? {
                ReadOutcome::Bytes(count) => input.extend_from_slice(&self.scratch[..count]),
                ReadOutcome::WouldBlock => break,
                ReadOutcome::Closed => {
                    is_over = true;
                    break;
                }
            }
            if input.len() > WELCOME_BYTES_MAX + READ_BYTES {
                break;
            }
        }
        let Some((length, theirs)) = read_welcome(input)? else {
            return if is_over { Err("it closed the connection".to_owned()) } else { Ok(()) };
        };
        let met = std::mem::replace(stage, Stage::Proving);
        let Stage::Greeting(greeting) = met else { return Ok(()) };
        let HandshakeExchange { share, mut input, .. } = *greeting;
        let session = self.cluster.agree_with(node, share, &theirs)?;
        let mut writer = SealedWriter::new(session.sealer);
        let list = self.cluster.nodes().text();
        let sent = writer.send_first(socket, list.as_bytes());
        link.channel = Some(Box::new(Channel { writer, opener: session.opener }));
        sent.map_err(|error| error.to_string())?;
        // Bytes behind the response, and bytes in the socket, cause no further event.
        self.take_records(node, &mut input[length..], self.clock.now(), sink)?;
        self.read(node, now, sink)
    }

    /// Takes the peer's verdict on this node's proof, which is the first record of the connection.
    /// Returns false if the verdict was taken before, so that the bytes are frames.
    ///
    /// # Errors
    /// The peer's reason for a refusal.
    pub(super) fn prove(&mut self, node: usize, verdict: &[u8]) -> Result<bool, String> {
        let link = &mut self.links[node];
        let Some(Connection { stage: stage @ Stage::Proving, .. }) = &mut link.connection else {
            return Ok(false);
        };
        read_verdict(verdict)?;
        *stage = Stage::Ready;
        (link.down, link.failures, link.heard) = (None, 0, self.clock.now());
        let status = self.cluster.status(node);
        add(&status.counters.connected, 1);
        if status.note_ready(self.index) {
            let line = format!("the peer {} is there again", self.cluster.url(node));
            self.cluster.log(ClusterEvent::Good(&line));
        }
        Ok(true)
    }
}
