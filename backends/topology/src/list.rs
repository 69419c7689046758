//! The list of a cluster's nodes.

use xxhash_rust::xxh3::xxh3_64;

use crate::hash::{key_hash, node_seed, score};
use crate::url::{NodeUrl, TopologyError};

/// Limit of the nodes in a list.
pub const NODES_MAX: usize = 64;

/// The nodes of a cluster, sorted by their URLs: lists with the same nodes are equal, in whatever
/// order the nodes were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeList {
    nodes: Vec<NodeUrl>,
    seeds: Vec<u64>,
}

impl NodeList {
    /// A list of these nodes.
    ///
    /// # Errors
    /// If there is no node, the same node twice, or more than [`NODES_MAX`].
    pub fn new(mut nodes: Vec<NodeUrl>) -> Result<NodeList, TopologyError> {
        nodes.sort();
        if nodes.is_empty() {
            return Err(TopologyError::new("a cluster has at least one node"));
        }
        if nodes.len() > NODES_MAX {
            let count = nodes.len();
            let what = format!("{count} nodes are more than the {NODES_MAX} of a cluster");
            return Err(TopologyError::new(what));
        }
        if let Some(twice) = nodes.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(TopologyError::new(format!("the node {} is named twice", twice[0])));
        }
        let seeds = nodes.iter().map(|node| node_seed(node.as_str())).collect();
        Ok(NodeList { nodes, seeds })
    }

    /// Parses a list of URLs separated by commas.
    ///
    /// # Errors
    /// As [`NodeUrl::parse`] and [`NodeList::new`].
    pub fn parse(text: &str) -> Result<NodeList, TopologyError> {
        let urls = text.split(',').map(str::trim).map(NodeUrl::parse);
        NodeList::new(urls.collect::<Result<_, _>>()?)
    }

    /// The nodes, sorted by their URLs.
    #[must_use]
    pub fn nodes(&self) -> &[NodeUrl] {
        &self.nodes
    }

    /// The index of a node in the list.
    #[must_use]
    pub fn index_of(&self, node: &NodeUrl) -> Option<usize> {
        self.nodes.binary_search(node).ok()
    }

    /// The index of the node that owns the key. Of nodes with the same score, it is the first.
    #[inline]
    #[must_use]
    pub fn owner(&self, key: &[u8]) -> usize {
        let hash = key_hash(key);
        let (mut owner, mut highest) = (0, score(hash, self.seeds[0]));
        for (index, seed) in self.seeds.iter().enumerate().skip(1) {
            let score = score(hash, *seed);
            if score > highest {
                (owner, highest) = (index, score);
            }
        }
        owner
    }

    /// The fingerprint of the list: XXH3, 64 bits, seed 0, of the sorted URLs, each with a line
    /// feed at its end.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let lines: String = self.nodes.iter().map(|node| format!("{node}\n")).collect();
        xxh3_64(lines.as_bytes())
    }

    /// The URLs of the nodes, separated by commas, as [`NodeList::parse`] reads them.
    #[must_use]
    pub fn text(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(NodeUrl::as_str).collect();
        nodes.join(",")
    }
}

impl TopologyError {
    /// The error for a node that is not on the list of its own cluster.
    #[must_use]
    pub fn of_stranger(node: &NodeUrl, list: &NodeList) -> TopologyError {
        TopologyError::new(format!(
            "{node} is not on the list {}: --advertise names this node as --cluster does",
            list.text()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: usize) -> NodeList {
        let nodes = (1..=count).map(|node| NodeUrl::parse(&format!("http://10.0.0.{node}:8080")));
        NodeList::new(nodes.collect::<Result<_, _>>().unwrap()).unwrap()
    }

    /// Each share is within 5 % of a third, for keys in the form that the studies use.
    #[test]
    fn three_nodes_share_five_million_keys_evenly() {
        let three = list(3);
        let mut shares = [0_u64; 3];
        let mut key = String::with_capacity(16);
        for number in 0..5_000_000_u64 {
            key.clear();
            std::fmt::Write::write_fmt(&mut key, format_args!("k{number:09}")).unwrap();
            shares[three.owner(key.as_bytes())] += 1;
        }
        for share in shares {
            let of_a_third = share as f64 * 3.0 / 5_000_000.0;
            assert!((0.95..=1.05).contains(&of_a_third), "{shares:?}");
        }
    }

    #[test]
    fn an_added_node_takes_only_the_keys_that_it_owns() {
        let (four, three) = (list(4), list(3));
        for number in 0..20_000_u32 {
            let key = number.to_le_bytes();
            let owner = &four.nodes()[four.owner(&key)];
            match three.index_of(owner) {
                Some(before) => assert_eq!(three.owner(&key), before),
                None => assert_eq!(owner.as_str(), "http://10.0.0.4:8080"),
            }
        }
    }

    #[test]
    fn the_order_of_the_nodes_does_not_matter() {
        let one = NodeList::parse("http://b:1, http://a:1,http://c:1").unwrap();
        let other = NodeList::parse("http://c:1,http://A:1/,http://b:1").unwrap();
        assert_eq!((&one, one.fingerprint()), (&other, other.fingerprint()));
        assert_eq!(one.text(), "http://a:1,http://b:1,http://c:1");
        let fewer = NodeList::parse("http://a:1,http://b:1").unwrap();
        assert_ne!(fewer.fingerprint(), one.fingerprint());
    }

    #[test]
    fn invalid_lists_are_refused() {
        for (text, what) in [
            ("", "http://host:port"),
            ("http://a:1,http://a:1", "twice"),
            (",", "http://host:port"),
        ] {
            assert!(NodeList::parse(text).unwrap_err().to_string().contains(what), "{text}");
        }
        let many: Vec<_> = (1..=NODES_MAX + 1).map(|port| format!("http://a:{port}")).collect();
        assert!(NodeList::parse(&many.join(",")).is_err());
        assert!(NodeList::parse(&many[1..].join(",")).is_ok());
    }
}
