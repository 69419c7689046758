//! Compressed responses (RFC 9110, section 8.4), for clients that ask for them.
//!
//! Compressing costs far more than all else that is done for a small response, and saves nothing
//! there: a body of 60 bytes that was compressed took a server most of its time once. So only
//! bodies from a size on are, which an operator sets, and what is longer than one piece is
//! compressed piece by piece, between the requests of other connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use pellucid_clock::Clock;

use crate::limits::{COMPRESSED_STREAMS_MAX, READ_BYTES_MAX};
use crate::server::Shared;
use crate::service::{BodySource, Filled};
use crate::tls::add;

/// What a gzip member begins with: no name, no time, the fastest way, an unknown system (RFC 1952).
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// What is given to the output at a time.
const STEP_BYTES: usize = 16 * 1024;
/// A weight of one, in the thousandths that a client may tell apart.
const WHOLE: u16 = 1_000;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
}

impl Coding {
    /// The name in headers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
        }
    }

    /// What a client would have, by its `Accept-Encoding`; nothing if it would not have any, or
    /// likes the plain body better.
    pub(crate) fn preferred(value: &[u8]) -> Option<Coding> {
        let (mut gzip, mut deflate, mut plain, mut others) = (None, None, None, None);
        for item in value.split(|byte| *byte == b',') {
            let mut parts = item.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default();
            let weight = parts.find_map(weight_of).unwrap_or(WHOLE);
            let slot = match name {
                b"*" => &mut others,
                _ if name.eq_ignore_ascii_case(b"gzip") => &mut gzip,
                _ if name.eq_ignore_ascii_case(b"x-gzip") => &mut gzip,
                _ if name.eq_ignore_ascii_case(b"deflate") => &mut deflate,
                _ if name.eq_ignore_ascii_case(b"identity") => &mut plain,
                _ => continue,
            };
            *slot = Some(weight);
        }
        let weight = |named: Option<u16>| named.or(others).unwrap_or(0);
        let (coding, best) = match (weight(gzip), weight(deflate)) {
            (gzip, deflate) if gzip >= deflate => (Coding::Gzip, gzip),
            (_, deflate) => (Coding::Deflate, deflate),
        };
        (best > 0 && plain.is_none_or(|plain| plain <= best)).then_some(coding)
    }
}

/// The weight that `q=…` names; what is malformed counts as zero.
fn weight_of(parameter: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(parameter).ok()?;
    let (name, value) = text.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("q") {
        return None;
    }
    let weight: f64 = value.trim().parse().unwrap_or(0.0);
    Some((weight.clamp(0.0, 1.0) * f64::from(WHOLE)) as u16)
}

/// Figures of compression since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompressionFigures {
    /// Responses that were compressed.
    pub responses: u64,
    /// Bytes before.
    pub plain_bytes: u64,
    /// Bytes after.
    pub compressed_bytes: u64,
    /// Time that it took, part of the phase `encode`.
    pub compress_ns: u64,
}

/// The figures of one event loop, which alone adds to them.
#[derive(Debug, Default)]
pub(crate) struct CompressionMeter {
    responses: AtomicU64,
    plain_bytes: AtomicU64,
    compressed_bytes: AtomicU64,
    ticks: AtomicU64,
}

impl CompressionMeter {
    /// Adds the figures of one loop to `sum`.
    pub(crate) fn add_to(&self, sum: &mut CompressionFigures, clock: &Clock) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        sum.responses += count(&self.responses);
        sum.plain_bytes += count(&self.plain_bytes);
        sum.compressed_bytes += count(&self.compressed_bytes);
        sum.compress_ns += clock.nanoseconds(count(&self.ticks));
    }
}

/// What compresses one body after the other.
struct Deflater {
    coding: Coding,
    compress: Compress,
    /// Of what went in, for gzip.
    crc: Crc,
    is_begun: bool,
}

