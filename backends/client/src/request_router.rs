//! Routing of requests to the nodes that own their keys, for programs that make HTTP requests
//! themselves.

use pellucid_topology::NodeList;

/// The path of requests for one key.
const ENTITY_PATH: &[u8] = b"/v0/entity";
/// The name of the parameter that has the key.
const KEY_PARAMETER: &[u8] = b"id";

/// Finds the owners of requests. It reuses its buffer, so that it rarely allocates.
#[derive(Clone, Debug)]
pub struct RequestRouter {
    nodes: NodeList,
    key: Vec<u8>,
}

impl RequestRouter {
    /// A router for the cluster of these nodes.
    #[must_use]
    pub fn new(nodes: NodeList) -> RequestRouter {
        RequestRouter { nodes, key: Vec::new() }
    }

    /// The nodes of the cluster.
    #[must_use]
    pub fn nodes(&self) -> &NodeList {
        &self.nodes
    }

    /// The index of the node that owns the key of a request. `target` is the request's path and
    /// query. Returns `None` if the request is not for one key.
    #[must_use]
    pub fn owner_of_target(&mut self, target: &[u8]) -> Option<usize> {
        let query = target.strip_prefix(ENTITY_PATH)?.strip_prefix(b"?")?;
        let pairs = query.split(|byte| *byte == b'&');
        let mut named = pairs.filter_map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            (pair[..at] == *KEY_PARAMETER).then(|| &pair[at + 1..])
        });
        let encoded = named.next()?;
        self.key.clear();
        let mut rest = encoded;
        while let Some((byte, behind)) = rest.split_first() {
            rest = behind;
            match (byte, behind) {
                (b'%', [high, low, behind @ ..]) => {
                    let digit = |digit: u8| char::from(digit).to_digit(16);
                    let decoded = digit(*high)? * 16 + digit(*low)?;
                    self.key.push(u8::try_from(decoded).ok()?);
                    rest = behind;
                }
                (b'%', _) => return None,
                (byte, _) => self.key.push(*byte),
            }
        }
        (!self.key.is_empty()).then(|| self.nodes.owner(&self.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::path_of;

    fn way() -> RequestRouter {
        RequestRouter::new(
            NodeList::parse("http://10.0.0.1:1,http://10.0.0.2:2,http://10.0.0.3:3").unwrap(),
        )
    }

    #[test]
    fn requests_for_any_key_find_its_owner() {
        let mut way = way();
        let keys: [&[u8]; 6] = [b"a", b"key0000000001", b"\n&=\xff %", b"+", b"\0", &[0xff; 300]];
        for key in keys {
            let target = path_of(key);
            let owner = way.nodes().owner(key);
            assert_eq!(way.owner_of_target(target.as_bytes()), Some(owner), "{target}");
            let more = format!("{target}&ttl=3");
            assert_eq!(way.owner_of_target(more.as_bytes()), Some(owner), "{more}");
        }
        let behind = way.owner_of_target(b"/v0/entity?sync=os&id=a");
        assert_eq!(behind, Some(way.nodes().owner(b"a")));
    }

    #[test]
    fn a_request_without_a_key_has_no_owner() {
        for target in [
            "/v0/status",
            "/v0/entity",
            "/v0/entity?id=",
            "/v0/entity?ID=a",
            "/v0/entity?id=%4",
            "/v0/entity?id=%zz",
            "/v0/entities?start=a&id=a",
        ] {
            assert_eq!(way().owner_of_target(target.as_bytes()), None, "{target}");
        }
    }
}
