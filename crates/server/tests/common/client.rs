//! An HTTP client that sends exactly the given bytes, and checks the grammar of every answer before
//! a test sees it.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The longest time for which a test waits for an event that has to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Calls `look` repeatedly until it returns `Ok`, and returns that value. Fails the test with the
/// last error after [`PATIENCE`].
pub(crate) fn wait_for<T, E: Debug>(mut look: impl FnMut() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(last) => assert!(begun.elapsed() < PATIENCE, "it does not come: {last:?}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Calls `look` repeatedly until `is_so` accepts its result; returns that result.
pub(crate) fn wait_until<T: Debug>(mut look: impl FnMut() -> T, is_so: impl Fn(&T) -> bool) -> T {
    wait_for(|| {
        let found = look();
        if is_so(&found) { Ok(found) } else { Err(found) }
    })
}

/// A client on one connection.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) socket: S,
    unread: Vec<u8>,
}

/// A response, without its framing.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns this answer; fails the test if its status is another one.
    #[track_caller]
    pub(crate) fn having(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// The value of the header of this name; two such headers fail the test.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "two headers {name} in {self:?}");
        value
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn etag(&self) -> String {
        self.header("ETag").unwrap().to_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.header("Content-Type"), Some("application/json"));
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.header("Content-Type"), Some("application/x-ndjson"));
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The status and the number of an error of the document API.
pub(crate) fn number(answer: &Answer) -> (u16, u64) {
    let body = answer.json();
    assert!(body["error"] == true && body["code"] == answer.status, "{body}");
    assert!(body["errorMessage"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    (answer.status, body["errorNum"].as_u64().unwrap())
}

/// A request as bytes, with `Host`, and with `Content-Length` if there is a body or might be one.
pub(crate) fn request(
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n");
    headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
    if !body.is_empty() || matches!(method, "PUT" | "POST") {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    [text.as_bytes(), b"\r\n", body].concat()
}

/// Credentials of an account.
pub(crate) fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// The path of an entity; all bytes of the key except letters, digits, `-` and `_` are encoded.
pub(crate) fn entity(key: impl AsRef<[u8]>) -> String {
    format!("/v0/entity?id={}", encode(key))
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    let encoded = bytes.as_ref().iter().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(*byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    encoded.collect()
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address).unwrap()
    }

    pub(crate) fn try_connect(address: SocketAddr) -> io::Result<Client> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        Client::on(socket)
    }

    /// A client on a Unix socket. `TcpStream` wraps the descriptor, of either kind.
    pub(crate) fn at_file(path: &Path) -> Client {
        let socket = UnixStream::connect(path).unwrap();
        Client::on(OwnedFd::from(socket).into()).unwrap()
    }

    fn on(socket: TcpStream) -> io::Result<Client> {
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { socket, unread: Vec::new() })
    }
}

impl<S: Read + Write> Client<S> {
    /// Wraps the client's stream by `make`, for example into a TLS session.
    pub(crate) fn map_socket<T>(self, make: impl FnOnce(S) -> T) -> Client<T> {
        Client { socket: make(self.socket), unread: self.unread }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Sends a request and reads its answer.
    pub(crate) fn call(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Answer {
        self.try_call(method, target, headers, body.as_ref()).unwrap()
    }

    pub(crate) fn try_call(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        self.socket.write_all(&request(method, target, headers, body))?;
        self.try_answer(method == "HEAD")
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.call("GET", target, &[], b"")
    }

    pub(crate) fn put(&mut self, target: &str, body: impl AsRef<[u8]>) -> Answer {
        self.call("PUT", target, &[], body)
    }

    /// The value of a metric of `/metrics`, whose labels are part of its name.
    pub(crate) fn figure(&mut self, name: &str) -> f64 {
        let page = self.get("/metrics");
        let line = page.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
    }

    /// Reads one answer.
    pub(crate) fn answer(&mut self) -> Answer {
        self.try_answer(false).unwrap()
    }

    pub(crate) fn try_answer(&mut self, to_head: bool) -> io::Result<Answer> {
        let mut answer = self.try_head()?;
        let chunked = answer.header("Transfer-Encoding");
        let length = answer.header("Content-Length").map(|length| length.parse().unwrap());
        match (chunked, length) {
            _ if to_head || answer.status == 304 => {}
            (Some(coding), None) => {
                assert_eq!(coding, "chunked");
                while let Some(chunk) = self.try_chunk()? {
                    answer.body.extend(chunk);
                }
            }
            (None, Some(length)) => answer.body = self.take(length)?,
            _ => panic!("an answer is framed in one way: {answer:?}"),
        }
        Ok(answer)
    }

    /// Reads the head of an answer, and leaves its body unread.
    pub(crate) fn try_head(&mut self) -> io::Result<Answer> {
        let status_line = self.line()?;
        let (version, rest) = status_line.split_once(' ').unwrap();
        let (status, reason) = rest.split_once(' ').unwrap();
        assert!(version == "HTTP/1.1" && status.len() == 3 && !reason.is_empty(), "{status_line}");
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap();
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            assert!(name.bytes().all(is_token), "{line}");
            assert!(value.is_ascii() && value.trim() == value, "{line}");
            headers.push((name.to_owned(), value.to_owned()));
        }
        let answer = Answer { status: status.parse().unwrap(), headers, body: Vec::new() };
        unix_seconds(answer.header("Date").unwrap());
        Ok(answer)
    }

    /// Reads the next chunk of a chunked body, or `None` after the last one.
    pub(crate) fn try_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let size = usize::from_str_radix(&line, 16).unwrap();
        let chunk = self.take(size)?;
        assert_eq!(self.line()?, "", "a chunk ends with a line end");
        Ok((size > 0).then_some(chunk))
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.take(end + 2)?;
                return Ok(String::from_utf8(line[..end].to_vec()).unwrap());
            }
            self.fill()?;
        }
    }

    fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < count {
            self.fill()?;
        }
        let rest = self.unread.split_off(count);
        Ok(std::mem::replace(&mut self.unread, rest))
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0; 64 * 1024];
        match self.socket.read(&mut buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.unread.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }

    /// Reads `100 Continue`.
    pub(crate) fn expect_continue(&mut self) {
        assert_eq!(
            (self.line().unwrap(), self.line().unwrap()),
            ("HTTP/1.1 100 Continue".into(), String::new())
        );
    }

    /// True if all received bytes were consumed.
    pub(crate) fn has_read_all(&self) -> bool {
        self.unread.is_empty()
    }

    /// Reads everything until the server closes the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.unread);
        self.socket.read_to_end(&mut rest).unwrap();
        rest
    }

    /// Asserts that the server closes the connection and sends nothing more.
    pub(crate) fn expect_end(&mut self) {
        assert_eq!(String::from_utf8_lossy(&self.rest()), "");
    }
}