impl Deflater {
    fn new(coding: Coding) -> Deflater {
        let has_zlib_head = coding == Coding::Deflate;
        let compress = Compress::new(Compression::fast(), has_zlib_head);
        Deflater { coding, compress, crc: Crc::new(), is_begun: false }
    }

    /// Appends to `out` what comes of `input`; after the last, another body may begin.
    fn push(&mut self, input: &[u8], is_last: bool, out: &mut Vec<u8>) {
        let is_gzip = self.coding == Coding::Gzip;
        if is_gzip {
            if !self.is_begun {
                out.extend_from_slice(&GZIP_HEAD);
            }
            self.crc.update(input);
        }
        self.is_begun = true;
        // A piece that is not the last goes out whole, so that the client sees it now.
        let flush = if is_last { FlushCompress::Finish } else { FlushCompress::Sync };
        let mut rest = input;
        loop {
            out.reserve(STEP_BYTES);
            let before = self.compress.total_in();
            let status = self.compress.compress_vec(rest, out, flush);
            let status = status.expect("it fails only for a stream that was misused");
            rest = &rest[(self.compress.total_in() - before) as usize..];
            let is_done = match status {
                Status::StreamEnd => true,
                Status::Ok | Status::BufError => {
                    !is_last && rest.is_empty() && out.len() < out.capacity()
                }
            };
            if is_done {
                break;
            }
        }
        if !is_last {
            return;
        }
        if is_gzip {
            out.extend_from_slice(&self.crc.sum().to_le_bytes());
            out.extend_from_slice(&self.crc.amount().to_le_bytes());
        }
        self.compress.reset();
        self.crc.reset();
        self.is_begun = false;
    }
}

/// What one event loop compresses with.
pub(crate) struct Compressor {
    shared: Arc<Shared>,
    index: usize,
    /// For bodies of one piece, made when first needed: each takes some 300 KiB.
    gzip: Option<Deflater>,
    deflate: Option<Deflater>,
    out: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new(shared: Arc<Shared>, index: usize) -> Compressor {
        Compressor { shared, index, gzip: None, deflate: None, out: Vec::new() }
    }

    /// A whole body, compressed, and the ticks that it took.
    pub(crate) fn whole(&mut self, coding: Coding, body: &[u8]) -> (&[u8], u64) {
        let begun = self.shared.clock.now();
        self.out.clear();
        let deflater = match coding {
            Coding::Gzip => &mut self.gzip,
            Coding::Deflate => &mut self.deflate,
        };
        let deflater = deflater.get_or_insert_with(|| Deflater::new(coding));
        deflater.push(body, true, &mut self.out);
        let meter = &self.shared.compression[self.index];
        add(&meter.responses, 1);
        add(&meter.plain_bytes, body.len() as u64);
        add(&meter.compressed_bytes, self.out.len() as u64);
        let ticks = self.shared.clock.now().since(begun);
        add(&meter.ticks, ticks);
        (&self.out, ticks)
    }

    /// Room for a body that is compressed piece by piece, if there is some.
    pub(crate) fn place(&self) -> Option<StreamPlace> {
        let streams = &self.shared.streams_compressed;
        let place = StreamPlace { shared: Arc::clone(&self.shared), index: self.index };
        // Dropping the place gives it back.
        (streams.fetch_add(1, Ordering::Relaxed) < COMPRESSED_STREAMS_MAX).then_some(place)
    }
}

/// Room for one body that is compressed piece by piece.
pub(crate) struct StreamPlace {
    shared: Arc<Shared>,
    index: usize,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.shared.streams_compressed.fetch_sub(1, Ordering::Relaxed);
    }
}

impl StreamPlace {
    /// What `source` brings, compressed.
    pub(crate) fn compress(
        self,
        coding: Coding,
        source: Box<dyn BodySource>,
    ) -> Box<dyn BodySource> {
        add(&self.shared.compression[self.index].responses, 1);
        let (deflater, piece) = (Deflater::new(coding), Vec::new());
        Box::new(CompressedBody { source, deflater, piece, ticks: 0, place: self })
    }
}

