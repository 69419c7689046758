//! Requests to a running server: its URL, credentials and trusted certificates come from flags, the
//! environment or files, and errors name their cure.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
pub(crate) use pellucid_client::http::encoded;
use pellucid_client::http::{
    BodyCallback, ConnectionError, Header, HttpRequest, ResponseError, Target, TlsOptions,
};

use crate::Failure;

/// The environment variable with a token.
pub(crate) const TOKEN_VARIABLE: &str = "PELLUCID_TOKEN";
/// The environment variable with the path of a file that contains a token.
pub(crate) const TOKEN_FILE_VARIABLE: &str = "PELLUCID_TOKEN_FILE";
/// The largest file with a token or a password, in bytes.
const SECRET_BYTES_MAX: u64 = 4 << 10;
/// The most bytes of an error's text that are shown.
const ERROR_BYTES_MAX: usize = 4 << 10;
/// The possible cause of an answer that ended too early.
const CUT_CAUSE: &str = ": the server cut its answer: it stopped, or its answer was not read for \
                         --exchange-timeout";
/// The words of a store that accepts no more writes since a failure, as that of a sync.
pub(crate) const REFUSES_WRITES: &str = "writes are refused since a failure";

/// The arguments that name a server and the credentials for it.
#[derive(Parser)]
pub(crate) struct ServerAddress {
    /// The URL of the server: http://127.0.0.1:8080, or unix:/run/pellucid.sock for the file of a
    /// Unix socket.
    url: String,
    /// With https: trust the authorities of this file (PEM) instead of the system's.
    #[arg(long, value_name = "FILE.pem")]
    ca: Option<PathBuf>,
    /// With https: trust any certificate.
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// A token of an account. In the environment nobody sees it who lists commands.
    #[arg(long, env = TOKEN_VARIABLE, hide_env_values = true)]
    token: Option<String>,
    /// A file with a token of an account, in its first line.
    #[arg(long, env = TOKEN_FILE_VARIABLE, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// An account by its name, with --password-file.
    #[arg(long, value_name = "NAME", requires = "password_file", conflicts_with = "token_file")]
    user: Option<String>,
    /// A file with the account's password, in its first line.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
}

/// A server that requests can be sent to.
pub(crate) struct RemoteServer {
    target: Target,
    tls: TlsOptions,
    /// The header lines of each request, each with its line end.
    headers: String,
}

/// A complete answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl ServerAddress {
    /// Makes the server. `further` are headers of each request, as `Name: value`.
    pub(crate) fn remote(&self, further: &[String]) -> Result<RemoteServer, Failure> {
        let target = Target::parse(&self.url).map_err(Failure::usage)?;
        if target.url() != self.url {
            let text = "the URL has a user, which is not sent: give --user with --password-file, \
                        or --token-file";
            return Err(Failure::usage(text));
        }
        if target.path() != "/" {
            let text = format!("{}: give the server's URL alone, without a path", self.url);
            return Err(Failure::usage(text));
        }
        let tls = TlsOptions { ca_file: self.ca.clone(), insecure: self.insecure };
        let credentials = self.credentials()?.map(|value| format!("Authorization: {value}"));
        let lines = further.iter().chain(&credentials);
        let line = |text: &String| {
            let Header { name, value } = Header::parse(text).map_err(|error| {
                // The error must not show a header that contains a secret.
                let is_secret = credentials.as_ref() == Some(text);
                let unfit = "the token or password has bytes that no header can carry";
                if is_secret { Failure::usage(unfit) } else { Failure::usage(error) }
            })?;
            Ok(format!("{name}: {value}\r\n"))
        };
        let headers = lines.map(line).collect::<Result<String, Failure>>()?;
        Ok(RemoteServer { target, tls, headers })
    }

    fn credentials(&self) -> Result<Option<String>, Failure> {
        if let (Some(user), Some(file)) = (&self.user, &self.password_file) {
            let pair = format!("{user}:{}", first_line(file)?);
            return Ok(Some(format!("Basic {}", STANDARD.encode(pair))));
        }
        let token = match (&self.token, &self.token_file) {
            (Some(_), Some(_)) => {
                return Err(Failure::usage(format!(
                    "a token and a file with one are both given, by flags or by {TOKEN_VARIABLE} \
                     and {TOKEN_FILE_VARIABLE}: give one"
                )));
            }
            (Some(token), None) => Some(token.clone()),
            (None, Some(file)) => Some(first_line(file)?),
            (None, None) => None,
        };
        Ok(token.map(|token| format!("Bearer {token}")))
    }
}

