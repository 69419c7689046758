//! Counts the requests in a string that a script returns: more than one means pipelining.

/// The largest number of header fields of a request.
const MAX_HEADERS: usize = 256;

/// The number of complete requests in `bytes`, which must end with the last of them.
pub(super) fn count_requests(bytes: &[u8]) -> Result<usize, String> {
    let mut rest = bytes;
    let mut count = 0;
    while !rest.is_empty() {
        rest = &rest[request_length(rest)?..];
        count += 1;
    }
    if count == 0 { Err("it is empty".to_owned()) } else { Ok(count) }
}

fn request_length(bytes: &[u8]) -> Result<usize, String> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Err("incomplete request".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let mut body = 0_usize;
    for header in request.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).unwrap_or_default().trim();
            body = text.parse().map_err(|_| "bad Content-Length".to_owned())?;
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Ok(bytes.len());
        }
    }
    head.checked_add(body)
        .filter(|length| *length <= bytes.len())
        .ok_or_else(|| "incomplete request: the body is shorter than Content-Length".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_one_after_the_other() {
        let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        let put = b"PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc".to_vec();
        assert_eq!(count_requests(&get), Ok(1));
        assert_eq!(count_requests(&[get.clone(), put.clone(), get.clone()].concat()), Ok(3));
        for bad in
            [&b""[..], b"GET", b"GET / HTTP/1.1\r\n", b"not http\r\n\r\n", &put[..put.len() - 1]]
        {
            assert!(count_requests(bad).is_err(), "{bad:?}");
        }
    }
}
