//! A minimal HTTP client of the server.

use std::net::TcpStream;

use pellucid_client::http::Conversation;

use crate::{Outcome, text};

/// A connection to the server.
pub struct Http {
    conversation: Conversation<TcpStream>,
    address: String,
}

impl Http {
    /// Connects to the server at `address`.
    pub fn open(address: &str) -> Outcome<Http> {
        let stream = TcpStream::connect(address).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        Ok(Http { conversation: Conversation::over(stream), address: address.to_owned() })
    }

    /// Sends a PUT or GET of an entity, and waits for the complete answer.
    pub fn ask(&mut self, method: &str, key: &str, value: &[u8]) -> Outcome<()> {
        let (address, length) = (&self.address, value.len());
        let head = format!(
            "{method} /v0/entity?id={key} HTTP/1.1\r\nHost: {address}\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        self.conversation.send(&[head.as_bytes(), value].concat()).map_err(text)?;
        match self.conversation.answer(&mut |_, _| Ok(())).map_err(text)? {
            (response, _) if (200..210).contains(&response.status) => Ok(()),
            (response, _) => Err(format!("{method} of {key} was answered {}", response.status)),
        }
    }
}
