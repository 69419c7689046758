//! Three protocols that request an entity from a node over one connection with many requests in
//! flight: pipelined HTTP/1.1, HTTP/2, and the frames of the peer protocol (docs/format.md). Each
//! client does only what a node that forwards requests would need.
//!
//! Only HTTP/2 is simpler than it would have to be: the client does not decompress the headers of
//! answers. So its measured cost is below its real cost.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;

use pellucid_cluster::{
    AnswerStatus, Ask, AskKind, Frame, KeyDerivationInputs, KeyShare, PROTOCOL, Session, Side,
    decode,
};

use crate::peers::text;

/// The longest frame that is accepted, in bytes.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// The types and flags of HTTP/2 frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
/// The receive window of an HTTP/2 connection, enlarged each time that half of it was used.
const WINDOW: u32 = 1 << 30;
/// The initial send window of an HTTP/2 connection.
const WINDOW_AT_FIRST: i64 = 65_535;

/// A request: a key, and for a PUT the value.
#[derive(Clone, Copy)]
pub struct WireRequest<'a> {
    /// The key, of letters and digits.
    pub key: &'a str,
    /// The value of a PUT; none for a GET.
    pub value: Option<&'a [u8]>,
}

/// The client side of a protocol on one connection.
pub trait WireProtocol {
    /// Sends what the protocol requires before the first request.
    fn open(&mut self, socket: &mut TcpStream, address: &str) -> Result<(), String>;

    /// Returns true if flow control allows this request now.
    fn may_ask(&self, _question: WireRequest<'_>) -> bool {
        true
    }

    /// Appends a request to `out`.
    fn ask(&mut self, question: WireRequest<'_>, out: &mut Vec<u8>);

    /// Converts the requests in `out` to the bytes that are sent; only sealing needs this.
    fn close(&mut self, _out: &mut Vec<u8>) {}

    /// Consumes the complete answers at the beginning of `input`, and appends its own protocol
    /// messages, such as acknowledgements, to `out`. Returns the number of consumed bytes and of
    /// answers.
    fn take(&mut self, input: &mut [u8], out: &mut Vec<u8>) -> Result<(usize, usize), String>;
}

/// Pipelined HTTP/1.1.
#[derive(Default)]
pub struct Pipelined {
    address: String,
}

impl WireProtocol for Pipelined {
    fn open(&mut self, _socket: &mut TcpStream, address: &str) -> Result<(), String> {
        address.clone_into(&mut self.address);
        Ok(())
    }

    fn ask(&mut self, question: WireRequest<'_>, out: &mut Vec<u8>) {
        let WireRequest { key, value } = question;
        let address = &self.address;
        // Writing to memory cannot fail.
        let _ = match value {
            None => write!(out, "GET /v0/entity?id={key} HTTP/1.1\r\nHost: {address}\r\n\r\n"),
            Some(value) => {
                let length = value.len();
                write!(
                    out,
                    "PUT /v0/entity?id={key} HTTP/1.1\r\nHost: {address}\r\n\
                     Content-Length: {length}\r\n\r\n"
                )
            }
        };
        out.extend_from_slice(value.unwrap_or_default());
    }

    fn take(&mut self, input: &mut [u8], _out: &mut Vec<u8>) -> Result<(usize, usize), String> {
        let (mut at, mut answers) = (0, 0);
        while let Some((head, body)) = head_of(&input[at..])? {
            if input.len() < at + head + body {
                break;
            }
            at += head + body;
            answers += 1;
        }
        Ok((at, answers))
    }
}

/// Returns the lengths of the head and the body of the answer at the beginning of `input`, or none
/// if its head is incomplete.
fn head_of(input: &[u8]) -> Result<Option<(usize, usize)>, String> {
    let mut length = 0;
    let mut at = 0;
    while let Some(end) = input[at..].iter().position(|byte| *byte == b'\n') {
        let line = &input[at..at + end];
        if at == 0 && line.get(9) != Some(&b'2') {
            return Err(format!("answered {}", String::from_utf8_lossy(line)));
        }
        at += end + 1;
        if line == b"\r" {
            return Ok(Some((at, length)));
        }
        let name = b"content-length:";
        if line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name) {
            let number = std::str::from_utf8(&line[name.len()..]).map_err(text)?;
            length = number.trim().parse().map_err(text)?;
        }
    }
    Ok(None)
}

