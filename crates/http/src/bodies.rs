//! The budget for request bodies that are coming in: one for all connections together.

use std::sync::atomic::Ordering;

use crate::connection::Connection;
use crate::event_loop::EventLoop;
use crate::service::Service;

impl<S: Service> EventLoop<S> {
    /// Makes the connection hold `bytes` of the budget for bodies, if the budget has them.
    pub(crate) fn reserve_body(&self, connection: &mut Connection, bytes: usize) -> bool {
        let more = bytes.saturating_sub(connection.reserved_bytes);
        let before = self.shared.body_bytes.fetch_add(more, Ordering::Relaxed);
        if before + more > self.limits.body_bytes_in_flight {
            self.shared.body_bytes.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        connection.reserved_bytes += more;
        true
    }

    /// Gives back what the connection holds of the budget beyond `keep_bytes`.
    pub(crate) fn release_body(&self, connection: &mut Connection, keep_bytes: usize) {
        let surplus = connection.reserved_bytes.saturating_sub(keep_bytes);
        if surplus > 0 {
            self.shared.body_bytes.fetch_sub(surplus, Ordering::Relaxed);
            connection.reserved_bytes -= surplus;
        }
    }
}
