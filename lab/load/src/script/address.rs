//! Addresses of servers for scripts, for `wrk.lookup` and `wrk.connect`.

use std::net::ToSocketAddrs;
use std::time::Duration;

use mlua::Lua;

use pellucid_client::http::Address;

/// The longest time that `wrk.connect` waits for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Looks up all addresses of a host, as text. The inner error is the reason that there are none.
pub(super) fn lookup(
    _: &Lua,
    (host, service): (String, String),
) -> mlua::Result<Result<Vec<String>, String>> {
    let Some(port) = port_of(&service) else {
        return Ok(Err(format!("unable to resolve {host}:{service}: unknown service")));
    };
    let addresses = (host.as_str(), port).to_socket_addrs();
    Ok(addresses
        .map(|addresses| addresses.map(|address| address.to_string()).collect())
        .map_err(|reason| format!("unable to resolve {host}:{service}: {reason}")))
}

fn port_of(service: &str) -> Option<u16> {
    match service {
        "http" => Some(80),
        "https" => Some(443),
        digits => digits.parse().ok(),
    }
}

/// True if an address accepts a connection.
pub(super) fn connect(_: &Lua, text: String) -> mlua::Result<bool> {
    let address: Option<Address> = text.parse().ok();
    Ok(address.is_some_and(|to| to.connect(CONNECT_TIMEOUT).is_ok()))
}