/// HTTP/2 by prior knowledge, with a stream for each request.
pub struct Http2 {
    stream: u32,
    /// The remaining send window, in bytes of bodies.
    window: i64,
    /// The bytes received since the receive window was last enlarged.
    received: u32,
    authority: Vec<u8>,
}

impl Default for Http2 {
    fn default() -> Http2 {
        Http2 { stream: 1, window: WINDOW_AT_FIRST, received: 0, authority: Vec::new() }
    }
}

fn http2_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, length: usize) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

impl Http2 {
    fn top_up(out: &mut Vec<u8>, by: u32) {
        http2_frame(out, WINDOW_UPDATE, 0, 0, 4);
        out.extend_from_slice(&by.to_be_bytes());
    }
}

impl WireProtocol for Http2 {
    fn open(&mut self, socket: &mut TcpStream, address: &str) -> Result<(), String> {
        let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        http2_frame(&mut out, SETTINGS, 0, 0, 0);
        Http2::top_up(&mut out, WINDOW - WINDOW_AT_FIRST as u32);
        // The first request adds the authority, whose name has index 1 of the static table, to the
        // dynamic table. Later requests refer to it with one byte.
        self.authority = vec![0x41, address.len() as u8];
        self.authority.extend_from_slice(address.as_bytes());
        socket.write_all(&out).map_err(text)
    }

    fn may_ask(&self, question: WireRequest<'_>) -> bool {
        self.window >= question.value.map_or(0, <[u8]>::len) as i64
    }

    fn ask(&mut self, question: WireRequest<'_>, out: &mut Vec<u8>) {
        let WireRequest { key, value } = question;
        let path = "/v0/entity?id=";
        // `:method` GET and `:scheme` are from the static table, `:path` is a literal (RFC 7541,
        // 6.2.2).
        let put: &[u8] = &[0x02, 3, b'P', b'U', b'T'];
        let method: &[u8] = if value.is_some() { put } else { &[0x82] };
        let path_length = path.len() + key.len();
        let length = method.len() + 1 + 2 + path_length + self.authority.len();
        let flags = if value.is_some() { END_HEADERS } else { END_HEADERS | END_STREAM };
        http2_frame(out, HEADERS, flags, self.stream, length);
        out.extend_from_slice(method);
        out.extend_from_slice(&[0x86, 0x04, path_length as u8]);
        out.extend_from_slice(path.as_bytes());
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(&self.authority);
        if self.authority.len() > 1 {
            self.authority = vec![0x80 | 62];
        }
        if let Some(value) = value {
            http2_frame(out, DATA, END_STREAM, self.stream, value.len());
            out.extend_from_slice(value);
            self.window -= value.len() as i64;
        }
        self.stream += 2;
    }

    fn take(&mut self, input: &mut [u8], out: &mut Vec<u8>) -> Result<(usize, usize), String> {
        let (mut at, mut answers) = (0, 0);
        while let Some(head) = input.get(at..at + 9) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let Some(payload) = input.get(at + 9..at + 9 + length) else { break };
            at += 9 + length;
            match kind {
                DATA | HEADERS => {
                    answers += usize::from(flags & END_STREAM != 0);
                    if kind == DATA {
                        self.received += length as u32;
                    }
                }
                SETTINGS if flags & ACK == 0 => http2_frame(out, SETTINGS, ACK, 0, 0),
                PING if flags & ACK == 0 => {
                    http2_frame(out, PING, ACK, 0, 8);
                    out.extend_from_slice(payload);
                }
                WINDOW_UPDATE if head[5..9] == [0; 4] => {
                    let by = payload.try_into().map(u32::from_be_bytes).map_err(text)?;
                    self.window += i64::from(by);
                }
                RST_STREAM | GOAWAY => return Err(format!("HTTP/2: a frame of type {kind}")),
                _ => {}
            }
        }
        if self.received > WINDOW / 2 {
            Http2::top_up(out, self.received);
            self.received = 0;
        }
        Ok((at, answers))
    }
}

