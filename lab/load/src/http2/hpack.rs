//! Headers of HTTP/2 (HPACK, RFC 7541): all of it for reading, the least of it for writing.
//!
//! Requests are written without the dynamic table, so that a request that never changes is encoded
//! once. Answers are read with it: a server then repeats a header in one byte.

use std::collections::VecDeque;

use super::huffman;
use crate::response::Malformed;

/// The size of the dynamic table that a server may use: what a client has that says nothing.
const TABLE_BYTES_MAX: usize = 4_096;
/// What an entry counts beside its name and value (section 4.1).
const ENTRY_OVERHEAD_BYTES: usize = 32;
/// The longest name or value that is read.
const STRING_BYTES_MAX: usize = 64 * 1024;

/// The static table (Appendix A), from index 1 on.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Index of `:authority` and `:path` in the static table.
pub(super) const AUTHORITY: u8 = 1;
pub(super) const PATH: u8 = 4;

/// Appends a header whose name stands in the static table.
pub(super) fn write_named(index: u8, value: &[u8], out: &mut Vec<u8>) {
    // Without indexing, four bits for the index (section 6.2.2).
    write_integer(0, 4, usize::from(index), out);
    write_string(value, out);
}

/// Appends a header with its name, which is put in lower case.
pub(super) fn write_header(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(0);
    let begin = out.len() + integer_bytes(7, name.len());
    write_string(name, out);
    out[begin..].make_ascii_lowercase();
    write_string(value, out);
}

/// Appends the method.
pub(super) fn write_method(method: &[u8], out: &mut Vec<u8>) {
    match method {
        b"GET" => out.push(0x80 | 2),
        b"POST" => out.push(0x80 | 3),
        other => write_named(2, other, out),
    }
}

/// Appends the scheme.
pub(super) fn write_scheme(tls: bool, out: &mut Vec<u8>) {
    out.push(0x80 | if tls { 7 } else { 6 });
}

fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    write_integer(0, 7, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// An integer in the low `prefix` bits of a byte that begins with `flags` (section 5.1).
fn write_integer(flags: u8, prefix: u8, number: usize, out: &mut Vec<u8>) {
    let most = (1_usize << prefix) - 1;
    if number < most {
        return out.push(flags | number as u8);
    }
    out.push(flags | most as u8);
    let mut rest = number - most;
    while rest >= 128 {
        out.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    out.push(rest as u8);
}

fn integer_bytes(prefix: u8, number: usize) -> usize {
    let mut bytes = Vec::new();
    write_integer(0, prefix, number, &mut bytes);
    bytes.len()
}

/// Name and value of a header.
type Entry = (Box<[u8]>, Box<[u8]>);

/// Reads header blocks, one after the other.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The newest entry first.
    entries: VecDeque<Entry>,
    size_bytes: usize,
    size_bytes_max: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            entries: VecDeque::new(),
            size_bytes: 0,
            size_bytes_max: TABLE_BYTES_MAX,
            name: Vec::new(),
            value: Vec::new(),
        }
    }
}

