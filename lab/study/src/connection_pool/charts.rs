//! The tables of the study: our figures beside the original's, and the parts of a query's time.

use pellucid_report::{Chart, ChartForm, ChartSection, Series, Unit};

use super::client::{ClientRun, Stages};
use super::figures::{Row, mean};
use super::original;
use super::plan::{ACCESSES, Access, NODES};

/// The name of the server that always sends the same answer.
const BARE: &str = "the bare server";

type StageFunction = fn(&Stages) -> Option<f64>;

/// The stages of a query before the server.
const BEFORE: [(&str, StageFunction); 3] = [
    ("waiting for a place in the driver", |stages| stages.driver_ms),
    ("waiting for a socket", |stages| stages.socket_ms),
    ("connecting", |stages| stages.connect_ms),
];
/// The stages of a query around and after the server.
const AFTER: [(&str, StageFunction); 2] = [
    ("on the way, and the client's loop of events", |stages| stages.between_ms),
    ("reading and decoding", |stages| stages.decode_ms),
];

pub(super) fn sections(rows: &[Row], spread: &[Row]) -> Vec<ChartSection> {
    let mut sections: Vec<_> =
        ACCESSES.into_iter().filter_map(|access| section(rows, access)).collect();
    sections.push(spread_section(spread));
    sections
}

/// The main chart of the study: the time of all queries by connection, for the smallest number of
/// concurrent queries.
pub(super) fn picture(rows: &[Row]) -> Option<Chart> {
    let indexed = || rows.iter().filter(|row| row.access == Access::Index);
    let queries = indexed().map(|row| row.queries).min()?;
    let rows: Vec<&Row> = indexed().filter(|row| row.queries == queries).collect();
    let of = |runs: fn(&Row) -> &[ClientRun]| {
        rows.iter().map(|row| in_ns(Row::wall_ms(runs(row)))).collect()
    };
    let words = (
        "picture",
        format!("{queries} queries at once, with an index"),
        "From the first query to the last answer, by the client's connection: on Pellucid, and on \
         a server that only sends the same answer. Means of all runs.",
    );
    let form = ChartForm::Groups { rows: rows.iter().map(|row| row.connection.title()).collect() };
    let pellucid = Series::new("Pellucid", of(|row| &row.pellucid));
    let bare = Series::new(BARE, of(|row| &row.trivial));
    Some(Chart::new(words, Unit::Nanoseconds, form, [pellucid, bare]))
}

/// The section about the driver's strategies to choose among nodes.
fn spread_section(rows: &[Row]) -> ChartSection {
    let rows: Vec<&Row> = rows.iter().collect();
    let columns = ["the busiest", "the second", "the third"];
    let of = |row: &&Row| {
        let shares = (0..NODES).map(|place| mean(&row.pellucid, |run| node_share(run, place)));
        Series::new(row.title(), shares.collect())
    };
    let words = (
        "spread_nodes",
        "Which node answered",
        "The share of all answers of a row that each node gave, the busiest of each run first.",
    );
    let form = ChartForm::Table { columns: columns.map(str::to_owned).to_vec() };
    let nodes = Chart::new(words, Unit::Share, form, rows.iter().map(of));
    ChartSection::new(
        "Three nodes",
        "With an index, and the driver's loadBalancingStrategy: NONE stays with the first node \
         that it has, ROUND_ROBIN takes one after the other, ONE_RANDOM stays with one that it \
         drew.",
        vec![times(&rows, "spread"), nodes],
    )
}

/// The share of a run's answers that one node gave. `place` 0 is the busiest node.
pub(super) fn node_share(run: &ClientRun, place: usize) -> Option<f64> {
    let mut counts: Vec<u64> = run.nodes.values().copied().collect();
    counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    let all: u64 = counts.iter().sum();
    (all > 0).then(|| counts.get(place).copied().unwrap_or(0) as f64 / all as f64)
}

