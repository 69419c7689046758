//! Decompression of pages, to exactly the length in their header.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use parquet::basic::Compression;

/// A compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Plain,
    Snappy,
    Gzip,
    Lz4,
}

impl Codec {
    pub(crate) fn of(compression: Compression) -> Result<Codec, String> {
        match compression {
            Compression::UNCOMPRESSED => Ok(Codec::Plain),
            Compression::SNAPPY => Ok(Codec::Snappy),
            Compression::GZIP(_) => Ok(Codec::Gzip),
            Compression::LZ4_RAW => Ok(Codec::Lz4),
            other => {
                let cure = "write it with snappy, gzip, lz4_raw or none";
                Err(format!("its compression {other} is not taken: {cure}"))
            }
        }
    }

    /// Decompresses a page, which must have exactly `length` bytes then.
    pub(crate) fn unpack(self, packed: &[u8], length: usize) -> Result<Vec<u8>, String> {
        let unpacked = match self {
            Codec::Plain => Some(packed.to_vec()),
            Codec::Snappy => unpack_snappy(packed, length),
            Codec::Gzip => unpack_gzip(packed, length),
            Codec::Lz4 => {
                let mut room = vec![0; length];
                let unpacked = lz4_flex::block::decompress_into(packed, &mut room);
                unpacked.ok().map(|unpacked| room[..unpacked].to_vec())
            }
        };
        let fits = unpacked.filter(|unpacked| unpacked.len() == length);
        fits.ok_or_else(|| "a page is damaged: it does not unpack".to_owned())
    }
}

fn unpack_snappy(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    // The decoder allocates as many bytes as the compressed data claims.
    let told = snap::raw::decompress_len(packed).ok()?;
    (told == length).then(|| snap::raw::Decoder::new().decompress_vec(packed).ok())?
}

fn unpack_gzip(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut unpacked = Vec::new();
    // Allow one more byte, so that excess data is noticed and the checksum at the end is verified.
    let mut decoder = MultiGzDecoder::new(packed).take(length as u64 + 1);
    decoder.read_to_end(&mut unpacked).ok()?;
    Some(unpacked)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn pages_round_trip_only_with_their_exact_length() {
        for bytes in [&b""[..], b"abc", &[7; 100_000]] {
            for (codec, packed) in [
                (Codec::Plain, bytes.to_vec()),
                (Codec::Snappy, snap::raw::Encoder::new().compress_vec(bytes).unwrap()),
                (Codec::Gzip, gzip(bytes)),
                (Codec::Lz4, lz4_flex::block::compress(bytes)),
            ] {
                let length = bytes.len();
                assert_eq!(codec.unpack(&packed, length).unwrap(), bytes, "{codec:?}");
                for wrong in [length + 1, length.saturating_sub(1), length + 1_000_000] {
                    assert!(wrong == length || codec.unpack(&packed, wrong).is_err(), "{codec:?}");
                }
                let cut = &packed[..packed.len().saturating_sub(1)];
                assert!(packed.is_empty() || codec.unpack(cut, length).is_err(), "{codec:?}");
            }
        }
    }

    #[test]
    fn a_flipped_bit_of_gzip_is_noticed() {
        let bytes = b"some bytes, and some more bytes";
        let packed = gzip(bytes);
        // Skip the gzip header, which has no checksum.
        for place in 10 * 8..packed.len() * 8 {
            let mut flipped = packed.clone();
            flipped[place / 8] ^= 1 << (place % 8);
            // Some bits are padding without a meaning.
            let unpacked = Codec::Gzip.unpack(&flipped, bytes.len());
            assert!(unpacked.is_err() || unpacked.is_ok_and(|same| same == bytes), "bit {place}");
        }
    }

    #[test]
    fn other_compressions_are_named() {
        let refused = Codec::of(Compression::ZSTD(Default::default())).unwrap_err();
        assert!(refused.contains("ZSTD") && refused.contains("snappy"), "{refused}");
    }
}
