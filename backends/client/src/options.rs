//! The settings of a client: credentials, TLS and the time limit.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::ClientError;
use crate::http::TlsOptions;

/// The default time limit.
const PATIENCE: Duration = Duration::from_secs(30);

/// The settings of a client. [`ClientOptions::default`] has no credentials, trusts the system's
/// certificate authorities, and waits for 30 seconds.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The credentials of the account.
    pub credentials: Credentials,
    /// The certificate authorities that are trusted for `https` URLs.
    pub tls: TlsOptions,
    /// The time limit of connecting, and of each read and write. A long answer may take longer, as
    /// long as the server is not silent for this time.
    pub patience: Duration,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        let (credentials, tls) = (Credentials::None, TlsOptions::default());
        ClientOptions { credentials, tls, patience: PATIENCE }
    }
}

/// The credentials of an account. No message and no debug output shows the secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// No credentials, for a server without accounts.
    #[default]
    None,
    /// An access token.
    Token(String),
    /// The value of the header `Authorization`.
    Header(String),
    /// A name and a password.
    Password {
        /// The name, without a colon.
        name: String,
        /// The password.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::None => f.write_str("None"),
            Credentials::Token(_) => f.write_str("Token"),
            Credentials::Header(_) => f.write_str("Header"),
            Credentials::Password { name, .. } => write!(f, "Password of {name}"),
        }
    }
}

impl Credentials {
    /// The `Authorization` header line, with its line end; empty without credentials.
    ///
    /// # Errors
    /// If the credentials have control characters.
    pub(crate) fn header_line(&self) -> Result<String, ClientError> {
        let value = match self {
            Credentials::None => return Ok(String::new()),
            Credentials::Token(token) => format!("Bearer {token}"),
            Credentials::Header(value) => value.clone(),
            Credentials::Password { name, password } => {
                format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
            }
        };
        if value.bytes().any(|byte| byte.is_ascii_control()) {
            let text = "a token with control characters cannot be sent".to_owned();
            return Err(ClientError::Credentials(text));
        }
        Ok(format!("Authorization: {value}\r\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_sent_and_not_shown() {
        let token = Credentials::Token("pt_1".into());
        assert_eq!(token.header_line().unwrap(), "Authorization: Bearer pt_1\r\n");
        let ada = Credentials::Password { name: "ada".into(), password: "pt_1".into() };
        assert_eq!(ada.header_line().unwrap(), "Authorization: Basic YWRhOnB0XzE=\r\n");
        let header = Credentials::Header("Bearer pt_1".into());
        assert_eq!(header.header_line().unwrap(), token.header_line().unwrap());
        assert_eq!(format!("{token:?}, {ada:?}, {header:?}"), "Token, Password of ada, Header");
        assert!(Credentials::Token("pt_1\r\nX: y".into()).header_line().is_err());
    }
}
