//! The conclusions of the original, and the readings of the figures here.

use std::collections::BTreeMap;

use pellucid_report::Finding;

use super::charts::node_share;
use super::figures::{Row, mean};
use super::plan::Access;

/// The share of its own ceiling that the client is to reach with 100 sockets.
const CEILING_SHARE_MIN: f64 = 0.95;

pub(super) fn findings(rows: &[Row], spread: &[Row]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for access in super::plan::ACCESSES {
        let queries = rows.iter().filter(|row| row.access == access).map(|row| row.queries);
        // The row that the original's sentence is about, or the one that is nearest to it.
        let Some(queries) = queries.min() else { continue };
        findings.push(sockets(rows, access, queries));
    }
    findings.push(ceiling(rows));
    findings.push(unfinished(rows));
    findings.extend(strategies(spread));
    findings
}

/// The effect of the driver's ways to choose among nodes, for most queries at a time.
fn strategies(spread: &[Row]) -> Option<Finding> {
    let queries = spread.iter().map(|row| row.queries).max()?;
    let original = "Whether loadBalancingStrategy helps is not asked.";
    let (mut told, mut figures) = (Vec::new(), Vec::new());
    for row in spread.iter().filter(|row| row.queries == queries) {
        let strategy = row.connection.strategy.unwrap_or_default();
        let busiest = mean(&row.pellucid, |run| node_share(run, 0));
        if let (Some(ms), Some(busiest)) = (Row::wall_ms(&row.pellucid), busiest) {
            told.push(format!("{strategy} {ms:.0} ms, {:.0} % by one node", busiest * 100.0));
            figures.push((format!("{}_ms", row.connection.name), ms));
            figures.push((format!("{}_busiest_share", row.connection.name), busiest));
        }
    }
    let sentence =
        format!("{queries} queries with 100 sockets and three nodes: {}.", told.join("; "));
    Some(finding("load_balancing".to_owned(), original, sentence, None, figures))
}

fn finding(
    name: String,
    original: &str,
    sentence: String,
    is_same: Option<bool>,
    figures: Vec<(String, f64)>,
) -> Finding {
    let original = original.to_owned();
    let figures: BTreeMap<String, f64> = figures.into_iter().collect();
    Finding { name, original, sentence, is_same, figures }
}

fn row_of<'a>(rows: &'a [Row], access: Access, queries: u64, name: &str) -> Option<&'a Row> {
    let is_it = |row: &&Row| row.access == access && row.queries == queries;
    rows.iter().filter(is_it).find(|row| row.connection.name == name)
}

/// True if more sockets help, and up to where.
fn sockets(rows: &[Row], access: Access, queries: u64) -> Finding {
    let row = |name: &'static str| row_of(rows, access, queries, name);
    let of = |name: &'static str| row(name).and_then(|row| Row::wall_ms(&row.pellucid));
    let alone = row("arangojs_8_100").and_then(|row| Row::wall_ms(&row.trivial)).unwrap_or(0.0);
    let original = "arangojs runs as many requests at a time as agentOptions.maxSockets says, by \
                    default 3; with 10 sockets 500 queries take a third of the time (1651 of 5146 \
                    ms), with 100 a fifth (1108 ms).";
    let name = format!("sockets_{}", access.name());
    let times = [of("arangojs_8_default"), of("arangojs_8_10"), of("arangojs_8_100")];
    let [Some(few), Some(ten), Some(hundred)] = times else {
        let sentence = "Not all of these rows finished, so they cannot be compared.".to_owned();
        return finding(name, original, sentence, None, Vec::new());
    };
    let sentence = format!(
        "{}, {queries} queries take {few:.0} ms by default, {ten:.0} ms with 10 sockets and \
         {hundred:.0} ms with 100: {:.1} and {:.1} times as fast. Against a server that \
         only sends an answer it is {alone:.0} ms with 100.",
        capitalized(access.title()),
        few / ten.max(0.001),
        few / hundred.max(0.001)
    );
    let figures = [("default_ms", few), ("sockets_10_ms", ten), ("sockets_100_ms", hundred)];
    let is_same = few / ten.max(0.001) >= 2.0 && hundred < ten;
    finding(name, original, sentence, Some(is_same), named(&figures))
}

fn named(figures: &[(&str, f64)]) -> Vec<(String, f64)> {
    figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The distance of the client from what it reaches against a server that does nothing.
fn ceiling(rows: &[Row]) -> Finding {
    let original = "How much of the time is the client's own is not asked.";
    let indexed = rows.iter().filter(|row| row.access == Access::Index);
    let shares: Vec<(String, f64)> = indexed
        .filter(|row| row.connection.name == "arangojs_8_100")
        .filter_map(|row| Some((format!("queries_{}", row.queries), row.share_of_ceiling()?)))
        .collect();
    let (name, sum) = ("ceiling", shares.iter().map(|(_, share)| share).sum::<f64>());
    if shares.is_empty() {
        let sentence = "No row with 100 sockets finished.".to_owned();
        return finding(name.to_owned(), original, sentence, None, Vec::new());
    }
    let mean = sum / shares.len() as f64;
    let sentence = format!(
        "arangojs 8.3.0 with 100 sockets and an index reaches {mean:.2} of what it reaches against \
         a server that only sends the same answer, {} the {CEILING_SHARE_MIN} that are aimed at.",
        if mean >= CEILING_SHARE_MIN { "which is at or above" } else { "which is below" }
    );
    let mut figures = shares;
    figures.push(("mean".to_owned(), mean));
    finding(name.to_owned(), original, sentence, None, figures)
}

/// The unfinished queries there, and here.
fn unfinished(rows: &[Row]) -> Finding {
    let original = "Without a driver, 5,000 and 10,000 queries at a time do not finish: the \
                    server's queue is full.";
    let refused: Vec<&Row> = rows.iter().filter(|row| !row.refusals().is_empty()).collect();
    let wrong: u64 = rows.iter().map(Row::wrong).sum();
    let figures = vec![
        ("rows".to_owned(), rows.len() as f64),
        ("rows_with_refusals".to_owned(), refused.len() as f64),
        ("wrong_answers".to_owned(), wrong as f64),
    ];
    let is_same = rows
        .iter()
        .any(|row| row.connection.name == "axios_default" && row.queries >= 5_000)
        .then_some(!refused.is_empty());
    let sentence = if refused.is_empty() {
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
    finding("unfinished".to_owned(), original, sentence, is_same, figures)
}