fn section(rows: &[Row], access: Access) -> Option<ChartSection> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.access == access).collect();
    let name = access.name();
    let runs = rows.first()?.pellucid.len();
    Some(ChartSection::new(
        format!("Queries {}", access.title()),
        format!(
            "All queries of a row are asked for at once; means of {runs} runs. Beside them stands \
             what the same client takes against a bare server, which only sends the same answer."
        ),
        vec![times(&rows, name), account(&rows, name), client(&rows, name)],
    ))
}

fn in_ns(milliseconds: Option<f64>) -> Option<f64> {
    milliseconds.map(|milliseconds| milliseconds * 1e6)
}

/// Our times, and those of the original for connections that it has.
fn times(rows: &[&Row], name: &str) -> Chart {
    let has_original = rows.iter().any(|row| row.connection.original.is_some());
    let mut columns = vec!["Pellucid".to_owned(), BARE.to_owned()];
    let mut description = "From the first query to the last answer. ".to_owned();
    if has_original {
        columns.push("ArangoDB in the original".to_owned());
        description += "The original ran on other machines, over a network. An empty field: not \
                        run there, or not all queries were answered.";
    } else {
        description += "An empty field: not all queries were answered.";
    }
    let of = |row: &&Row| {
        let mut values = vec![Row::wall_ms(&row.pellucid), Row::wall_ms(&row.trivial)];
        if has_original {
            let column = row.connection.original;
            values.push(column.and_then(|column| original::milliseconds(row.queries, column)));
        }
        Series::new(row.title(), values.into_iter().map(in_ns).collect())
    };
    Chart::new(
        (format!("{name}_times"), "Time of all queries", description),
        Unit::Nanoseconds,
        ChartForm::Table { columns },
        rows.iter().map(of),
    )
}

/// The parts of the mean time of a query, as bars.
fn account(rows: &[&Row], name: &str) -> Chart {
    let outside = |(title, of): &(&str, StageFunction)| {
        Series::new(*title, rows.iter().map(|row| positive(row.stage_ns(of))).collect())
    };
    let queue = |row: &&Row| row.server_ns("queue");
    let query = |row: &&Row| row.server_ns("execute");
    let rest = |row: &&Row| {
        let total = row.stage_ns(|stages| stages.server_ms)?;
        positive(Some(total - queue(row)? - query(row)?))
    };
    let within = [
        Series::new("the server's queue", rows.iter().map(queue).collect()),
        Series::new("the query", rows.iter().map(query).collect()),
        Series::new("the rest of the server", rows.iter().map(rest).collect()),
    ];
    let words = (
        format!("{name}_account"),
        "Where the time of a query goes",
        "Means of a query, from the call of the driver to its documents: the client's own \
         account around the server's.",
    );
    let form = ChartForm::Bars { rows: rows.iter().map(|row| row.title()).collect() };
    let series = BEFORE.iter().map(outside).chain(within).chain(AFTER.iter().map(outside));
    Chart::new(words, Unit::Nanoseconds, form, series)
}

/// Raises negative values to zero. A mean is a difference of sums of clock readings, whose limited
/// resolution can make it slightly negative.
fn positive(value: Option<f64>) -> Option<f64> {
    value.map(|value| value.max(0.0))
}

/// The client's latencies and processor time.
fn client(rows: &[&Row], name: &str) -> Chart {
    let columns =
        ["median of a query", "99 %", "client's processor, a query", "the same, bare server"];
    let form = ChartForm::Table { columns: columns.map(str::to_owned).to_vec() };
    let of = |row: &&Row| {
        let processor = |runs| {
            mean(runs, |run| (run.answered > 0).then(|| run.processor_ms / run.answered as f64))
        };
        let values = [
            mean(&row.pellucid, |run| run.median_ms),
            mean(&row.pellucid, |run| run.p99_ms),
            processor(&row.pellucid),
            processor(&row.trivial),
        ];
        Series::new(row.title(), values.map(in_ns).to_vec())
    };
    let words = (
        format!("{name}_client"),
        "The client",
        "What a query waits, and the time that the client's process uses the processors for one: \
         what it needs alone bounds what it can reach on one core.",
    );
    Chart::new(words, Unit::Nanoseconds, form, rows.iter().map(of))
}
