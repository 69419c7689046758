//! The plan of the study: the drivers, their settings, and the numbers of concurrent queries.

use std::path::PathBuf;

use crate::study::Scale;

/// Documents of the collection in the quick study.
const DOCUMENTS_QUICK: u64 = 20_000;
/// Documents of the collection.
const DOCUMENTS: u64 = 200_000;

/// The numbers of concurrent queries with an index, as in the original.
const QUERIES: [u64; 4] = [500, 1_000, 5_000, 10_000];
const QUERIES_QUICK: [u64; 1] = [500];
/// The numbers of concurrent queries for missing documents: the original's smallest.
const MISSES: [u64; 1] = [500];
/// The numbers of concurrent queries without an index. Each query reads the whole collection, so
/// even the original's smallest number takes as long as all rows with an index. Only the full study
/// runs all numbers of the original, which takes hours.
const SCANS: [u64; 1] = [100];
const SCANS_QUICK: [u64; 1] = [20];
/// The numbers of concurrent queries that overfilled the queue of the original's server.
const OVERFULL: [u64; 2] = [5_000, 10_000];
/// The default length of ArangoDB's queue of calls.
pub(super) const ARANGODB_QUEUE: usize = 4_096;

/// The options of the study.
#[derive(Clone, Debug, Default)]
pub struct ConnectionPoolOptions {
    /// The size of the study.
    pub scale: Scale,
    /// Documents of the collection, in place of the default of the scale.
    pub documents: Option<u64>,
    /// The number of concurrent queries, in place of the defaults of the scale. Without an index,
    /// it is at most the default of the scale.
    pub queries: Option<u64>,
    /// The folder in which the store is made and removed; the system's temporary folder if `None`.
    pub data: Option<PathBuf>,
}

impl ConnectionPoolOptions {
    pub(super) fn documents(&self) -> u64 {
        self.documents.unwrap_or(match self.scale {
            Scale::Quick => DOCUMENTS_QUICK,
            Scale::Default | Scale::Full => DOCUMENTS,
        })
    }

    /// The numbers of concurrent queries of this kind.
    pub(super) fn queries(&self, access: Access) -> Vec<u64> {
        let own = match (access, self.scale) {
            (Access::Index, Scale::Quick) => QUERIES_QUICK.as_slice(),
            (Access::Index, _) | (Access::Scan | Access::Missing, Scale::Full) => &QUERIES,
            (Access::Missing, _) => &MISSES,
            (Access::Queue, Scale::Quick) => &[],
            (Access::Queue, _) => &OVERFULL,
            (Access::Scan, Scale::Quick) => &SCANS_QUICK,
            (Access::Scan, Scale::Default) => &SCANS,
        };
        match (self.queries, access) {
            (None, _) | (_, Access::Queue) => own.to_vec(),
            (Some(queries), Access::Index | Access::Missing) => vec![queries],
            // A query that reads the whole collection may take thousands of times as long.
            (Some(queries), Access::Scan) => {
                vec![own.iter().copied().fold(0, u64::max).min(queries)]
            }
        }
    }
}

/// The kind of access of a row's queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Existing documents, by an index.
    Index,
    /// Missing documents, by an index, as with the original's random identifiers.
    Missing,
    /// Existing documents, by an index, on a server whose queue is as long as ArangoDB's.
    Queue,
    /// Existing documents, in a collection without an index.
    Scan,
}

pub(super) const ACCESSES: [Access; 4] =
    [Access::Index, Access::Missing, Access::Queue, Access::Scan];

impl Access {
    pub(super) fn title(self) -> &'static str {
        match self {
            Access::Index => "with an index",
            Access::Missing => "for missing documents",
            Access::Queue => "with ArangoDB's queue of 4,096 calls",
            Access::Scan => "without an index",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Access::Index => "index",
            Access::Missing => "missing",
            Access::Queue => "queue",
            Access::Scan => "scan",
        }
    }

    /// The connection settings of the rows with this access.
    pub(super) fn connections(self) -> Vec<Connection> {
        let all = connections().into_iter();
        match self {
            // The one that did not finish in the original.
            Access::Queue => all.filter(|one| one.name == "axios_default").collect(),
            _ => all.collect(),
        }
    }
}