/// The first line of a file with a secret.
fn first_line(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let unreadable = |error| Failure::usage(format!("cannot read {name}: {error}"));
    let bytes = read_small(path, SECRET_BYTES_MAX).map_err(unreadable)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("cannot read {name}: it is no UTF-8")))?;
    let line = text.lines().next().unwrap_or_default().trim_end();
    if line.is_empty() {
        return Err(Failure::usage(format!("{name}: its first line is empty")));
    }
    Ok(line.to_owned())
}

/// Reads a file that has at most `bytes_max` bytes, and no more of a larger one. The length is
/// counted while it is read, because a pipe or a device has none before.
pub(crate) fn read_small(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it is larger than {bytes_max} bytes")));
    }
    Ok(bytes)
}

impl RemoteServer {
    /// Sends a request and returns the whole answer.
    pub(crate) fn ask(&self, question: &HttpRequest<'_>) -> Result<Answer, Failure> {
        self.ask_in_pieces(question, &mut |_, _| Ok(()))
    }

    /// Sends a request. For each piece of the answer that arrives, calls `take` with the status and
    /// the body so far; `take` removes the bytes that it consumes.
    pub(crate) fn ask_in_pieces(
        &self,
        question: &HttpRequest<'_>,
        take: &mut BodyCallback<'_>,
    ) -> Result<Answer, Failure> {
        let headers = format!("{}{}", self.headers, question.headers);
        let question = HttpRequest { headers: &headers, ..*question };
        let mut has_begun = false;
        let answered = question.try_ask(&self.target, &self.tls, &mut |status, body| {
            has_begun = true;
            take(status, body)
        });
        let (status, captured) = answered.map_err(|error| {
            // The cure is that of the error: a key may have any word.
            let cured = match has_begun && is_of_cut(&error) {
                true => format!("{error}{CUT_CAUSE}"),
                false => with_cure(error.to_string()),
            };
            let HttpRequest { method, path, .. } = question;
            Failure::work(format!("{method} {path} of {}: {cured}", self.target.address()))
        })?;
        Ok(Answer { status, body: captured.body })
    }
}

impl Answer {
    /// The failure for an unexpected answer. `right` is the right that the request needs.
    pub(crate) fn failure(&self, right: &str) -> Failure {
        let shown = &self.body[..self.body.len().min(ERROR_BYTES_MAX)];
        Failure::work(self.refusal(String::from_utf8_lossy(shown).trim(), right))
    }

    /// The message for an unexpected answer. `text` is the reason, and `right` the right that the
    /// request needs.
    pub(crate) fn refusal(&self, text: &str, right: &str) -> String {
        format!("the server answered {}: {text}{}", self.status, hint(self.status, text, right))
    }
}

/// Returns true if the connection ended.
fn is_of_cut(error: &ConnectionError) -> bool {
    let is_truncated = matches!(error, ConnectionError::Malformed(ResponseError::Truncated));
    is_truncated || error.is_of_closed_connection()
}

/// Adds a cure to the message of a request that failed.
fn with_cure(text: String) -> String {
    let of_file = text.contains("unable to connect to unix:");
    let cure = if of_file && text.contains("Permission denied") {
        ": the file's mode says who may connect (--socket-mode)"
    } else if of_file {
        ": no server listens there; check the path, or start one with `pellucid serve --listen`"
    } else if text.contains("certificate") && !text.contains("--ca") {
        ": trust it with --ca FILE.pem, or any with --insecure"
    } else if text.contains("Connection refused") {
        ": no server listens there; check host and port, or start one with `pellucid serve`"
    } else if text.contains("InvalidContentType") {
        ": no TLS is spoken there; try http://"
    } else if text.contains("no HTTP/1 status line") {
        ": the server speaks TLS; try https://"
    } else {
        ""
    };
    text + cure
}

