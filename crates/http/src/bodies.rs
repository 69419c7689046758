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

    /// Gives back a part of what the connection holds of the budget.
    pub(crate) fn release(&self, connection: &mut Connection, bytes: usize) {
        connection.reserved_bytes -= bytes;
        self.shared.body_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Gives back what the connection holds of the budget.
    pub(crate) fn release_body(&self, connection: &mut Connection) {
        let held = std::mem::take(&mut connection.reserved_bytes);
        if held > 0 {
            self.shared.body_bytes.fetch_sub(held, Ordering::Relaxed);
        }
    }
}
