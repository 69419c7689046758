//! Single questions to the server that is loaded, beside the load: for its account, its figures.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::options::LoadOptions;
use crate::response::{Captured, Parsed, ResponseParser};
use crate::tls::TlsSetup;

/// How long a question may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What one read takes at most.
const READ_BYTES: usize = 64 << 10;

/// Status, head and body of the answer to a GET of `path`, over a connection of its own, with
/// further header lines, each with its end.
///
/// # Errors
/// What went wrong, in words.
pub fn ask(options: &LoadOptions, path: &str, headers: &str) -> Result<(u16, Captured), String> {
    ask_within(options, path, headers, TIMEOUT)
}

/// As [`ask`], where the server may be silent for `timeout` before and while it answers.
///
/// # Errors
/// What went wrong, in words.
pub fn ask_within(
    options: &LoadOptions,
    path: &str,
    headers: &str,
    timeout: Duration,
) -> Result<(u16, Captured), String> {
    let target = &options.target;
    if options.simulation.is_some() {
        return Err("a simulated service is asked nothing beside its load".to_owned());
    }
    let failed = |text: String| format!("GET {path} of {}: {text}", target.address());
    let (_, mut socket) = target.reach(TIMEOUT).map_err(|error| error.to_string())?;
    let answered = set_limits(&socket, timeout).map_err(|error| error.to_string()).and_then(|()| {
        let host = target.host_header();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n");
        if !target.is_tls() {
            return exchange(&mut socket, request.as_bytes());
        }
        let setup = TlsSetup::new(&options.tls, target.host(), false);
        let mut session = setup
            .map_err(|error| error.to_string())?
            .session()
            .map_err(|error| error.to_string())?;
        exchange(&mut rustls::Stream::new(&mut session, &mut socket), request.as_bytes())
    });
    answered.map_err(failed)
}

fn set_limits(socket: &TcpStream, timeout: Duration) -> io::Result<()> {
    socket.set_read_timeout(Some(timeout))?;
    socket.set_write_timeout(Some(TIMEOUT))
}

/// Reads to the end of the answer, not of the connection: not every server closes it when asked to.
fn exchange(socket: &mut (impl Read + Write), request: &[u8]) -> Result<(u16, Captured), String> {
    socket.write_all(request).map_err(|error| error.to_string())?;
    let mut parser = ResponseParser::new(true);
    let mut buffer = vec![0; READ_BYTES];
    let response = loop {
        let count = match socket.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error.to_string()),
        };
        if count == 0 {
            let ended = parser.end().map_err(|malformed| malformed.text().to_owned())?;
            break ended.ok_or("the connection ended before the answer")?;
        }
        match parser.parse(&buffer[..count], false) {
            Ok(Parsed::More) => {}
            Ok(Parsed::Complete { response, .. }) => break response,
            Err(malformed) => return Err(malformed.text().to_owned()),
        }
    };
    let kept = parser.captured().ok_or("the answer was not kept")?;
    Ok((response.status, Captured { head: kept.head.clone(), body: kept.body.clone() }))
}
