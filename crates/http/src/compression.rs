//! Compressed responses (RFC 9110, section 8.4), for clients that ask for them.
//!
//! For a small response, compression costs far more than all other work, and saves nothing. So only
//! bodies from a configurable size on are compressed. A body longer than one piece is compressed
//! piece by piece, between the requests of other connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use pellucid_clock::{Clock, Ticks};

use crate::body_source::{BodySource, FillResult};
use crate::limits::{COMPRESSED_STREAMS_MAX, READ_BYTES_MAX};
use crate::tls::add;

/// The header of a gzip member: no name, no time, the fastest level, an unknown system (RFC 1952).
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// Free bytes that the output gets before each step of the compressor.
const STEP_BYTES: usize = 16 * 1024;
/// The weight 1.0 of `Accept-Encoding`, in thousandths.
const WHOLE: u16 = 1_000;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `gzip`: the format of RFC 1952.
    Gzip,
    /// `deflate`: the zlib format of RFC 1950.
    Deflate,
}

impl Coding {
    /// The name in headers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
        }
    }
}

/// The codings that a client accepts, with their weights.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AcceptedCodings {
    gzip: Option<u16>,
    deflate: Option<u16>,
    plain: Option<u16>,
    others: Option<u16>,
}

impl AcceptedCodings {
    /// Adds the value of a header `Accept-Encoding`. Several of them are one list (RFC 9110,
    /// section 5.3).
    pub(crate) fn add(&mut self, value: &[u8]) {
        for item in value.split(|byte| *byte == b',') {
            let mut parts = item.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let name = parts.next().unwrap_or_default();
            let weight = parts.find_map(weight_of).unwrap_or(WHOLE);
            let slot = match name {
                b"*" => &mut self.others,
                _ if name.eq_ignore_ascii_case(b"gzip") => &mut self.gzip,
                _ if name.eq_ignore_ascii_case(b"x-gzip") => &mut self.gzip,
                _ if name.eq_ignore_ascii_case(b"deflate") => &mut self.deflate,
                _ if name.eq_ignore_ascii_case(b"identity") => &mut self.plain,
                _ => continue,
            };
            *slot = Some(weight);
        }
    }

    /// The coding that the client prefers; none if it accepts none, or prefers the plain body.
    pub(crate) fn preferred(self) -> Option<Coding> {
        let weight = |named: Option<u16>| named.or(self.others).unwrap_or(0);
        let (coding, best) = match (weight(self.gzip), weight(self.deflate)) {
            (gzip, deflate) if gzip >= deflate => (Coding::Gzip, gzip),
            (_, deflate) => (Coding::Deflate, deflate),
        };
        (best > 0 && self.plain.is_none_or(|plain| plain <= best)).then_some(coding)
    }
}

/// Splits the text between the quotes of an entity tag into the tag of the plain body and the
/// coding. The tag of a compressed body is that of the plain one, `+`, and the name of its coding.
#[must_use]
pub fn plain_tag(inner: &[u8]) -> (&[u8], Option<Coding>) {
    let plain = |coding: Coding| inner.strip_suffix(coding.name().as_bytes())?.strip_suffix(b"+");
    let codings = [Coding::Gzip, Coding::Deflate].into_iter();
    let found = codings.filter_map(|coding| Some((plain(coding)?, Some(coding)))).next();
    found.unwrap_or((inner, None))
}

/// The weight of a parameter `q=…`; none for other parameters. A malformed weight counts as zero.
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
pub struct CompressionFigures<N = u64> {
    /// Responses that were compressed.
    pub responses: N,
    /// Bytes of their bodies before compression.
    pub plain_bytes: N,
    /// Bytes of their bodies after compression.
    pub compressed_bytes: N,
    /// Time spent compressing, part of the phase `encode`.
    pub compress_ns: N,
}

/// The counters of all event loops; each loop adds only to its own.
pub(crate) struct CompressionMeter {
    clock: Clock,
    loops: Vec<CompressionFigures<AtomicU64>>,
    /// Bodies that are being compressed piece by piece.
    streams: AtomicUsize,
}

impl CompressionMeter {
    pub(crate) fn new(clock: Clock, loops: usize) -> CompressionMeter {
        let loops = (0..loops).map(|_| CompressionFigures::default()).collect();
        CompressionMeter { clock, loops, streams: AtomicUsize::new(0) }
    }

    pub(crate) fn figures(&self) -> CompressionFigures {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let none = CompressionFigures::<u64>::default();
        self.loops.iter().fold(none, |sum, meter| CompressionFigures {
            responses: sum.responses + count(&meter.responses),
            plain_bytes: sum.plain_bytes + count(&meter.plain_bytes),
            compressed_bytes: sum.compressed_bytes + count(&meter.compressed_bytes),
            compress_ns: sum.compress_ns + count(&meter.compress_ns),
        })
    }

    /// Counts a compression of `plain` bytes into `compressed` that began at `begun`; returns its
    /// ticks.
    fn count(&self, index: usize, begun: Ticks, plain: usize, compressed: usize) -> u64 {
        let meter = &self.loops[index];
        add(&meter.plain_bytes, plain as u64);
        add(&meter.compressed_bytes, compressed as u64);
        let ticks = self.clock.now().since(begun);
        add(&meter.compress_ns, self.clock.nanoseconds(ticks));
        ticks
    }
}

/// A compressor that is reused for one body after another.
struct Deflater {
    coding: Coding,
    compress: Compress,
    /// The checksum of the plain bytes, for gzip.
    crc: Crc,
    is_begun: bool,
}

