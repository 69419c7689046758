//! The heads that nearly all requests have, read in one pass: HTTP/1.1, a path, and headers that
//! need no second look. Whatever is not like that (or not whole) is for `httparse`, which decides
//! what is malformed and how; a test holds both against each other. What it is good for shows where
//! several requests come in one read (docs/request-path.md).

use crate::head::HeaderSpace;
use crate::request::Header;

/// What stands in a head, as `httparse` would tell it.
#[derive(Debug, PartialEq)]
pub(crate) struct PlainHead<'b> {
    pub(crate) method: &'b str,
    pub(crate) target: &'b str,
    /// How many headers there are.
    header_count: usize,
    /// Bytes of the head, the empty line included.
    pub(crate) length: usize,
}

impl<'b> PlainHead<'b> {
    /// The headers.
    ///
    /// # Safety
    /// `space` has to be what [`read`] had, and nobody may have written to it since.
    pub(crate) unsafe fn headers_in<'h>(&self, space: &'h HeaderSpace<'b>) -> &'h [Header<'b>] {
        let written = &space[..self.header_count];
        // SAFETY: `MaybeUninit` has the layout of what it holds, and `read` has written so many.
        unsafe { &*(std::ptr::from_ref(written) as *const [Header<'b>]) }
    }
}

/// Letters of the longest method that is looked at here.
const METHOD_BYTES_MAX: usize = 8;
const REST_OF_LINE: &[u8] = b" HTTP/1.1\r\n";

/// Bytes that names of headers consist of here; RFC 9110 allows a few more that nobody uses.
const IS_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'-';
        byte += 1;
    }
    table
};

/// Reads a head from the beginning of `bytes`, if it is as plain as that.
pub(crate) fn read<'b>(bytes: &'b [u8], space: &mut HeaderSpace<'b>) -> Option<PlainHead<'b>> {
    let is_upper = |byte: &&u8| byte.is_ascii_uppercase();
    let method_end = bytes.iter().take(METHOD_BYTES_MAX).take_while(is_upper).count();
    if method_end == 0 || bytes.get(method_end..method_end + 2)? != b" /" {
        return None;
    }
    let target_begin = method_end + 1;
    let target_end = target_begin + first_below(&bytes[target_begin..], b'!')?;
    let mut at = target_end + REST_OF_LINE.len();
    if bytes.get(target_end..at)? != REST_OF_LINE {
        return None;
    }
    let mut count = 0;
    while bytes[at..].first()? != &b'\r' {
        let (header, end) = read_header(bytes, at)?;
        space.get_mut(count)?.write(header);
        (at, count) = (end, count + 1);
    }
    if bytes.get(at + 1)? != &b'\n' {
        return None;
    }
    let target = &bytes[target_begin..target_end];
    let (method, target) = (ascii(&bytes[..method_end]), ascii(target));
    Some(PlainHead { method, target, header_count: count, length: at + 2 })
}

/// The header whose line begins at `at`, and where the next line begins.
#[inline]
fn read_header(bytes: &[u8], at: usize) -> Option<(Header<'_>, usize)> {
    let rest = &bytes[at..];
    let name_end = rest.iter().position(|byte| !IS_NAME[usize::from(*byte)])?;
    if name_end == 0 || rest[name_end] != b':' {
        return None;
    }
    let spaces = usize::from(*rest.get(name_end + 1)? == b' ');
    let value_begin = name_end + 1 + spaces;
    let value_end = value_begin + first_below(&rest[value_begin..], b' ')?;
    if rest.get(value_end..value_end + 2)? != b"\r\n" {
        return None;
    }
    let value = &rest[value_begin..value_end];
    // White space around a value is no part of it, and an empty one not worth the trouble.
    if *value.first()? == b' ' || *value.last()? == b' ' {
        return None;
    }
    Some((Header { name: ascii(&rest[..name_end]), value }, at + value_end + 2))
}

/// Where the first byte is that is below `least` or no visible ASCII: eight are looked at together.
#[inline]
fn first_below(bytes: &[u8], least: u8) -> Option<usize> {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut eights = bytes.chunks_exact(8);
    for (index, eight) in eights.by_ref().enumerate() {
        let word = u64::from_le_bytes(eight.try_into().unwrap_or_default());
        let deleted = word ^ (ONES * 0x7f);
        // The lowest bit that is set is right; above it, a borrow may have set others.
        let below = word.wrapping_sub(ONES * u64::from(least)) & !word;
        let found = (word | below | (deleted.wrapping_sub(ONES) & !deleted)) & HIGH;
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let done = bytes.len() - eights.remainder().len();
    let is_found = |byte: &u8| *byte < least || *byte >= 0x7f;
    eights.remainder().iter().position(is_found).map(|place| done + place)
}

/// Bytes that were looked at one by one, as text.
#[inline]
fn ascii(bytes: &[u8]) -> &str {
    debug_assert!(bytes.is_ascii(), "only such bytes get here");
    // SAFETY: methods are upper case letters, names are those of `IS_NAME`, and targets have no
    // byte that `first_below` finds: all of it is ASCII.
    unsafe { std::str::from_utf8_unchecked(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::HEADERS_MAX;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::mem::MaybeUninit;

    /// Reads in both ways; what is read here has to be what the general parser reads.
    fn compare(bytes: &[u8]) -> Option<usize> {
        let mut space = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let plain = read(bytes, &mut space)?;
        // SAFETY: nobody else has the space.
        let headers = unsafe { plain.headers_in(&space) };
        let mut space = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut general = httparse::Request::new(&mut []);
        let status = general.parse_with_uninit_headers(bytes, &mut space);
        assert_eq!(status, Ok(httparse::Status::Complete(plain.length)));
        assert_eq!((general.method, general.path), (Some(plain.method), Some(plain.target)));
        assert_eq!((general.version, &*general.headers), (Some(1), headers));
        Some(plain.length)
    }

    #[test]
    fn what_clients_send_is_plain() {
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET /v0/entity?id=1 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n",
            "PUT /v0/entity?id=a%20b&x HTTP/1.1\r\nHost:a\r\nContent-Length: 3\r\n\r\nabc",
            "OPTIONS /a HTTP/1.1\r\nUser-Agent: a (b; c) d/1.0\r\nAccept: */*\r\n\r\n",
        ] {
            let body = text.len() - text.find("\r\n\r\n").unwrap() - 4;
            assert_eq!(compare(text.as_bytes()), Some(text.len() - body), "{text:?}");
            for cut in 0..text.len() - body {
                assert_eq!(compare(&text.as_bytes()[..cut]), None, "{text:?} up to {cut}");
            }
        }
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_general_parser() {
        for text in [
            "get / HTTP/1.1\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET /a\u{7f} HTTP/1.1\r\n\r\n",
            "GET /é HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHo st: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\n: a\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            "GET / HTTP/1.1\r\nA:  b\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b \r\n\r\n",
            "GET / HTTP/1.1\r\nA:\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\tc\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\0c\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
            "GET / HTTP/1.1\r\n\rA: b\r\n\r\n",
        ] {
            assert_eq!(compare(text.as_bytes()), None, "{text:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX));
        assert_eq!(compare(many.as_bytes()), Some(many.len()));
        let too_many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(compare(too_many.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn both_parsers_agree_on_any_bytes(bytes in vec(any::<u8>(), 0..200)) {
            compare(&bytes);
        }

        #[test]
        fn both_parsers_agree_on_heads_with_a_byte_changed(
            path in "/[ -~]{0,20}", names in vec("[!-~]{1,12}", 0..4), value in "[ -~]{0,30}",
            place in any::<prop::sample::Index>(), byte in any::<u8>(), is_changed in any::<bool>(),
        ) {
            let headers: String = names.iter().map(|name| format!("{name}: {value}\r\n")).collect();
            let mut bytes = format!("PUT {path} HTTP/1.1\r\n{headers}\r\nbody").into_bytes();
            if is_changed {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            compare(&bytes);
        }

        #[test]
        fn bytes_are_found_wherever_they_are(
            before in vec(b'!'..=b'~', 0..40), found in prop_oneof![0_u8..=b' ', 0x7f_u8..=0xff],
            after in vec(any::<u8>(), 0..20),
        ) {
            let bytes = [&before[..], &[found], &after[..]].concat();
            prop_assert_eq!(first_below(&bytes, b'!'), Some(before.len()));
        }
    }
}
