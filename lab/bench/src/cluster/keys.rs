//! The stored keys, and the scripts of loads that use them.

use std::fmt::Write as _;

use pellucid_topology::{NodeList, NodeUrl};

use crate::client::Client;
use crate::nodes::Nodes;
use crate::peers::text;

/// The number of stored keys; with their values they take 60 MB.
pub(super) const KEYS: u64 = 200_000;
/// The length of a value in bytes.
const VALUE_BYTES: usize = 300;
/// The number of keys of one owner that a load chooses from.
const OWNED: usize = 50_000;
/// The number of PUTs in one pipeline while the stores are filled.
const FILL_STEP: usize = 100;

/// Puts all keys through the server at this address.
pub(super) fn fill(address: &str) -> Result<(), String> {
    let mut client = Client::connect(address)?;
    let value = value();
    for begin in (0..KEYS).step_by(FILL_STEP) {
        let keys = begin..begin + FILL_STEP as u64;
        client.call_all(keys.map(|key| ("PUT", format!("/v0/entity?id=m{key}"), &*value)))?;
    }
    Ok(())
}

pub(super) fn value() -> String {
    "v".repeat(VALUE_BYTES)
}

/// The numbers of [`OWNED`] keys that this node owns.
pub(super) fn owned(nodes: &Nodes, owner: usize) -> Result<Vec<u64>, String> {
    let urls: Vec<_> = nodes.addresses.iter().map(|address| format!("http://{address}")).collect();
    let list = NodeList::parse(&urls.join(",")).map_err(text)?;
    let place = list.index_of(&NodeUrl::parse(&urls[owner]).map_err(text)?);
    let is_its = |key: &u64| Some(list.owner(format!("m{key}").as_bytes())) == place;
    let owned: Vec<_> = (0..KEYS).filter(is_its).take(OWNED).collect();
    if owned.len() < OWNED {
        Err(format!("node {owner} has {} keys", owned.len()))
    } else {
        Ok(owned)
    }
}

/// The method of a load's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Put,
}

impl Method {
    pub(super) const ALL: [Method; 2] = [Method::Get, Method::Put];

    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Put => "PUT",
        }
    }
}

/// A wrk script that chooses one of these keys, or of all keys, for each request.
pub(super) fn script(method: Method, keys: Option<&[u64]>) -> String {
    let mut lua = String::from("math.randomseed(7)\n");
    let choice = match keys {
        None => format!("math.random(0, {})", KEYS - 1),
        Some(keys) => {
            lua += "local keys = {";
            keys.iter().for_each(|key| {
                // Writing to a text cannot fail.
                let _ = write!(lua, "{key},");
            });
            lua += "}\n";
            "keys[math.random(#keys)]".to_owned()
        }
    };
    if method == Method::Put {
        lua += &format!("wrk.method = 'PUT'\nwrk.body = '{}'\n", value());
    }
    lua + &format!(
        "function request()\n  return wrk.format(nil, '/v0/entity?id=m' .. {choice})\nend\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_choose_from_the_given_keys() {
        let all = script(Method::Get, None);
        assert!(all.contains("math.random(0, 199999)") && !all.contains("wrk.body"), "{all}");
        let some = script(Method::Put, Some(&[3, 5]));
        assert!(some.contains("local keys = {3,5,}") && some.contains("wrk.method = 'PUT'"));
    }
}
