//! Requests for HTTP/2, made from those for HTTP/1.1.
//!
//! Scripts and descriptions of work make the bytes of HTTP/1.1, whatever carries them. What they
//! say is the same in both; only headers about the connection have no place in HTTP/2 (RFC 9113,
//! section 8.2.2).

use super::hpack;

/// Headers that are about the connection.
const OF_THE_CONNECTION: [&[u8]; 6] =
    [b"connection", b"keep-alive", b"proxy-connection", b"upgrade", b"http2-settings", b"te"];

/// Appends the header block of a request and returns where its body begins.
pub(crate) fn encode(request: &[u8], tls: bool, block: &mut Vec<u8>) -> Result<usize, String> {
    let (line, mut at) = line_of(request, 0).ok_or("it has no request line")?;
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(path), Some(_)) = (words.next(), words.next(), words.next()) else {
        return Err("its first line is not 'METHOD PATH HTTP/1.1'".to_owned());
    };
    let headers_at = at;
    hpack::write_method(method, block);
    hpack::write_scheme(tls, block);
    hpack::write_named(hpack::PATH, path, block);
    for host in [true, false] {
        at = headers_at;
        loop {
            let (line, next) = line_of(request, at).ok_or("its headers have no end")?;
            at = next;
            if line.is_empty() {
                break;
            }
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            match name.eq_ignore_ascii_case(b"host") {
                true if host => hpack::write_named(hpack::AUTHORITY, value, block),
                false if !host => write_other(name, value, block)?,
                _ => {}
            }
        }
    }
    Ok(at)
}

/// Appends a header to a block.
pub(crate) fn add_header(name: &[u8], value: &[u8], block: &mut Vec<u8>) {
    hpack::write_header(name, value, block);
}

fn write_other(name: &[u8], value: &[u8], block: &mut Vec<u8>) -> Result<(), String> {
    if name.eq_ignore_ascii_case(b"transfer-encoding") {
        return Err("a Transfer-Encoding has no place in HTTP/2; use Content-Length".to_owned());
    }
    if !OF_THE_CONNECTION.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        hpack::write_header(name, value, block);
    }
    Ok(())
}

/// The line at `at` without its end, and where the next one begins.
fn line_of(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    Some((rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]), at + end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_the_connection_is_left_out() {
        let request = b"PUT /a?b=1 HTTP/1.1\r\nX-A: 1\r\nConnection: close\r\nHost: h:1\r\n\
            Content-Length: 2\r\n\r\nok";
        let mut block = Vec::new();
        let body = encode(request, false, &mut block).unwrap();
        assert_eq!(&request[body..], b"ok");
        let mut told = Vec::new();
        let mut decoder = hpack::Decoder::default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.read(&block, |name, value| told.push((text(name), text(value)))).unwrap();
        let told: Vec<(&str, &str)> = told.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let expected = [
            (":method", "PUT"),
            (":scheme", "http"),
            (":path", "/a?b=1"),
            (":authority", "h:1"),
            ("x-a", "1"),
            ("content-length", "2"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (request, word) in [
            (&b"GET"[..], "request line"),
            (b"GET\r\n\r\n", "first line"),
            (b"GET / HTTP/1.1\r\nA: b\r\n", "no end"),
            (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "Content-Length"),
        ] {
            let error = encode(request, true, &mut Vec::new()).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
