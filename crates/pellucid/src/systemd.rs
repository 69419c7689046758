//! Notifies systemd of the server's state (sd_notify(3)): ready, stopping, and alive.
//!
//! The protocol is a text datagram to the socket in `NOTIFY_SOCKET`. Without that variable, nothing
//! is sent.

use std::io;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::time::Duration;

use pellucid_client::http::{HttpRequest, Target, TlsOptions};
use pellucid_server::ListenAddress;
use pellucid_thread::{Job, PeriodicThread};

/// The name of the watchdog's work, for profiles.
static WATCHDOG: Job = Job::new("watchdog");

/// The connection to the service manager, if it wants notifications.
pub(crate) struct ServiceManager {
    socket: Option<(UnixDatagram, UnixAddress)>,
}

impl ServiceManager {
    /// Connects to the service manager that the environment names.
    ///
    /// # Errors
    /// If the socket's address is invalid or no socket can be made. The server must not continue
    /// then: the manager would end it for its silence.
    pub(crate) fn of_environment() -> io::Result<ServiceManager> {
        Ok(ServiceManager { socket: connect()? })
    }

    /// Sends `state`, such as `READY=1`. Errors are ignored.
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

/// Starts a thread that tells the service manager regularly that the server answers, if the manager
/// asked this process for it (`WATCHDOG_USEC`). The server's certificate is not checked, because
/// the process asks itself.
///
/// # Errors
/// If no socket or thread can be made.
pub(crate) fn begin_watchdog(
    address: &ListenAddress,
    has_tls: bool,
) -> io::Result<Option<PeriodicThread>> {
    let variable = |name| std::env::var(name).ok();
    let (microseconds, process) = (variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"));
    let pause = pause_of(microseconds.as_deref(), process.as_deref());
    let Some(pause) = pause else { return Ok(None) };
    let asked = url_of(address, has_tls);
    let manager = ServiceManager::of_environment()?;
    let tell = move || {
        if answers(&asked) {
            manager.tell("WATCHDOG=1");
        }
    };
    PeriodicThread::start("pellucid-watchdog", &WATCHDOG, pause, tell).map(Some)
}

/// The pause between two signs of life: half of the allowed time, as sd_watchdog_enabled(3)
/// advises. `None` if the variables ask for no watchdog, or another process for one, from which
/// this one inherited them.
fn pause_of(microseconds: Option<&str>, process: Option<&str>) -> Option<Duration> {
    if process.is_some_and(|process| process.parse() != Ok(std::process::id())) {
        return None;
    }
    let microseconds = microseconds?.parse().ok().filter(|number| *number > 0)?;
    Some(Duration::from_micros(microseconds) / 2)
}

/// Returns true if the server answers, with any status, or closes the connection: at its limits it
/// does, and is alive. At the limit of connections this judges the accepting loop alone.
fn answers(url: &str) -> bool {
    let Ok(target) = Target::parse(url) else { return false };
    let anyone = TlsOptions { insecure: true, ..TlsOptions::default() };
    let answer = HttpRequest::get("/v0/status").try_ask(&target, &anyone, &mut |_, _| Ok(()));
    answer.map_or_else(|error| error.is_of_closed_connection(), |_| true)
}

/// The URL by which this machine reaches a listener.
fn url_of(address: &ListenAddress, has_tls: bool) -> String {
    let scheme = if has_tls { "https" } else { "http" };
    match address.tcp() {
        Some(address) => format!("{scheme}://{}/", reachable(address)),
        None => address.to_string(),
    }
}

/// The address by which this machine reaches a listener: loopback if it listens on every address.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a time of 0 made a loop without a pause, and an inherited variable a watchdog.
    #[test]
    fn a_watchdog_has_a_pause_and_is_asked_of_this_process() {
        let own = &*std::process::id().to_string();
        let pause = Some(Duration::from_secs(1));
        assert_eq!(pause_of(Some("2000000"), None), pause);
        assert_eq!(pause_of(Some("2000000"), Some(own)), pause);
        for (microseconds, process) in [
            (None, Some(own)),
            (Some("0"), None),
            (Some("0"), Some(own)),
            (Some("often"), None),
            (Some("2000000"), Some("1")),
            (Some("2000000"), Some("")),
        ] {
            assert_eq!(pause_of(microseconds, process), None, "{microseconds:?} {process:?}");
        }
    }

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