/// A driver and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    /// The name for programs.
    pub(super) name: &'static str,
    /// The driver's name in the client's program.
    pub(super) driver: &'static str,
    /// The most sockets, if that is set.
    pub(super) sockets: Option<usize>,
    /// The strategy to choose among nodes, if there are several.
    pub(super) strategy: Option<&'static str>,
    /// The index of the column in the original's table, if it has one.
    pub(super) original: Option<usize>,
    title: &'static str,
}

/// The number of nodes that the driver chooses from; each has all documents.
pub(super) const NODES: usize = 3;

/// The connection settings for each of the driver's strategies to choose among nodes.
pub(super) fn spread_connections() -> [Connection; 3] {
    let row = |name, strategy, title| Connection {
        name,
        driver: "arangojs-8",
        sockets: Some(SPREAD_SOCKETS),
        strategy: Some(strategy),
        original: None,
        title,
    };
    [
        row("spread_none", "NONE", "arangojs 8.3.0, NONE, maxSockets"),
        row("spread_round_robin", "ROUND_ROBIN", "arangojs 8.3.0, ROUND_ROBIN, maxSockets"),
        row("spread_one_random", "ONE_RANDOM", "arangojs 8.3.0, ONE_RANDOM, maxSockets"),
    ]
}

/// The sockets of these settings, to each node.
const SPREAD_SOCKETS: usize = 100;

/// The smallest number of sockets of the recommended setting.
const RECOMMENDED_MIN: usize = 32;

/// The connection settings: those of the original, the setting that it recommends, and a recent
/// arangojs.
pub(super) fn connections() -> [Connection; 7] {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let row = |name, driver, sockets, original, title| Connection {
        name,
        driver,
        sockets,
        strategy: None,
        original,
        title,
    };
    let recommended = Some(RECOMMENDED_MIN.max(2 * cores));
    [
        row("arangojs_8_default", "arangojs-8", None, Some(0), "arangojs 8.3.0, default"),
        row("arangojs_8_10", "arangojs-8", Some(10), Some(1), "arangojs 8.3.0, maxSockets"),
        row("arangojs_8_100", "arangojs-8", Some(100), Some(2), "arangojs 8.3.0, maxSockets"),
        row(
            "arangojs_8_recommended",
            "arangojs-8",
            recommended,
            None,
            "arangojs 8.3.0, maxSockets",
        ),
        row("arangojs_10_default", "arangojs-10", None, None, "arangojs 10.4.0, default"),
        row("arangojs_10_100", "arangojs-10", Some(100), None, "arangojs 10.4.0, poolSize"),
        row("axios_default", "axios", None, Some(3), "axios 1.21.1, default"),
    ]
}

impl Connection {
    /// The name in tables.
    pub(super) fn title(&self) -> String {
        match self.sockets {
            Some(sockets) => format!("{} {sockets}", self.title),
            None => self.title.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_replace_the_defaults_of_the_scale() {
        let full = ConnectionPoolOptions { scale: Scale::Full, ..Default::default() };
        assert_eq!(full.documents(), 200_000);
        assert_eq!(full.queries(Access::Scan), [500, 1_000, 5_000, 10_000]);
        let said =
            ConnectionPoolOptions { queries: Some(7), documents: Some(9), ..Default::default() };
        assert_eq!((said.queries(Access::Index), said.documents()), (vec![7], 9));
        let many = ConnectionPoolOptions { queries: Some(5_000), ..Default::default() };
        assert_eq!(
            (many.queries(Access::Index), many.queries(Access::Scan)),
            (vec![5_000], vec![100])
        );
        let titles = connections().map(|connection| connection.title());
        assert_eq!(titles[2], "arangojs 8.3.0, maxSockets 100");
    }
}
