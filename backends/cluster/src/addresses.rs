//! Address lookup of nodes.
//!
//! A name lookup may block, and an event loop must not. So a thread looks the names up, repeatedly,
//! because their addresses may change. Nodes that are given by IP address need no thread.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pellucid_thread::Mutex;
use pellucid_topology::NodeUrl;

/// The pause between two lookups of all names.
const PAUSE: Duration = Duration::from_secs(2);

/// The addresses of a node, at least one.
type AddressLookup = Result<Vec<SocketAddr>, String>;

/// The addresses of all nodes, as far as they are known.
pub(crate) struct Addresses {
    found: Arc<Mutex<Vec<AddressLookup>>>,
}

impl Addresses {
    pub(crate) fn new(nodes: &[NodeUrl]) -> Addresses {
        let names: Vec<_> = nodes.iter().map(|node| node.authority().to_owned()).collect();
        let numeric = |name: &String| name.parse().map(|address| vec![address]);
        let found = names
            .iter()
            .map(|name| numeric(name).map_err(|_| format!("the name {name} is being looked up")));
        let found = Arc::new(Mutex::new(found.collect::<Vec<AddressLookup>>()));
        if names.iter().any(|name| numeric(name).is_err()) {
            let kept = Arc::downgrade(&found);
            let look = move || look_up(&names, &kept);
            let thread = std::thread::Builder::new().name("pellucid-names".to_owned()).spawn(look);
            if let Err(error) = thread {
                let what = format!("names cannot be looked up: no thread can be started ({error})");
                let mut found = found.lock();
                found
                    .iter_mut()
                    .filter(|found| found.is_err())
                    .for_each(|f| *f = Err(what.clone()));
            }
        }
        Addresses { found }
    }

    /// An instance for tests, with these addresses of all nodes.
    #[cfg(test)]
    pub(crate) fn known(all: Vec<Vec<SocketAddr>>) -> Addresses {
        Addresses { found: Arc::new(Mutex::new(all.into_iter().map(Ok).collect())) }
    }

    /// The address of the node at this index to try after so many failures, or the reason why there
    /// is none. A node need not listen at all addresses of its name, so they take turns.
    pub(crate) fn of(&self, node: usize, failures: usize) -> Result<SocketAddr, String> {
        let found = self.found.lock();
        found[node].as_ref().map(|all| all[failures % all.len()]).map_err(String::clone)
    }
}

/// Looks names up until the [`Addresses`] are dropped.
fn look_up(names: &[String], kept: &Weak<Mutex<Vec<AddressLookup>>>) {
    loop {
        for (index, name) in names.iter().enumerate() {
            let looked = name.to_socket_addrs().map_err(|error| error.to_string());
            let looked = looked.map(Iterator::collect).and_then(|all: Vec<_>| {
                if all.is_empty() { Err("no address".to_owned()) } else { Ok(all) }
            });
            let looked = looked.map_err(|what| format!("the name {name} cannot be found: {what}"));
            let Some(found) = kept.upgrade() else { return };
            let mut found = found.lock();
            // A known address stays in use while lookups fail.
            if looked.is_ok() || found[index].is_err() {
                found[index] = looked;
            }
        }
        std::thread::sleep(PAUSE);
    }
}
