//! The client's side of an HTTP/2 connection (RFC 9113) as a machine without a socket: requests
//! become bytes, bytes become answers.
//!
//! It belongs to the event loop's thread, takes bytes as they arrive, and tells of each answer when
//! it is whole. What it lets the server send is as much as the protocol can say, because a
//! generator that reads slowly would measure itself; how much it may send is the server's to say.

mod frame;
mod hpack;
mod huffman;
pub(crate) mod request;

use std::collections::VecDeque;

use pellucid_clock::Ticks;

use crate::response::{Captured, MAX_CAPTURED_BODY_BYTES, MAX_HEAD_BYTES, Malformed, Told};
use frame::Frame;

/// What a client sends first (section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest window of a stream or connection.
const WINDOW_BYTES_MAX: u32 = 0x7fff_ffff;
/// The window of a connection, and of a stream, before anybody says otherwise.
const WINDOW_BYTES_DEFAULT: u32 = 65_535;
/// A window is refilled when so many bytes of it were used.
const REFILL_BYTES: u32 = 1 << 30;
/// The last number of a stream; a connection that has used it up is replaced.
const STREAM_MAX: u32 = 0x7fff_ffff;
/// Bytes of replies to a server's SETTINGS and PING that may wait until it takes them. Their number
/// is its own to say, so one that takes none would have us hold any number of them.
const REPLY_BYTES_MAX: usize = 256 * 1024;
/// What every PING carries (section 6.7).
const PING_BYTES: usize = 8;
/// The code with which a request that nobody waits for any more is taken back.
const CANCEL: u32 = 8;

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) stream: u32,
    /// The status, or why there is none.
    pub(crate) status: Result<u16, Unanswered>,
    /// When its first bytes were there.
    pub(crate) first_byte: Ticks,
    /// Head and body, if they are to be kept.
    pub(crate) captured: Option<Box<Captured>>,
    /// What the server told of its own time, if it was to be looked for.
    pub(crate) timing: Option<Told>,
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The server says that it has not begun with it, so it can be sent again whatever it asks for
    /// (RFC 9113, section 8.7).
    LeftOut(&'static str),
    /// The server may have done something about it.
    Reset(&'static str),
}

/// A request on its way.
#[derive(Debug)]
struct Stream {
    id: u32,
    status: u16,
    first_byte: Ticks,
    send_window: i64,
    received_bytes: u32,
    captured: Option<Box<Captured>>,
    wants_timing: bool,
    timing: Option<Told>,
}

/// A body that the server's windows have held back.
#[derive(Debug)]
struct Unsent {
    stream: u32,
    bytes: Vec<u8>,
    at: usize,
}

/// A header block that is spread over frames.
#[derive(Debug)]
struct Block {
    stream: u32,
    ends: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Http2 {
    capture: bool,
    streams_wanted: usize,
    /// How many the server allows, once it has said what it has to say about that: to send before
    /// would be allowed, and to be refused for it as well.
    streams_allowed: Option<usize>,
    next_stream: u32,
    streams: VecDeque<Stream>,
    decoder: hpack::Decoder,
    partial: Vec<u8>,
    block: Vec<u8>,
    open_block: Option<Block>,
    send_window: i64,
    stream_window: i64,
    payload_bytes_max: usize,
    received_bytes: u32,
    unsent: VecDeque<Unsent>,
    /// The server takes no stream beyond this one: it is about to end the connection.
    last_stream: Option<u32>,
    /// Bytes of replies that were written since all was taken that was written before.
    reply_bytes: usize,
    /// When the bytes arrived that are being taken.
    now: Ticks,
}

impl Http2 {
    /// A connection for so many streams at once; with `capture`, answers are kept whole.
    pub(crate) fn new(streams: usize, capture: bool) -> Http2 {
        Http2 {
            capture,
            streams_wanted: streams,
            streams_allowed: None,
            next_stream: 1,
            streams: VecDeque::with_capacity(streams),
            decoder: hpack::Decoder::default(),
            partial: Vec::new(),
            block: Vec::new(),
            open_block: None,
            send_window: i64::from(WINDOW_BYTES_DEFAULT),
            stream_window: i64::from(WINDOW_BYTES_DEFAULT),
            payload_bytes_max: frame::PAYLOAD_BYTES_MAX,
            received_bytes: 0,
            unsent: VecDeque::new(),
            last_stream: None,
            reply_bytes: 0,
            now: Ticks::default(),
        }
    }

    /// Writes what a connection begins with.
    pub(crate) fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        let settings = [(frame::ENABLE_PUSH, 0), (frame::INITIAL_WINDOW_SIZE, WINDOW_BYTES_MAX)];
        frame::write_head(6 * settings.len(), frame::SETTINGS, 0, 0, out);
        for (name, value) in settings {
            out.extend([(name >> 8) as u8, name as u8]);
            frame::write_number(value, out);
        }
        let more = WINDOW_BYTES_MAX - WINDOW_BYTES_DEFAULT;
        frame::write_numbered(frame::WINDOW_UPDATE, 0, more, out);
    }

    /// How many further requests can be sent now.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        let ending = self.last_stream.is_some() || self.next_stream >= STREAM_MAX;
        let allowed = self.streams_allowed.filter(|_| !ending).unwrap_or(0);
        self.streams_wanted.min(allowed).saturating_sub(self.streams.len())
    }

    /// Whether the server has said how many streams it allows.
    pub(crate) fn is_ready(&self) -> bool {
        self.streams_allowed.is_some()
    }

    /// Whether no further request will be sent and no answer is awaited.
    pub(crate) fn is_over(&self) -> bool {
        let ending = self.last_stream.is_some() || self.next_stream >= STREAM_MAX;
        ending && self.streams.is_empty()
    }

    /// Writes a request, as far as the server's windows allow, and returns its stream.
    pub(crate) fn request(
        &mut self,
        block: &[u8],
        body: &[u8],
        wants_timing: bool,
        out: &mut Vec<u8>,
    ) -> u32 {
        let id = self.next_stream;
        self.next_stream += 2;
        let mut kind = frame::HEADERS;
        let mut rest = block;
        loop {
            let (piece, after) = rest.split_at(rest.len().min(self.payload_bytes_max));
            rest = after;
            let ends_block = if rest.is_empty() { frame::END_HEADERS } else { 0 };
            let bodiless = kind == frame::HEADERS && body.is_empty();
            let ends_stream = if bodiless { frame::END_STREAM } else { 0 };
            frame::write_head(piece.len(), kind, ends_block | ends_stream, id, out);
            out.extend_from_slice(piece);
            kind = frame::CONTINUATION;
            if rest.is_empty() {
                break;
            }
        }
        self.streams.push_back(Stream {
            id,
            status: 0,
            first_byte: Ticks::default(),
            send_window: self.stream_window,
            received_bytes: 0,
            captured: None,
            wants_timing,
            timing: None,
        });
        if !body.is_empty() {
            self.unsent.push_back(Unsent { stream: id, bytes: body.to_vec(), at: 0 });
            self.write_bodies(out);
        }
        id
    }

    /// Takes a request back.
    pub(crate) fn cancel(&mut self, stream: u32, out: &mut Vec<u8>) {
        frame::write_numbered(frame::RST_STREAM, stream, CANCEL, out);
        self.forget(stream);
    }

    /// Takes the next bytes of the connection. Answers that are whole are added to `answers`, what
    /// has to be sent in return to `out`.
    pub(crate) fn receive(
        &mut self,
        input: &[u8],
        now: Ticks,
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Malformed> {
        self.now = now;
        if out.is_empty() {
            self.reply_bytes = 0;
        }
        let mut kept = std::mem::take(&mut self.partial);
        if kept.is_empty() {
            let used = self.take_frames(input, out, answers)?;
            kept.extend_from_slice(&input[used..]);
        } else {
            kept.extend_from_slice(input);
            let used = self.take_frames(&kept, out, answers)?;
            kept.drain(..used);
        }
        self.partial = kept;
        Ok(())
    }

    fn take_frames(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<usize, Malformed> {
        let mut at = 0;
        while let Some(frame) = frame::read(&input[at..])? {
            at += frame::HEAD_BYTES + frame.payload.len();
            // Nothing may come between the frames of a header block (section 6.10).
            if self.open_block.is_some() != (frame.kind == frame::CONTINUATION) {
                return Err(Malformed::Frame);
            }
            self.take_frame(&frame, out, answers)?;
        }
        Ok(at)
    }

    fn take_frame(
        &mut self,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Malformed> {
        match frame.kind {
            frame::HEADERS => {
                self.block.clear();
                let ends = frame.has(frame::END_STREAM);
                self.take_block(Block { stream: frame.stream, ends }, frame, answers)?;
            }
            frame::CONTINUATION => {
                let block = self.open_block.take().filter(|block| block.stream == frame.stream);
                self.take_block(block.ok_or(Malformed::Frame)?, frame, answers)?;
            }
            frame::DATA => self.take_data(frame, out, answers)?,
            frame::RST_STREAM if self.forget(frame.stream) => {
                answers.push(failed(frame.stream, reset_by(frame::number(frame.payload))));
            }
            frame::SETTINGS if !frame.has(frame::ACK) => {
                self.take_settings(frame.payload)?;
                self.note_reply(0)?;
                frame::write_head(0, frame::SETTINGS, frame::ACK, 0, out);
                self.write_bodies(out);
            }
            frame::PING if frame.payload.len() != PING_BYTES => return Err(Malformed::Frame),
            frame::PING if !frame.has(frame::ACK) => {
                self.note_reply(PING_BYTES)?;
                frame::write_head(frame.payload.len(), frame::PING, frame::ACK, 0, out);
                out.extend_from_slice(frame.payload);
            }
            frame::WINDOW_UPDATE => {
                let more = i64::from(frame::number(frame.payload) & WINDOW_BYTES_MAX);
                match frame.stream {
                    0 => self.send_window += more,
                    id => self.find(id).into_iter().for_each(|s| s.send_window += more),
                }
                self.write_bodies(out);
            }
            frame::GOAWAY => self.take_goaway(frame.payload, answers)?,
            frame::PUSH_PROMISE => return Err(Malformed::Frame),
            // Of others nothing is known, which the standard allows for.
            _ => {}
        }
        Ok(())
    }

    /// Notes a reply that is about to be written, unless too many wait already.
    fn note_reply(&mut self, payload_bytes: usize) -> Result<(), Malformed> {
        self.reply_bytes += frame::HEAD_BYTES + payload_bytes;
        if self.reply_bytes > REPLY_BYTES_MAX { Err(Malformed::Flooded) } else { Ok(()) }
    }

    fn take_block(
        &mut self,
        block: Block,
        frame: &Frame<'_>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Malformed> {
        self.block.extend_from_slice(frame.content()?);
        if self.block.len() > MAX_HEAD_BYTES {
            return Err(Malformed::HeadTooLong);
        }
        if !frame.has(frame::END_HEADERS) {
            self.open_block = Some(block);
            return Ok(());
        }
        let place = self.streams.binary_search_by_key(&block.stream, |stream| stream.id);
        let (capture, now) = (self.capture, self.now);
        let mut stream = place.ok().map(|place| &mut self.streams[place]);
        // Even a block that nobody waits for changes the table of headers.
        let is_trailer = stream.as_ref().is_some_and(|stream| stream.status >= 200);
        let mut status = 0;
        self.decoder.read(&self.block, |name, value| {
            if name == b":status" {
                status = value.iter().fold(0_u16, |sum, digit| {
                    sum.saturating_mul(10).saturating_add(u16::from(digit.wrapping_sub(b'0')))
                });
            }
            if let Some(stream) = stream.as_mut().filter(|_| !is_trailer) {
                stream.take_header(name, value, capture);
            }
        })?;
        let Some(stream) = stream.filter(|_| !is_trailer) else {
            if block.ends {
                self.answered(block.stream, answers);
            }
            return Ok(());
        };
        if !(100..=599).contains(&status) {
            return Err(Malformed::StatusLine);
        }
        stream.status = status;
        stream.first_byte = now;
        if status < 200 {
            stream.captured = None;
        } else if block.ends {
            self.answered(block.stream, answers);
        }
        Ok(())
    }

    fn take_data(
        &mut self,
        frame: &Frame<'_>,
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Malformed> {
        let content = frame.content()?;
        let length = frame.payload.len() as u32;
        refill(&mut self.received_bytes, length, 0, out);
        // One that was taken back may still be answered.
        let Some(stream) = self.find(frame.stream) else { return Ok(()) };
        if stream.status < 200 {
            return Err(Malformed::Frame);
        }
        if let Some(captured) = &mut stream.captured {
            if captured.body.len() + content.len() > MAX_CAPTURED_BODY_BYTES {
                return Err(Malformed::BodyTooLong);
            }
            captured.body.extend_from_slice(content);
        }
        if frame.has(frame::END_STREAM) {
            self.answered(frame.stream, answers);
        } else {
            refill(&mut stream.received_bytes, length, frame.stream, out);
        }
        Ok(())
    }

    fn take_settings(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        self.streams_allowed.get_or_insert(usize::MAX);
        for setting in payload.chunks_exact(6) {
            let name = u16::from(setting[0]) << 8 | u16::from(setting[1]);
            let value = frame::number(&setting[2..]);
            match name {
                frame::MAX_CONCURRENT_STREAMS => self.streams_allowed = Some(value as usize),
                frame::INITIAL_WINDOW_SIZE if value <= WINDOW_BYTES_MAX => {
                    let change = i64::from(value) - self.stream_window;
                    self.stream_window += change;
                    self.streams.iter_mut().for_each(|stream| stream.send_window += change);
                }
                frame::INITIAL_WINDOW_SIZE => return Err(Malformed::Frame),
                frame::MAX_FRAME_SIZE => {
                    let bytes = (value as usize).min(1 << 20);
                    self.payload_bytes_max = bytes.max(frame::PAYLOAD_BYTES_MAX);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take_goaway(&mut self, payload: &[u8], answers: &mut Vec<Answer>) -> Result<(), Malformed> {
        let last = payload.get(..4).map(frame::number).ok_or(Malformed::Frame)?;
        let last = last & STREAM_MAX;
        self.last_stream = Some(self.last_stream.map_or(last, |before| before.min(last)));
        while let Some(id) = self.streams.back().map(|stream| stream.id).filter(|id| *id > last) {
            self.forget(id);
            let reason = Unanswered::LeftOut("the server ended the connection before it (GOAWAY)");
            answers.push(failed(id, reason));
        }
        Ok(())
    }

    fn write_bodies(&mut self, out: &mut Vec<u8>) {
        let mut index = 0;
        while let Some(unsent) = self.unsent.get_mut(index) {
            let place = self.streams.binary_search_by_key(&unsent.stream, |stream| stream.id);
            let Ok(place) = place else {
                self.unsent.remove(index);
                continue;
            };
            let stream = &mut self.streams[place];
            loop {
                let window = self.send_window.min(stream.send_window).max(0);
                let left = unsent.bytes.len() - unsent.at;
                let length = left.min(self.payload_bytes_max).min(window as usize);
                if length == 0 {
                    index += 1;
                    break;
                }
                let ends = if length == left { frame::END_STREAM } else { 0 };
                frame::write_head(length, frame::DATA, ends, unsent.stream, out);
                out.extend_from_slice(&unsent.bytes[unsent.at..][..length]);
                unsent.at += length;
                self.send_window -= length as i64;
                stream.send_window -= length as i64;
                if length == left {
                    self.unsent.remove(index);
                    break;
                }
            }
        }
    }

    fn find(&mut self, id: u32) -> Option<&mut Stream> {
        let place = self.streams.binary_search_by_key(&id, |stream| stream.id).ok()?;
        self.streams.get_mut(place)
    }

    fn answered(&mut self, id: u32, answers: &mut Vec<Answer>) {
        let place = self.streams.binary_search_by_key(&id, |stream| stream.id);
        let Some(stream) = place.ok().and_then(|place| self.streams.remove(place)) else { return };
        answers.push(Answer {
            stream: id,
            status: Ok(stream.status),
            first_byte: stream.first_byte,
            captured: stream.captured,
            timing: stream.timing,
        });
    }

    /// Drops a stream; false if it was none.
    fn forget(&mut self, id: u32) -> bool {
        let place = self.streams.binary_search_by_key(&id, |stream| stream.id);
        place.ok().and_then(|place| self.streams.remove(place)).is_some()
    }
}

impl Stream {
    fn take_header(&mut self, name: &[u8], value: &[u8], capture: bool) {
        if self.wants_timing && (name == Told::TIMING || name == Told::CLOCK) {
            self.timing.get_or_insert_default().take_header(name, value);
        }
        if !capture {
            return;
        }
        let head = &mut self.captured.get_or_insert_default().head;
        if name == b":status" {
            head.extend_from_slice(b"HTTP/2 ");
            head.extend_from_slice(value);
        } else {
            head.extend_from_slice(name);
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
        }
        head.extend_from_slice(b"\r\n");
    }
}

/// Counts what was received, and gives it back to the server's window before that is used up.
fn refill(received_bytes: &mut u32, more: u32, stream: u32, out: &mut Vec<u8>) {
    *received_bytes += more;
    if *received_bytes >= REFILL_BYTES {
        frame::write_numbered(frame::WINDOW_UPDATE, stream, *received_bytes, out);
        *received_bytes = 0;
    }
}

fn failed(stream: u32, reason: Unanswered) -> Answer {
    Answer {
        stream,
        status: Err(reason),
        first_byte: Ticks::default(),
        captured: None,
        timing: None,
    }
}

fn reset_by(code: u32) -> Unanswered {
    Unanswered::Reset(match code {
        0 => "the server reset the stream (NO_ERROR)",
        1 => "the server reset the stream (PROTOCOL_ERROR)",
        2 => "the server reset the stream (INTERNAL_ERROR)",
        3 => "the server reset the stream (FLOW_CONTROL_ERROR)",
        7 => return Unanswered::LeftOut("the server refused the stream (REFUSED_STREAM)"),
        8 => "the server reset the stream (CANCEL)",
        11 => "the server asks for less (ENHANCE_YOUR_CALM)",
        _ => "the server reset the stream",
    })
}

#[cfg(test)]
mod tests;