/// The time of an RFC 9110 date, in seconds since the Unix epoch; a wrong weekday fails the test.
pub(crate) fn unix_seconds(date: &str) -> u64 {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    assert_eq!(date.len(), "Thu, 01 Jan 1970 00:00:00 GMT".len(), "{date}");
    let number = |from: usize, digits: usize| date[from..from + digits].parse::<u64>().unwrap();
    let (day, year) = (number(5, 2), number(12, 4));
    let month = MONTHS.find(&date[8..11]).unwrap() as u64 / 3;
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let month_days = |month| match month {
        1 => 28 + u64::from(leap(year)),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    };
    let years: u64 = (1970..year).map(|year| 365 + u64::from(leap(year))).sum();
    let days = years + (0..month).map(month_days).sum::<u64>() + day - 1;
    let weekday = WEEKDAYS[(days % 7) as usize];
    let (hour, minute, second) = (number(17, 2), number(20, 2), number(23, 2));
    assert!(day >= 1 && day <= month_days(month) && hour < 24 && minute < 60 && second < 60);
    let rebuilt = format!(
        "{weekday}, {day:02} {} {year:04} {hour:02}:{minute:02}:{second:02} GMT",
        &date[8..11]
    );
    assert_eq!(date, rebuilt);
    ((days * 24 + hour) * 60 + minute) * 60 + second
}