/// A hint about an answer of this status with this text. `right` is the right that the request
/// needs.
fn hint(status: u16, text: &str, right: &str) -> String {
    if text.contains(REFUSES_WRITES) {
        return " (check the server's disk and its log, then restart the server)".to_owned();
    }
    match status {
        401 => " (give a token: --token-file, or PELLUCID_TOKEN; `pellucid account token add` \
                makes one)"
            .to_owned(),
        403 => format!(" (the account needs the right {right}: `pellucid account grant`)"),
        413 => " (the limit is the server's --value-max, --batch-max, --bodies-max or \
                --request-memory)"
            .to_owned(),
        421 => " (use an address in the URL, or name the host in the server's --allowed-hosts)"
            .to_owned(),
        429 | 503 => " (the server is busy: ask again later)".to_owned(),
        _ => String::new(),
    }
}

/// Makes a request with a body. `patience` is the longest silence of the server.
pub(crate) fn question<'a>(
    method: &'a str,
    path: &'a str,
    body: &'a [u8],
    patience: Duration,
) -> HttpRequest<'a> {
    HttpRequest { method, body, patience, ..HttpRequest::get(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(flags: &[&str], further: &[&str]) -> Result<RemoteServer, Failure> {
        let words = [&["x", "http://h"], flags].concat();
        let address = ServerAddress::try_parse_from(words).unwrap();
        address.remote(&further.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    /// Regression: a file whose length is not known before was read to its end, such as a pipe, or
    /// this one.
    #[test]
    fn a_secret_is_not_read_beyond_its_limit() {
        let endless = "/dev/zero";
        let failure = remote(&["--token-file", endless], &[]).err().unwrap();
        assert!(failure.text.contains("larger than 4096 bytes"), "{}", failure.text);
        let failure = crate::settings::read_secret_bytes(Path::new(endless)).unwrap_err();
        assert!(failure.text.contains("larger than 8192 bytes"), "{}", failure.text);
    }

    #[test]
    fn credentials_become_headers() {
        let headers = |flags: &[&str]| remote(flags, &["X-Region: north"]).ok().unwrap().headers;
        let token = "X-Region: north\r\nAuthorization: Bearer pt_1\r\n";
        assert_eq!(headers(&["--token", "pt_1"]), token);
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "pt_1\r\nmore\n").unwrap();
        let file = file.to_str().unwrap();
        assert_eq!(headers(&["--token-file", file]), token);
        let basic = headers(&["--user", "ada", "--password-file", file]);
        assert!(basic.ends_with("Authorization: Basic YWRhOnB0XzE=\r\n"), "{basic}");
        // A header with a line end is refused, and the secret is not shown.
        let failure = remote(&["--token", "hunter2\r\nX: y"], &[]).err().unwrap();
        assert!(!failure.text.contains("hunter2"), "{}", failure.text);
        assert!(
            remote(&["--token-file", "/nowhere"], &[])
                .is_err_and(|failure| { failure.code == 2 && failure.text.contains("/nowhere") })
        );
        let both = ["x", "http://h", "--token-file", file, "--user", "a", "--password-file", file];
        assert!(ServerAddress::try_parse_from(both).is_err());
        // Regression: a user in the URL was left out without a word.
        let address = ServerAddress::try_parse_from(["x", "http://ada:pw@h"]).unwrap();
        let failure = address.remote(&[]).err().unwrap();
        assert!(failure.text.contains("--user") && !failure.text.contains("pw"));
        assert!(hint(401, "", "").contains("--token"));
        assert!(hint(403, "", "admin=read").contains("=read"));
    }

    /// Regression: the hint was to ask again later, which never helps after a failed sync.
    #[test]
    fn a_store_that_refuses_writes_is_not_called_busy() {
        let refused = "writes are refused since a failure (fsync of a: EIO): open the store anew";
        for status in [403, 503] {
            let hint = hint(status, refused, "table/entities=write");
            assert!(hint.contains("restart") && !hint.contains("later"), "{hint}");
        }
        assert!(hint(503, "too many requests wait", "").contains("ask again later"));
    }
}