impl Decoder {
    /// Reads a block and hands each header to `take`.
    pub(super) fn read(
        &mut self,
        block: &[u8],
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Malformed> {
        let mut rest = block;
        while let Some(first) = rest.first().copied() {
            if first & 0x80 != 0 {
                let index = read_integer(&mut rest, 7)?;
                let (name, value) = self.entry(index)?;
                take(name, value);
            } else if first & 0xc0 == 0x40 {
                self.read_literal(&mut rest, 6)?;
                take(&self.name, &self.value);
                self.insert();
            } else if first & 0xe0 == 0x20 {
                let size = read_integer(&mut rest, 5)?;
                if size > TABLE_BYTES_MAX {
                    return Err(Malformed::Header);
                }
                self.size_bytes_max = size;
                self.evict(0);
            } else {
                self.read_literal(&mut rest, 4)?;
                take(&self.name, &self.value);
            }
        }
        Ok(())
    }

    fn read_literal(&mut self, rest: &mut &[u8], prefix: u8) -> Result<(), Malformed> {
        let index = read_integer(rest, prefix)?;
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        match index {
            0 => read_string(rest, &mut name)?,
            index => name.extend_from_slice(self.entry(index)?.0),
        }
        self.name = name;
        self.value.clear();
        read_string(rest, &mut self.value)
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), Malformed> {
        let index = index.checked_sub(1).ok_or(Malformed::Header)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(index - STATIC.len()).ok_or(Malformed::Header)?;
        Ok((&entry.0, &entry.1))
    }

    fn insert(&mut self) {
        let size = self.name.len() + self.value.len() + ENTRY_OVERHEAD_BYTES;
        self.evict(size);
        if size <= self.size_bytes_max {
            self.entries.push_front((self.name.as_slice().into(), self.value.as_slice().into()));
            self.size_bytes += size;
        }
    }

    /// Drops the oldest entries until there is room.
    fn evict(&mut self, room_bytes: usize) {
        while self.size_bytes + room_bytes > self.size_bytes_max {
            let Some((name, value)) = self.entries.pop_back() else { break };
            self.size_bytes -= name.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        }
    }
}

fn read_integer(rest: &mut &[u8], prefix: u8) -> Result<usize, Malformed> {
    let (first, mut after) = rest.split_first().ok_or(Malformed::Header)?;
    let most = (1_usize << prefix) - 1;
    let mut number = usize::from(*first) & most;
    if number == most {
        let mut shift = 0;
        loop {
            let (byte, next) = after.split_first().ok_or(Malformed::Header)?;
            after = next;
            number += usize::from(byte & 127) << shift;
            shift += 7;
            if number > STRING_BYTES_MAX || shift > 28 {
                return Err(Malformed::Header);
            }
            if byte & 128 == 0 {
                break;
            }
        }
    }
    *rest = after;
    Ok(number)
}

fn read_string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let packed = rest.first().is_some_and(|byte| byte & 0x80 != 0);
    let length = read_integer(rest, 7)?;
    let (bytes, after) = rest.split_at_checked(length).ok_or(Malformed::Header)?;
    *rest = after;
    if packed {
        return huffman::decode(bytes, out);
    }
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<String, Malformed> {
        let mut text = String::new();
        decoder.read(block, |name, value| {
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            text.push_str(&format!("{name}={value};"));
        })?;
        Ok(text)
    }

    /// The responses of the standard's appendix C.6, with a table that has to let entries go.
    #[test]
    fn responses_of_the_standard_are_read() {
        let mut decoder = Decoder { size_bytes_max: 256, ..Decoder::default() };
        let first = b"\x48\x82\x64\x02\x58\x85\xae\xc3\x77\x1a\x4b\x61\x96\xd0\x7a\xbe\x94\x10\x54\
            \xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff\x6e\x91\x9d\x29\xad\
            \x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3";
        let all = ":status=302;cache-control=private;date=Mon, 21 Oct 2013 20:13:21 GMT;\
            location=https://www.example.com;";
        assert_eq!(read(&mut decoder, first).as_deref(), Ok(all));
        let second = read(&mut decoder, b"\x48\x83\x64\x0e\xff\xc1\xc0\xbf");
        assert_eq!(second, Ok(all.replace("302", "307")));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut block = Vec::new();
        write_method(b"PUT", &mut block);
        write_method(b"GET", &mut block);
        write_scheme(true, &mut block);
        write_named(PATH, &b"x".repeat(300), &mut block);
        write_header(b"Content-Type", b"text/plain", &mut block);
        let text = read(&mut Decoder::default(), &block).unwrap();
        let path = "x".repeat(300);
        assert_eq!(
            text,
            format!(":method=PUT;:method=GET;:scheme=https;:path={path};content-type=text/plain;")
        );
    }

    #[test]
    fn broken_blocks_are_refused() {
        for block in [
            &b"\x80"[..],
            b"\xff\xff\xff\xff\xff\xff",
            b"\xbe",
            b"\x00\x05ab",
            b"\x3f\xff\xff\x03",
            b"\x40",
            b"\x00\x81",
        ] {
            assert_eq!(read(&mut Decoder::default(), block), Err(Malformed::Header), "{block:?}");
        }
    }
}
