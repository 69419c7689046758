//! Tells systemd how the server is (sd_notify(3)): ready, stopping, and alive.
//!
//! The protocol is a datagram of text to the socket that `NOTIFY_SOCKET` names; where there is
//! none, nothing is told.

use std::io;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_client::http::{Question, Target, TlsOptions};
use pellucid_server::ListenAddress;

/// The service manager that started the server, if it wants to know.
pub(crate) struct Manager {
    socket: Option<(UnixDatagram, UnixAddress)>,
}

impl Manager {
    /// The one that the environment names.
    ///
    /// # Errors
    /// If it cannot be told anything. It would end a server of which it hears nothing.
    pub(crate) fn of_environment() -> io::Result<Manager> {
        Ok(Manager { socket: connect()? })
    }

    /// Tells it `state`, such as `READY=1`. A manager that does not listen is no reason to stop.
    pub(crate) fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

fn connect() -> io::Result<Option<(UnixDatagram, UnixAddress)>> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(None) };
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => UnixAddress::from_abstract_name(rest),
        _ => UnixAddress::from_pathname(&name),
    };
    Ok(Some((UnixDatagram::unbound()?, address?)))
}

/// Shows the manager that the server answers, for as long as this lives.
pub(crate) struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Begins, if the manager asked for it (`WATCHDOG_USEC`). Whose name is in the certificate of a
    /// server with TLS does not matter: this asks itself.
    ///
    /// # Errors
    /// If the system has no descriptor or thread for it.
    pub(crate) fn begin(address: &ListenAddress, has_tls: bool) -> io::Result<Option<Watchdog>> {
        let microseconds = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        let Some(microseconds) = microseconds else { return Ok(None) };
        // Twice within the time that is allowed, as sd_watchdog_enabled(3) advises.
        let pause = Duration::from_micros(microseconds) / 2;
        let asked = url_of(address, has_tls);
        let (stop, stopped) = channel::<()>();
        let manager = Manager::of_environment()?;
        let run = move || {
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                if answers(&asked) {
                    manager.tell("WATCHDOG=1");
                }
            }
        };
        let thread = std::thread::Builder::new().name("pellucid-watchdog".to_owned()).spawn(run)?;
        Ok(Some(Watchdog { stop: Some(stop), thread: Some(thread) }))
    }
}

/// True if the server answers.
fn answers(url: &str) -> bool {
    let Ok(target) = Target::parse(url) else { return false };
    let anyone = TlsOptions { insecure: true, ..TlsOptions::default() };
    matches!(Question::get("/v0/status").ask(&target, &anyone), Ok((200, _)))
}

/// The URL by which this machine reaches a listener.
fn url_of(address: &ListenAddress, has_tls: bool) -> String {
    let scheme = if has_tls { "https" } else { "http" };
    match address.tcp() {
        Some(address) => format!("{scheme}://{}/", reachable(address)),
        None => address.to_string(),
    }
}

/// The address by which this machine reaches a listener: one on every address is also on loopback.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_address_is_asked_on_loopback() {
        let reach = |text: &str| reachable(text.parse().unwrap()).to_string();
        assert_eq!(reach("0.0.0.0:80"), "127.0.0.1:80");
        assert_eq!(reach("[::]:80"), "[::1]:80");
        assert_eq!(reach("10.0.0.1:80"), "10.0.0.1:80");
        let url = |text: &str| url_of(&text.parse().unwrap(), true);
        assert_eq!(url("0.0.0.0:80"), "https://127.0.0.1:80/");
        assert_eq!(url("unix:/run/x.sock"), "unix:/run/x.sock", "which never has TLS");
    }
}