/// The frames of the peer protocol, sealed as nodes seal them.
#[derive(Default)]
pub struct Frames {
    next: u64,
    under_way: VecDeque<u64>,
    session: Option<Session>,
    /// True once the node's answer to the proof was consumed.
    is_met: bool,
}

impl WireProtocol for Frames {
    fn open(&mut self, socket: &mut TcpStream, address: &str) -> Result<(), String> {
        let (share, node) = (KeyShare::new()?, format!("http://{address}"));
        let hello = format!(
            "GET /v0/cluster/peer HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
             Upgrade: {PROTOCOL}\r\nPellucid-From: guest\r\nPellucid-To: {node}\r\n\
             Pellucid-Key: {}\r\n\r\n",
            share.text()
        );
        socket.write_all(hello.as_bytes()).map_err(text)?;
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            socket.read_exact(&mut byte).map_err(text)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let theirs = lines.find(|(name, _)| name.eq_ignore_ascii_case("pellucid-key"));
        let parties = KeyDerivationInputs { from: "guest", to: &node, secret: None };
        let session =
            theirs.and_then(|(_, theirs)| Session::agree(share, theirs, Side::Initiator, parties));
        let mut session = session.ok_or(head)?;
        let mut proof = Vec::new();
        session.sealer.seal(node.as_bytes(), &mut proof);
        socket.write_all(&proof).map_err(text)?;
        self.session = Some(session);
        Ok(())
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let frames = std::mem::take(out);
        if let Some(session) = &mut self.session {
            session.sealer.seal(&frames, out);
        }
    }

    fn ask(&mut self, question: WireRequest<'_>, out: &mut Vec<u8>) {
        let WireRequest { key, value } = question;
        let ask = Ask {
            id: self.next,
            // The default of the API: once the kernel has the bytes.
            acknowledgement: Default::default(),
            wait_ms: 10_000,
            key: key.as_bytes(),
            value: value.unwrap_or_default(),
            ..Ask::plain(if value.is_some() { AskKind::Put } else { AskKind::Get })
        };
        ask.encode(out);
        self.under_way.push_back(self.next);
        self.next += 1;
    }

    fn take(&mut self, input: &mut [u8], _out: &mut Vec<u8>) -> Result<(usize, usize), String> {
        let Some(mut session) = self.session.take() else { return Ok((0, 0)) };
        let (length, mut answers) = (input.len(), 0);
        let opened = session.opener.open(input, &mut |opened| {
            if !std::mem::replace(&mut self.is_met, true) {
                return if opened.is_empty() { Ok(0) } else { Err("it refuses".to_owned()) };
            }
            let (used, more) = self.take_frames(opened)?;
            answers += more;
            Ok(used)
        });
        self.session = Some(session);
        opened.map(|()| (length, answers))
    }
}

impl Frames {
    fn take_frames(&mut self, input: &[u8]) -> Result<(usize, usize), String> {
        let (mut at, mut answers) = (0, 0);
        while let Some((frame, length)) = decode(&input[at..], FRAME_BYTES_MAX).map_err(text)? {
            let Frame::Answer(answer) = frame else {
                return Err(format!("no answer but {frame:?}"));
            };
            let is_good = matches!(answer.status, AnswerStatus::Found | AnswerStatus::Written);
            let place = self.under_way.iter().position(|asked| *asked == answer.id);
            let (true, Some(place)) = (is_good, place) else {
                return Err(format!("answered {:?}", answer.status));
            };
            self.under_way.remove(place);
            at += length;
            answers += 1;
        }
        Ok((at, answers))
    }
}
