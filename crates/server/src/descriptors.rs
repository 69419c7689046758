//! File descriptors of the process, divided between connections and everything else.

use pellucid_http::Limits;

use crate::log::Log;

/// Descriptors that are reserved for the store's files, the log and links to other nodes. If the
/// process may have fewer than twice as many, half of them are reserved.
const DESCRIPTORS_RESERVED: usize = 512;

/// Lowers the limit of connections so that enough descriptors stay free for everything else, and
/// logs it; a limit of one address above its default share keeps its part. `descriptors_max` is the
/// limit of the process; `None` if it is unknown.
pub(crate) fn fit_connections(
    mut limits: Limits,
    descriptors_max: Option<usize>,
    log: &Log,
) -> Limits {
    let Some(descriptors_max) = descriptors_max else { return limits };
    let reserved = DESCRIPTORS_RESERVED.min(descriptors_max / 2);
    let connections_max = (descriptors_max - reserved).max(1);
    if limits.connections > connections_max {
        let set = limits.clone();
        limits.set_connections(connections_max);
        let share = set.connections_per_address.saturating_mul(connections_max);
        // A limit below the default share is not too high for fewer connections either.
        let share = share.div_ceil(set.connections).max(limits.connections_per_address);
        limits.connections_per_address = set.connections_per_address.min(share);
        limits.connections_of_loopback = set.connections_of_loopback;
        log.write(&format!(
            "this process may have {descriptors_max} descriptors open, of which {reserved} are \
             for the store and all else, so {connections_max} connections are served at a time \
             and not {}, at most {} of them from one address: raise the limit (ulimit -n, \
             LimitNOFILE) or lower --connections-max",
            set.connections, limits.connections_per_address
        ));
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: connections took the descriptors that flushes need.
    #[test]
    fn connections_leave_descriptors_for_the_store() {
        let (log, lines) = Log::kept();
        let fit_of = |connections_per_address, descriptors_max| {
            let limits = Limits { connections_per_address, ..Limits::default() };
            let fit = fit_connections(limits, descriptors_max, &log);
            (fit.connections, fit.connections_per_address)
        };
        let fit = |descriptors_max| fit_of(4_096, descriptors_max);
        assert_eq!([fit(None), fit(Some(1 << 20))], [(16_384, 4_096); 2]);
        assert!(lines.lock().is_empty());
        // Regression: one address could take all connections that were left.
        assert_eq!([fit(Some(4_096)), fit(Some(256))], [(3_584, 896), (128, 32)]);
        assert!(lines.lock()[0].contains("--connections-max"));
        // Regression: a limit per address that was set fell too, although it was low enough.
        assert_eq!([100, 16_384].map(|of| fit_of(of, Some(4_096)).1), [100, 3_584]);
        assert!(lines.lock()[2].contains(" 100 of them from one address"));
    }
}
