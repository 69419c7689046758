//! Exposure of a server beyond its machine.
//!
//! On loopback and on a Unix socket, everybody who can connect has a login on this machine. On
//! other addresses, a server without TLS shows passwords and data to everybody on the network path,
//! and a server without accounts obeys everybody who finds it. An operator has to accept each of
//! these risks explicitly.

use pellucid_http::ListenAddress;

/// The risks of listening beyond loopback that an operator accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exposure {
    /// The server may listen without TLS.
    pub without_tls: bool,
    /// The server may listen without asking for credentials.
    pub without_accounts: bool,
}

impl Exposure {
    /// Checks that a server may listen on all of `addresses`. A Unix socket counts as local.
    ///
    /// # Errors
    /// If it may not; the text names the remedies.
    pub(crate) fn check(
        self,
        addresses: &[ListenAddress],
        has_tls: bool,
        asks_for_credentials: bool,
    ) -> Result<(), String> {
        let Some(address) = addresses.iter().find(|address| !address.is_local()) else {
            return Ok(());
        };
        if !asks_for_credentials && !self.without_accounts {
            return Err(format!(
                "listening on {address} without accounts would let everybody do everything: add \
                 one with `pellucid account add NAME --admin --data DIR`, or listen on 127.0.0.1, \
                 or accept it with --insecure-no-accounts"
            ));
        }
        if !has_tls && !self.without_tls {
            return Err(format!(
                "listening on {address} without TLS would show passwords and data to anyone on the \
                 network path: give --tls-cert and --tls-key, or listen on 127.0.0.1, or accept it \
                 with --insecure-no-tls"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_each_risk_has_to_be_accepted() {
        let beyond = ["unix:here", "127.0.0.1:1", "0.0.0.0:80"];
        let beyond = beyond.map(|address| address.parse().unwrap());
        let accepted = |without_tls, without_accounts| Exposure { without_tls, without_accounts };
        let check = |exposure: Exposure, tls, accounts| exposure.check(&beyond, tls, accounts);
        assert!(check(accepted(false, false), true, true).is_ok());
        assert!(check(accepted(true, true), false, false).is_ok());
        let refused = check(accepted(true, false), true, false).unwrap_err();
        assert!(refused.contains("--insecure-no-accounts"), "{refused}");
        let refused = check(accepted(false, true), false, true).unwrap_err();
        assert!(refused.contains("--insecure-no-tls"), "{refused}");
    }

    #[test]
    fn on_loopback_nothing_has_to_be_accepted() {
        let local =
            ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/run/x"];
        let local = local.map(|address| address.parse().unwrap());
        assert_eq!(Exposure::default().check(&local, false, false), Ok(()));
        let beyond = ["[::]:1".parse().unwrap()];
        assert!(Exposure::default().check(&beyond, false, false).is_err());
    }
}
