//! Imports entities into a server or a cluster, batch after batch.

use std::collections::BTreeMap;

use pellucid_client::http::HttpRequest;
use pellucid_server::NodeList;
use serde::Deserialize;

use super::super::PATIENCE;
use super::super::entities::SyncLevel;
use super::super::table::TableArgument;
use super::new_entity::{Columns, NewEntity};
use super::rows::Content;
use super::target::{Refusal, Target};
use crate::Failure;
use crate::remote_server::{Answer, RemoteServer, encoded, question};

/// A part of the server's message when it refuses a batch with keys of several nodes.
const ONE_NODE: &str = "belong to one node";

/// A server or a cluster as the target of an import.
pub(super) struct EntityTarget {
    remote: RemoteServer,
    columns: Option<Columns>,
    /// The query parameters for the table and the acknowledgement; each begins with `&`.
    parameters: String,
    /// The right that writing needs.
    grant: String,
    /// The nodes of a cluster, if each batch has to be split by node.
    nodes: Option<NodeList>,
    written: u64,
    expired: u64,
}

/// The answer of `/v0/cluster`.
#[derive(Deserialize)]
struct ClusterPage {
    nodes: Vec<ClusterNode>,
}

#[derive(Deserialize)]
struct ClusterNode {
    url: String,
}

impl EntityTarget {
    /// Makes the target. `names` are the column names of the input, if it has columns.
    pub(super) fn new(
        remote: RemoteServer,
        table: &TableArgument,
        names: Option<&[String]>,
        (sync, is_cluster): (Option<SyncLevel>, bool),
    ) -> Result<EntityTarget, Failure> {
        let columns = names.map(Columns::of).transpose()?;
        let grant = table.grant("write");
        let nodes = is_cluster.then(|| nodes_of(&remote, &grant)).transpose()?;
        let parameters = table.parameter() + &SyncLevel::parameter(sync);
        Ok(EntityTarget { remote, columns, parameters, grant, nodes, written: 0, expired: 0 })
    }

    /// Writes entities of one node, each with its place in the batch. A single entity is written
    /// with a PUT, which takes larger values than a batch does.
    fn write_together(&self, entities: &[(usize, &NewEntity)]) -> Result<(), Refusal> {
        let answer = match entities {
            [(_, entity)] => self.put(entity),
            several => {
                let mut body = String::new();
                several.iter().for_each(|(_, entity)| entity.write_put(&mut body));
                let path = self.parameters.replacen('&', "/v0/batch?", 1);
                let path: &str = if path.is_empty() { "/v0/batch" } else { &path };
                self.remote.ask(&question("POST", path, body.as_bytes(), PATIENCE))
            }
        };
        let answer = answer.map_err(Refusal::unanswered)?;
        if (200..300).contains(&answer.status) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let place = match entities {
            [(place, _)] => Some(*place),
            several => line_of_batch(&text).and_then(|line| Some(several.get(line)?.0)),
        };
        let is_of_nodes = self.nodes.is_none() && text.contains(ONE_NODE);
        let cure = if is_of_nodes { ": give --cluster, for a batch of each" } else { "" };
        let text = answer.failure(&self.grant).text + cure;
        Err(Refusal::answered(answer.status, text, place))
    }

    fn put(&self, entity: &NewEntity) -> Result<Answer, Failure> {
        let mut path = format!("/v0/entity?id={}{}", encoded(entity.key()), self.parameters);
        if let Some(seconds) = entity.seconds() {
            path += &format!("&ttl={seconds}");
        }
        let is_empty = entity.value().is_empty();
        let headers = if is_empty { "Content-Length: 0\r\n" } else { "" };
        let asked = question("PUT", &path, entity.value(), PATIENCE);
        self.remote.ask(&HttpRequest { headers, ..asked })
    }
}

/// Parses the line number in a server's refusal of a batch; returns the index of the entity.
fn line_of_batch(text: &str) -> Option<usize> {
    let (number, _) = text.strip_prefix("line ")?.split_once(" of the batch")?;
    number.parse::<usize>().ok()?.checked_sub(1)
}

/// Asks the server for the nodes of its cluster.
fn nodes_of(remote: &RemoteServer, grant: &str) -> Result<NodeList, Failure> {
    let answer =
        remote.ask(&HttpRequest { patience: PATIENCE, ..HttpRequest::get("/v0/cluster") })?;
    if answer.status != 200 {
        return Err(answer.failure(grant));
    }
    let page: ClusterPage = serde_json::from_slice(&answer.body)
        .map_err(|error| Failure::work(format!("the server's list of nodes is none: {error}")))?;
    if page.nodes.is_empty() {
        return Err(Failure::usage("--cluster: the server is in no cluster"));
    }
    let urls: Vec<_> = page.nodes.into_iter().map(|node| node.url).collect();
    NodeList::parse(&urls.join(",")).map_err(|error| Failure::work(error.to_string()))
}

impl Target for EntityTarget {
    type Item = NewEntity;

    const AGAIN: &'static str = "they may be sent again without harm";

    fn item(&mut self, content: &Content<'_>) -> Result<Option<NewEntity>, String> {
        let entity = match (content, &self.columns) {
            (Content::Cells(cells), Some(columns)) => columns.entity(cells)?,
            (Content::Json(line), _) => NewEntity::of_line(line)?,
            (Content::Cells(_), None) => return Err("its columns have no names".to_owned()),
        };
        if entity.is_over() {
            self.expired += 1;
            return Ok(None);
        }
        Ok(Some(entity))
    }

    fn bytes(entity: &NewEntity) -> usize {
        entity.key().len() + entity.value().len()
    }

    fn write(&mut self, entities: &[NewEntity]) -> Result<(), Refusal> {
        let mut of_nodes: BTreeMap<usize, Vec<(usize, &NewEntity)>> = BTreeMap::new();
        for (place, entity) in entities.iter().enumerate() {
            let node = self.nodes.as_ref().map_or(0, |nodes| nodes.owner(entity.key()));
            of_nodes.entry(node).or_default().push((place, entity));
        }
        for (done, together) in of_nodes.values().enumerate() {
            self.write_together(together).map_err(|refusal| Refusal {
                is_undone: refusal.is_undone && done == 0,
                ..refusal
            })?;
        }
        self.written += entities.len() as u64;
        Ok(())
    }

    fn summary(&self) -> String {
        match self.expired {
            0 => format!("{} entities are written", self.written),
            count => format!(
                "{} entities are written, and {count} left out, whose time is over",
                self.written
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_refused_entity_is_parsed() {
        assert_eq!(line_of_batch("line 3 of the batch: `key` is not base64"), Some(2));
        for text in ["line 0 of the batch: x", "line of the batch", "the batch is empty"] {
            assert_eq!(line_of_batch(text), None, "{text}");
        }
    }
}