impl Deflater {
    fn new(coding: Coding) -> Deflater {
        let has_zlib_head = coding == Coding::Deflate;
        let compress = Compress::new(Compression::fast(), has_zlib_head);
        Deflater { coding, compress, crc: Crc::new(), is_begun: false }
    }

    /// Appends the compressed `input` to `out`. After the last piece, another body may begin.
    fn push(&mut self, input: &[u8], is_last: bool, out: &mut Vec<u8>) {
        let is_gzip = self.coding == Coding::Gzip;
        if is_gzip {
            if !self.is_begun {
                out.extend_from_slice(&GZIP_HEAD);
            }
            self.crc.update(input);
        }
        self.is_begun = true;
        // Each piece is flushed, so that the client can decode it at once.
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

/// The compressor of one event loop.
pub(crate) struct Compressor {
    meter: Arc<CompressionMeter>,
    index: usize,
    /// The compressors for bodies of one piece, made when first needed: each takes some 300 KiB.
    gzip: Option<Deflater>,
    deflate: Option<Deflater>,
    out: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new(meter: Arc<CompressionMeter>, index: usize) -> Compressor {
        Compressor { meter, index, gzip: None, deflate: None, out: Vec::new() }
    }

    /// Compresses a complete body. Returns the compressed bytes, and the ticks that it took.
    pub(crate) fn whole(&mut self, coding: Coding, body: &[u8]) -> (&[u8], u64) {
        let begun = self.meter.clock.now();
        self.out.clear();
        let deflater = match coding {
            Coding::Gzip => &mut self.gzip,
            Coding::Deflate => &mut self.deflate,
        };
        let deflater = deflater.get_or_insert_with(|| Deflater::new(coding));
        deflater.push(body, true, &mut self.out);
        add(&self.meter.loops[self.index].responses, 1);
        let ticks = self.meter.count(self.index, begun, body.len(), self.out.len());
        (&self.out, ticks)
    }

    /// A permit to compress a body piece by piece; none if [`COMPRESSED_STREAMS_MAX`] are in use.
    pub(crate) fn permit(&self) -> Option<StreamPermit> {
        let permit = StreamPermit { meter: Arc::clone(&self.meter), index: self.index };
        // Dropping the permit gives it back.
        let streams = self.meter.streams.fetch_add(1, Ordering::Relaxed);
        (streams < COMPRESSED_STREAMS_MAX).then_some(permit)
    }
}

/// The permit to compress one body piece by piece; dropping it frees the place.
pub(crate) struct StreamPermit {
    meter: Arc<CompressionMeter>,
    index: usize,
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.meter.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl StreamPermit {
    /// Wraps `source`, so that its body is compressed.
    pub(crate) fn compress(
        self,
        coding: Coding,
        source: Box<dyn BodySource>,
    ) -> Box<dyn BodySource> {
        add(&self.meter.loops[self.index].responses, 1);
        let (deflater, piece) = (Deflater::new(coding), Vec::new());
        Box::new(CompressedBody { source, deflater, piece, ticks: 0, permit: self })
    }
}

struct CompressedBody {
    source: Box<dyn BodySource>,
    deflater: Deflater,
    /// The buffer for a plain piece of the source.
    piece: Vec<u8>,
    /// Ticks that compressing took so far.
    ticks: u64,
    permit: StreamPermit,
}

impl BodySource for CompressedBody {
    fn held_bytes(&self) -> usize {
        self.source.held_bytes()
    }

    fn fill(&mut self, out: &mut Vec<u8>) -> FillResult {
        self.piece.clear();
        let filled = self.source.fill(&mut self.piece);
        if filled == FillResult::Broken {
            return filled;
        }
        let StreamPermit { meter, index } = &self.permit;
        let (begun, before) = (meter.clock.now(), out.len());
        self.deflater.push(&self.piece, filled == FillResult::Last, out);
        self.ticks += meter.count(*index, begun, self.piece.len(), out.len() - before);
        filled
    }

    fn compress_ticks(&self) -> u64 {
        self.ticks
    }

    fn is_costly(&self) -> bool {
        true
    }
}

/// A complete body as a source, which delivers it in pieces.
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

    fn fill(&mut self, out: &mut Vec<u8>) -> FillResult {
        let end = (self.sent_bytes + READ_BYTES_MAX).min(self.body.len());
        out.extend_from_slice(&self.body[self.sent_bytes..end]);
        self.sent_bytes = end;
        if end == self.body.len() { FillResult::Last } else { FillResult::More }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_preferred_coding_follows_the_weights() {
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
            let mut accepted = AcceptedCodings::default();
            accepted.add(value.as_bytes());
            assert_eq!(accepted.preferred(), coding, "{value}");
        }
    }

    /// Regression: of several headers `Accept-Encoding`, only the first usable one counted.
    #[test]
    fn several_headers_are_one_list() {
        let mut accepted = AcceptedCodings::default();
        for value in [&b"deflate;q=0.5"[..], b"br", b"gzip", b"identity;q=0.1"] {
            accepted.add(value);
        }
        assert_eq!(accepted.preferred(), Some(Coding::Gzip));
        accepted.add(b"gzip;q=0");
        assert_eq!(accepted.preferred(), Some(Coding::Deflate));
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

    /// Covers incompressible and other bodies, in one piece and in several, one body after another.
    #[test]
    fn compressed_bodies_round_trip() {
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