struct CompressedBody {
    source: Box<dyn BodySource>,
    deflater: Deflater,
    /// Room for what the source brings.
    piece: Vec<u8>,
    /// What compressing took so far.
    ticks: u64,
    place: StreamPlace,
}

impl BodySource for CompressedBody {
    fn held_bytes(&self) -> usize {
        self.source.held_bytes()
    }

    fn fill(&mut self, out: &mut Vec<u8>) -> Filled {
        self.piece.clear();
        let filled = self.source.fill(&mut self.piece);
        if filled == Filled::Broken {
            return filled;
        }
        let shared = &self.place.shared;
        let (begun, before) = (shared.clock.now(), out.len());
        self.deflater.push(&self.piece, filled == Filled::Last, out);
        let meter = &shared.compression[self.place.index];
        add(&meter.plain_bytes, self.piece.len() as u64);
        add(&meter.compressed_bytes, (out.len() - before) as u64);
        let ticks = shared.clock.now().since(begun);
        add(&meter.ticks, ticks);
        self.ticks += ticks;
        filled
    }

    fn compress_ticks(&self) -> u64 {
        self.ticks
    }

    fn is_costly(&self) -> bool {
        true
    }
}

/// A body that is there, brought in pieces.
pub(crate) struct WholeBody {
    body: Vec<u8>,
    sent_bytes: usize,
}

impl WholeBody {
    pub(crate) fn of(body: &[u8]) -> Box<dyn BodySource> {
        Box::new(WholeBody { body: body.to_vec(), sent_bytes: 0 })
    }
}

impl BodySource for WholeBody {
    fn held_bytes(&self) -> usize {
        self.body.len()
    }

    fn fill(&mut self, out: &mut Vec<u8>) -> Filled {
        let end = (self.sent_bytes + READ_BYTES_MAX).min(self.body.len());
        out.extend_from_slice(&self.body[self.sent_bytes..end]);
        self.sent_bytes = end;
        if end == self.body.len() { Filled::Last } else { Filled::More }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_client_gets_what_it_likes_best() {
        use Coding::{Deflate, Gzip};
        for (value, coding) in [
            ("", None),
            ("br", None),
            ("identity", None),
            ("gzip", Some(Gzip)),
            ("X-GZIP", Some(Gzip)),
            ("deflate, gzip;q=1.0, *;q=0.5", Some(Gzip)),
            ("deflate;q=0.9 , gzip; q=0.5", Some(Deflate)),
            ("gzip;q=0", None),
            ("gzip;q=0, *", Some(Deflate)),
            ("*", Some(Gzip)),
            ("*;q=0", None),
            ("identity;q=0.5, gzip;q=0.4", None),
            ("identity;q=0.5, gzip", Some(Gzip)),
            ("gzip;q=nonsense", None),
            ("gzip;level=9", Some(Gzip)),
        ] {
            assert_eq!(Coding::preferred(value.as_bytes()), coding, "{value}");
        }
    }

    fn unpacked(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain),
            Coding::Deflate => flate2::read::ZlibDecoder::new(bytes).read_to_end(&mut plain),
        }
        .unwrap();
        plain
    }

    /// What cannot be compressed, and what can, in one piece and in many, one body after another.
    #[test]
    fn bodies_come_back_as_they_were() {
        let noise: Vec<u8> =
            (0..200_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        for coding in [Coding::Gzip, Coding::Deflate] {
            let mut deflater = Deflater::new(coding);
            for body in [&b""[..], b"short", &[b'a'; 300_000], &noise] {
                for pieces in [1, 2, 7] {
                    let mut out = Vec::new();
                    let size = body.len() / pieces + 1;
                    let count = body.chunks(size).count().max(1);
                    for piece in 0..count {
                        let end = ((piece + 1) * size).min(body.len());
                        deflater.push(&body[piece * size..end], piece + 1 == count, &mut out);
                    }
                    assert!(unpacked(coding, &out) == body, "{coding:?} in {pieces} pieces");
                }
            }
        }
    }
}
