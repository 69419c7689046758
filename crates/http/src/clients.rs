//! Clients by their addresses, and the share that each has of the connections and of memory.
//!
//! The loop that accepts owns the table, so that it needs no lock. Each connection holds its
//! [`ConnectionPermit`], on any loop; the seat is free once the connection is dropped.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pellucid_budget::Budget;

use crate::limits::Limits;

/// The origin under which limits count a client: an IPv4 address, or an IPv6 /64 network, within
/// which one client can choose any address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientOrigin {
    /// An address of IPv4, or one that is mapped to IPv6.
    V4(Ipv4Addr),
    /// The first half of the addresses of an IPv6 network.
    V6(u64),
    /// All Unix sockets of this machine.
    Unix,
}

impl ClientOrigin {
    /// The origin of a client with this address; none for a Unix socket.
    #[must_use]
    pub fn of(address: Option<IpAddr>) -> ClientOrigin {
        match address.map(|address| address.to_canonical()) {
            None => ClientOrigin::Unix,
            Some(IpAddr::V4(address)) => ClientOrigin::V4(address),
            Some(IpAddr::V6(address)) => ClientOrigin::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// The counts of one client: its connections, and the memory of its bodies.
#[derive(Debug)]
struct Client {
    connections: AtomicUsize,
    bodies: Budget,
}

/// A connection's place among those of its address.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    address: Option<IpAddr>,
    client: Arc<Client>,
}

impl ConnectionPermit {
    /// The address that the connection comes from; none for a Unix socket.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The budget for bodies that come in from this address.
    pub(crate) fn bodies(&self) -> &Budget {
        &self.client.bodies
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.client.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The addresses from which connections are open.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    by_origin: HashMap<ClientOrigin, Arc<Client>>,
}

impl Clients {
    /// Gives a place to a connection from `address`; none if the limit of that address is reached.
    /// All Unix sockets together have the limit of one loopback address.
    pub(crate) fn seat(
        &mut self,
        address: Option<IpAddr>,
        limits: &Limits,
    ) -> Option<ConnectionPermit> {
        let is_local = address.is_none_or(|address| address.to_canonical().is_loopback());
        let connections_max = match is_local {
            true => limits.connections_of_loopback,
            false => limits.connections_per_address,
        };
        let client = self.by_origin.entry(ClientOrigin::of(address)).or_insert_with(|| {
            let bodies = Budget::new(limits.body_bytes_per_address);
            Arc::new(Client { connections: AtomicUsize::new(0), bodies })
        });
        // Only this thread increments the count, so that the check and the addition need not be one
        // atomic step.
        if client.connections.load(Ordering::Relaxed) >= connections_max {
            return None;
        }
        client.connections.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionPermit { address, client: Arc::clone(client) })
    }

    /// Forgets the addresses that have no connection any more.
    pub(crate) fn forget_gone(&mut self) {
        self.by_origin.retain(|_, client| Arc::strong_count(client) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: one address could take all connections.
    #[test]
    fn each_address_has_its_own_places() {
        let limits = Limits { connections_per_address: 2, ..Limits::default() };
        let mut clients = Clients::default();
        let mut seat = |address: &str| clients.seat(Some(address.parse().unwrap()), &limits);
        let first = seat("192.0.2.1").unwrap();
        let _second = seat("::ffff:192.0.2.1").unwrap();
        assert!(seat("192.0.2.1").is_none() && seat("192.0.2.2").is_some());
        drop(first);
        assert!(seat("192.0.2.1").is_some(), "a place is free once its connection is gone");
        let _third = seat("2001:db8:1:2::1").unwrap();
        let _fourth = seat("2001:db8:1:2:ffff::2").unwrap();
        assert!(seat("2001:db8:1:2:3::3").is_none(), "a network of 64 bits is one client");
        assert!(seat("2001:db8:1:3::1").is_some());
        let local: Vec<_> = (0..10).map(|_| seat("127.0.0.1")).collect();
        assert!(local.iter().all(Option::is_some), "this machine's own have a limit of their own");
    }

    #[test]
    fn unix_sockets_share_the_limit_of_one_loopback_address() {
        let limits =
            Limits { connections_per_address: 1, connections_of_loopback: 3, ..Limits::default() };
        let mut clients = Clients::default();
        let seats: Vec<_> = (0..4).map(|_| clients.seat(None, &limits)).collect();
        assert_eq!(seats.iter().flatten().count(), 3);
        assert!(clients.seat("127.0.0.1".parse().ok(), &limits).is_some(), "it is another's");
    }

    #[test]
    fn addresses_without_connections_are_forgotten() {
        let (limits, mut clients) = (Limits::default(), Clients::default());
        let mut seat = |last| clients.seat(Some([192, 0, 2, last].into()), &limits).unwrap();
        let seats: Vec<_> = (0..100).map(&mut seat).collect();
        clients.forget_gone();
        assert_eq!(clients.by_origin.len(), 100);
        drop(seats);
        clients.forget_gone();
        assert_eq!(clients.by_origin.len(), 0);
    }
}
