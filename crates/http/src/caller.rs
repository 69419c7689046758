//! The client of a connection: its identity, its address, and the budget of its bodies.

use std::net::IpAddr;

use pellucid_budget::Budget;
use pellucid_clock::{Clock, Ticks};

use crate::bodies::BodyHold;
use crate::clients::ConnectionPermit;
use crate::mailbox::ConnectionId;
use crate::shared_state::SharedState;

/// The client of a connection.
pub(crate) struct Caller {
    pub(crate) id: ConnectionId,
    /// The number of the connection on this server, for the account.
    pub(crate) number: u32,
    /// The place among the connections of the client's address.
    seat: ConnectionPermit,
    /// The budget of all bodies of this connection; none before the first of them.
    bodies: Option<Budget>,
    pub(crate) is_encrypted: bool,
}

impl Caller {
    pub(crate) fn new(
        id: ConnectionId,
        number: u32,
        seat: ConnectionPermit,
        is_encrypted: bool,
    ) -> Caller {
        Caller { id, number, seat, bodies: None, is_encrypted }
    }

    #[inline]
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.seat.address()
    }

    /// Makes the hold for a body that was admitted. `account` is the budget of the sender's
    /// account, if that is known.
    pub(crate) fn hold_body(
        &mut self,
        account: Option<&Budget>,
        shared: &SharedState,
        clock: &Clock,
        now: Ticks,
    ) -> Box<BodyHold> {
        let limits = &shared.limits;
        let of_connection =
            self.bodies.get_or_insert_with(|| Budget::new(limits.body_bytes_per_connection));
        let budgets = [
            (Some(&*of_connection), "on this connection"),
            (Some(self.seat.bodies()), "from this address"),
            (account, "from this account"),
            (Some(&shared.bodies), "to this server"),
            (Some(&limits.memory), "to this server"),
        ];
        let exchange_ns = u64::try_from(limits.exchange.as_nanos()).unwrap_or(u64::MAX);
        Box::new(BodyHold::new(&budgets, clock.ticks(exchange_ns), now))
    }
}
