//! Compares the conclusions of the original study with our runs.

use pellucid_report::{Estimate, Finding, Unit, both};

use super::charts::node_share;
use super::client::ClientRun;
use super::figures::Row;
use super::plan::Access;

/// If the client's speed against Pellucid is above this share of its speed against the bare server,
/// the client is the limit.
const BARE_SHARE: f64 = 0.95;
/// Ten sockets help if the queries are at least this many times as fast.
const TIMES_FASTER: f64 = 2.0;

/// The findings for these rows; findings whose rows are missing are left out.
pub(super) fn findings(rows: &[Row], spread: &[Row]) -> Vec<Finding> {
    let of = |access| sockets(rows, access);
    let sockets = [Access::Index, Access::Missing, Access::Scan].into_iter().filter_map(of);
    sockets.chain(limit(rows)).chain(unfinished(rows)).chain(strategies(spread)).collect()
}

fn times(name: String, runs: &[ClientRun]) -> Estimate {
    Estimate::of_runs(name, Unit::Nanoseconds, Row::wall_of_runs(runs).map(|ms| Some(ms? * 1e6)))
}

/// The ratio of the times of two rows, estimated over all runs.
fn ratio(name: &str, one: &Row, other: &Row) -> Estimate {
    let pairs = Row::wall_of_runs(&one.pellucid).zip(Row::wall_of_runs(&other.pellucid));
    Estimate::of_runs(name, Unit::Ratio, pairs.map(|(one, other)| Some(one? / other?)))
}

/// The finding about the effect of more sockets.
fn sockets(rows: &[Row], access: Access) -> Option<Finding> {
    // The smallest number of queries, which is that of the original's sentence or nearest to it.
    let of_access = || rows.iter().filter(|row| row.access == access);
    let queries = of_access().map(|row| row.queries).min()?;
    let row =
        |name: &str| of_access().find(|row| row.queries == queries && row.connection.name == name);
    let (few, ten, hundred) =
        (row("arangojs_8_default")?, row("arangojs_8_10")?, row("arangojs_8_100")?);
    let named = |name: &str, row: &Row| times(format!("time of all, {name}"), &row.pellucid);
    let all = [
        named("default", few),
        named("10 sockets", ten),
        named("100 sockets", hundred),
        times("time of all, 100 sockets, bare server".to_owned(), &hundred.trivial),
    ];
    let faster = ratio("default over 10 sockets", few, ten);
    let further = ratio("10 over 100 sockets", ten, hundred);
    let [default, of_ten, of_hundred, bare] = &all;
    let sentence = format!(
        "{queries} queries {} take {default} by default, {of_ten} with 10 sockets and \
         {of_hundred} with 100; against a server that only sends an answer {bare} with 100. Ten \
         sockets are {faster} times as fast.",
        access.title()
    );
    let holds = both(faster.is_above(TIMES_FASTER), further.is_above(1.0));
    let figures: Vec<Estimate> = all.into_iter().chain([faster, further]).collect();
    let original = "arangojs runs as many requests at a time as agentOptions.maxSockets says, by \
                    default 3; with 10 sockets 500 queries take a third of the time (1651 of 5146 \
                    ms), with 100 a fifth (1108 ms).";
    Some(Finding::new(format!("sockets_{}", access.name()), original, sentence, holds, figures))
}

/// The finding about the limit: the client's speed against Pellucid compared with that against the
/// bare server.
fn limit(rows: &[Row]) -> Option<Finding> {
    let is_one =
        |row: &&Row| row.access == Access::Index && row.connection.name == "arangojs_8_100";
    let rows: Vec<&Row> = rows.iter().filter(is_one).collect();
    let figures: Vec<Estimate> =
        rows.iter().map(|row| Estimate::of_runs(row.title(), Unit::Ratio, row.of_bare())).collect();
    let all = rows.iter().flat_map(|row| row.of_bare());
    let all = Estimate::of_runs("all rows", Unit::Ratio, all);
    all.value()?;
    let told = match all.is_above(BARE_SHARE) {
        Some(true) => "the client is the limit",
        Some(false) => "the server counts",
        None => "which of both is the limit cannot be told",
    };
    let sentence = format!(
        "arangojs 8.3.0 with 100 sockets and an index reaches {all} of what it reaches against a \
         server that only sends the same answer: {told}."
    );
    let figures: Vec<Estimate> = figures.into_iter().chain([all]).collect();
    let original = "How much of the time is the client's own is not asked.";
    Some(Finding::new("client_limit", original, sentence, None, figures).not_asked())
}

/// The finding about queries that are not answered, in the original and here.
fn unfinished(rows: &[Row]) -> Option<Finding> {
    let refused: Vec<&Row> = rows.iter().filter(|row| !row.refusals().is_empty()).collect();
    let wrong: u64 = rows.iter().map(Row::wrong).sum();
    // The rows that did not finish in the original, with the same length of the queue.
    let there = rows.iter().find(|row| row.access == Access::Queue);
    let holds = there.map(|_| refused.iter().any(|row| row.access == Access::Queue));
    let sentence = if rows.is_empty() {
        return None;
    } else if refused.is_empty() {
        format!("Every query of all {} rows is answered.", rows.len())
    } else {
        let told = refused.iter().map(|row| {
            let whats = row.refusals();
            let whats = whats.iter().map(|(what, count)| format!("{count} of them {what}"));
            let whats = whats.collect::<Vec<_>>().join(", ");
            format!("{} {} ({whats})", row.title(), row.access.title())
        });
        format!(
            "{} of {} rows have queries that are not answered: {}. 503/21003 says that the queue \
             is full, and asks to come again.",
            refused.len(),
            rows.len(),
            told.collect::<Vec<_>>().join("; ")
        )
    };
    let counted = |name: &str, count: usize| Estimate::counted(name, Unit::Count, count as f64);
    let figures = [
        counted("rows", rows.len()),
        counted("rows with refusals", refused.len()),
        counted("wrong answers", usize::try_from(wrong).unwrap_or(usize::MAX)),
    ];
    let original = "Without a driver, 5,000 and 10,000 queries at a time do not finish: the \
                    server's queue is full.";
    Some(Finding::new("unfinished", original, sentence, holds, figures))
}

/// The finding about the driver's strategies to choose among nodes, for the largest number of
/// concurrent queries.
fn strategies(spread: &[Row]) -> Option<Finding> {
    let queries = spread.iter().map(|row| row.queries).max()?;
    let (mut told, mut figures) = (Vec::new(), Vec::new());
    for row in spread.iter().filter(|row| row.queries == queries) {
        let strategy = row.connection.strategy.unwrap_or_default();
        let all = times(format!("{strategy}, time of all"), &row.pellucid);
        let shares = row.pellucid.iter().map(|run| node_share(run, 0));
        let name = format!("{strategy}, answers of the busiest node");
        let busiest = Estimate::of_runs(name, Unit::Share, shares);
        told.push(format!("{strategy} {all}, {busiest} by one node"));
        figures.extend([all, busiest]);
    }
    let sentence =
        format!("{queries} queries with 100 sockets and three nodes: {}.", told.join("; "));
    let original = "Whether loadBalancingStrategy helps is not asked.";
    Some(Finding::new("load_balancing", original, sentence, None, figures).not_asked())
}
